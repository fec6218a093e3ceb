# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`explain`: differences, loop nests, the page, and a folder in which no file is lost."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tilewright.cli import explain as explain_module
from tilewright.cli import explain_diff, explain_folder, explain_nest, explain_page, explain_tiles, main
from tilewright.cli.explain_diff import ADDED, REMOVED, SAME, difference
from tilewright.cli.problem import Problem, given
from tilewright.emit import hotloop
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.errors import TargetError, TilewrightError

SHAPE = ("--shape", "128x256x96")
FILES = {
    "1-payload.mlir",
    "2-scheduled.mlir",
    "3-bufferized.mlir",
    "4-llvm.mlir",
    "5-llvmir.ll",
    "explain.json",
    "hot_loop.s",
    "index.html",
    "kernel.s",
    "moves.txt",
    "schedule.mlir",
    "tiles.svg",
}
ANALYSIS = {"hot_loop.mca.json", "hot_loop.mca.txt"}
HAS_MCA = shutil.which("llvm-mca-22") is not None or shutil.which("llvm-mca") is not None


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


# Differences.


def marked(before, after):
    found = difference(before, after)
    signs = [sign for kind, count in found.runs for sign in " +-"[kind] * count]
    return [sign + line for sign, line in zip(signs, found.lines, strict=True)]


def test_new_and_gone_lines_are_marked():
    assert marked("a\nb\nc", "a\nx\nc\nd") == [" a", "-b", "+x", " c", "+d"]


def test_names_of_values_and_indentation_are_not_differences():
    before = "%0 = arith.addi %arg0, %c1 : index\n^bb3(%5: i1):\n#map1 = affine_map<(d0) -> (d0)>\nx\ny"
    after = "  %7 = arith.addi %x, %c1_2 : index\n^bb1(%2: i1):\n#map = affine_map<(d0) -> (d0)>\nx\ny"
    found = difference(before, after)
    assert found.count(ADDED) == found.count(REMOVED) == 0
    assert found.lines == tuple(after.splitlines())


def test_constants_types_and_operations_are_differences():
    for old, new in (("%0 = f 1", "%0 = f 2"), ("%0 = f : f32", "%0 = f : f64"), ("%0 = f %1", "%0 = g %1")):
        assert difference(f"a\nb\n{old}", f"a\nb\n{new}").count(ADDED) == 1


def test_runs_cover_the_lines():
    found = difference("a\nb\nc\n" * 50, "a\nc\nd\n" * 50)
    assert sum(count for _, count in found.runs) == len(found.lines)
    assert {kind for kind, _ in found.runs} <= {SAME, ADDED, REMOVED}


def test_a_text_that_is_rewritten_is_not_marked():
    found = difference("\n".join(f"old {n}" for n in range(100)), "\n".join(f"new {n}" for n in range(100)))
    assert found.note == "Nearly every line is new, so nothing is marked."
    assert found.runs == ((SAME, 100),)


def test_very_long_texts_are_not_compared():
    found = difference("a\n", "b\n" * (explain_diff._MAX_LINES + 1))
    assert found.note is not None
    assert found.note.startswith("Not compared")


@pytest.mark.parametrize(("before", "after"), [("", ""), ("", "a"), ("a", "")])
def test_empty_texts(before, after):
    assert difference(before, after).lines in ((), ("a",))


# Loop nests.

NEST = """
#map = affine_map<(d0) -> (-d0 + 1000, 256)>
module {
  func.func @f() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c1000 = arith.constant 1000 : index
    %c256 = arith.constant 256 : index
    %0 = scf.for %i = %c0 to %c1000 step %c256 iter_args(%x = %t) -> (tensor<4xf32>) {
      %m = affine.min #map(%i)
      %1 = scf.for %j = %c0 to %m step %c8 iter_args(%y = %x) -> (tensor<4xf32>) {
        %2 = vector.transfer_read %a[%i, %j], %cst : tensor<4x4xf32>, vector<4xf32>
        %3 = vector.transfer_read %a[%i, %j], %cst : tensor<4x4xf32>, vector<4xf32>
        %4 = scf.if %p -> (vector<4xf32>) {
          %5 = vector.contract {kind = #vector.kind<add>} %2, %3, %z : vector<4xf32>
          scf.yield %5 : vector<4xf32>
        } else {
          scf.yield %z : vector<4xf32>
        }
        scf.yield %y : tensor<4xf32>
      }
      scf.yield %1 : tensor<4xf32>
    }
    scf.forall (%i, %j) in (4, 8) {
      linalg.fill ins(%z : f32) outs(%o : tensor<f32>)
    }
    linalg.matmul ins(%a, %b) outs(%c)
  }
}
"""


def test_loop_nest():
    outer, inner, parallel = explain_nest.loops(NEST, {"mr": 8, "nr": 64, "mc": 256, "nc": 512, "kc": 128})
    assert (outer.depth, outer.variable, outer.lower, outer.upper, outer.step) == (0, "i", "0", "1000", "256")
    assert (outer.trips, outer.name, dict(outer.operations)) == (4, "ic", {})
    assert (inner.depth, inner.upper, inner.step, inner.trips, inner.name) == (1, "≤ 256", "8", None, "ir")
    assert inner.operations == {"vector.transfer_read": 2, "vector.contract": 1}
    assert (parallel.depth, parallel.upper, parallel.operations) == (0, "4, 8", {"linalg.fill": 1})


def test_a_step_that_two_sizes_have_names_no_loop():
    assert explain_nest.loops(NEST, {"mr": 8, "nr": 8, "mc": 256})[1].name is None


def test_no_loops():
    assert explain_nest.loops("module {\n}\n", {}) == []
    assert explain_nest.loops("not MLIR scf.for %", {}) == []


# The folder.


def test_all_files_are_written(capsys, place):
    assert main(["explain", *SHAPE, "--schedule", "packed", "-o", "out"]) == 0
    printed = capsys.readouterr()
    expected = FILES | ANALYSIS if HAS_MCA else FILES
    assert {path.name for path in (place / "out").iterdir()} == expected
    assert printed.out.startswith("out/index.html: 128x256x96 f32 nn for host, packed (mr=")
    assert re.search(r"hot loop: \d+ instructions, \d+ FMAs, \d+ loads, 0 spills, 0 gathers", printed.out)
    facts = json.loads((place / "out" / "explain.json").read_text())
    assert facts["parameters"].keys() == {"mr", "nr", "mc", "nc", "kc"}
    assert facts["hot_loop"]["stack_accesses"] == 0
    assert facts["seconds"].keys() == set(CPU_TEXTS)
    marked = hotloop.hottest((place / "out" / "hot_loop.s").read_text())
    whole = hotloop.hottest((place / "out" / "kernel.s").read_text())
    assert marked is not None
    assert whole is not None
    assert marked.lines == whole.lines


@pytest.mark.skipif(not HAS_MCA, reason="llvm-mca is not installed")
@pytest.mark.parametrize(
    ("target", "cycles", "model", "ports"),
    [
        ("znver4", "24.0", "znver4 model of LLVM 22. znver4 of LLVM 22 has some instructions slower", "Zn4FP"),
        ("znver5", "12.0", "skylake-avx512 model of LLVM 22. LLVM 22 has Zen 4's model for znver5", "SKXPort"),
    ],
)
def test_the_model_is_named_with_its_ports(capsys, place, target, cycles, model, ports):
    """Of 24 multiply-adds, of which Zen 4 starts one a cycle and Zen 5 two."""
    sizes = [f"--set={size}" for size in ("mr=6", "nr=64")]
    assert main(["explain", "--shape", "96x128x64", "--target", target, "--schedule", "packed", *sizes, "-o", "d"]) == 0
    assert f"{cycles} cycles, 100 % of the FMA bound ({model}" in capsys.readouterr().out
    facts = json.loads((place / "d" / "explain.json").read_text())
    assert (place / "d" / "hot_loop.mca.txt").read_text().startswith(f"# {facts['hot_loop']['model']}\n# ")
    assert ports in (place / "d" / "index.html").read_text()


def test_without_a_loop(capsys, place):
    assert main(["explain", "--shape", "0x4x4", "-o", "out"]) == 0
    assert "straight-line" in (place / "out" / "hot_loop.s").read_text()
    assert "hot loop: none" in capsys.readouterr().out
    assert not (place / "out" / "schedule.mlir").exists()
    assert "hot" in data_of((place / "out" / "index.html").read_text())


def test_without_llvm_mca_everything_else_is_written(capsys, monkeypatch, place):
    def absent(*_args, **_kwargs):
        raise TargetError("llvm-mca is not installed", remedy="Install it")

    monkeypatch.setattr("tilewright.emit.mca.analyze", absent)
    assert main(["explain", *SHAPE, "-o", "out"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "tilewright: the hot loop is not analyzed: llvm-mca is not installed. Install it\n"
    assert {path.name for path in (place / "out").iterdir()} == FILES
    assert "is not analyzed" in data_of((place / "out" / "index.html").read_text())["note"]


def test_an_earlier_explanation_is_replaced(place):
    assert main(["explain", *SHAPE, "-o", "out"]) == 0
    assert main(["explain", "--shape", "0x4x4", "-o", "out"]) == 0
    names = {path.name for path in (place / "out").iterdir()}
    assert names == FILES - {"schedule.mlir", "tiles.svg"}
    assert main(["explain", *SHAPE, "--against", "out", "-o", "new"]) == 0
    assert main(["explain", "--shape", "0x4x4", "--against", "new", "-o", "out"]) == 0
    assert "transform ops:" in (place / "out" / "against.txt").read_text()


def test_an_empty_folder_and_new_parents_will_do(place):
    (place / "empty").mkdir()
    assert main(["explain", "--shape", "0x4x4", "-o", "empty"]) == 0
    assert main(["explain", "--shape", "0x4x4", "-o", "new/deep/er"]) == 0
    assert (place / "new" / "deep" / "er" / "index.html").exists()


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "says"),
    [("notes.txt", "no earlier explain wrote notes.txt"), ("kernel.s", "kernel.s was changed since explain wrote it")],
)
def test_a_users_file_is_never_touched(capsys, place, name, says):
    assert main(["explain", "--shape", "0x4x4", "-o", "out"]) == 0
    (place / "out" / name).write_text("mine")
    before = content(place / "out")
    assert main(["explain", "--shape", "0x4x5", "-o", "out"]) == 2
    assert says in capsys.readouterr().err
    assert content(place / "out") == before


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", "{}", '{"kind": "other", "files": {}}', '{"kind": "tilewright explain", "files": {"../x": "y"}}', "\0"],
)
def test_a_list_that_is_not_ours_gives_no_right_to_the_folder(place, manifest):
    (place / "out").mkdir()
    (place / "out" / "explain.json").write_text(manifest)
    with pytest.raises(TilewrightError, match="no earlier explain wrote"):
        explain_folder.write(place / "out", {"a": b"1"}, {})
    assert content(place / "out") == {"explain.json": manifest.encode()}


def test_a_failure_leaves_no_folder(monkeypatch, place):
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda self, data: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(TilewrightError, match="No space"):
        explain_folder.write(place / "new" / "out", {"a": b"1"}, {})
    assert list(place.iterdir()) == []


def test_a_failed_compilation_leaves_no_folder(place):
    (place / "bad.mlir").write_text("module {}")
    assert main(["explain", *SHAPE, "--schedule", "bad.mlir", "-o", "out"]) == 2
    assert not (place / "out").exists()


# Drawings, and two kernels.


def test_blocks_are_drawn_to_scale():
    sizes = {"mr": 6, "nr": 64, "mc": 132, "nc": 384, "kc": 1024}
    of = {"A": 4, "B": 4, "C": 4}
    whole, block, tile = explain_tiles.levels((2048, 1024, 4096), sizes, 16, of, {"L1": 32 << 10, "L2": 1 << 20})
    assert (whole.inner, block.inner) == ((132, 384, 1024), (6, 64, 1024))
    assert "A 528 KiB, 52% of L2" in block.note
    assert "B 1.5 MiB, in no cache" in block.note
    assert tile.note == "6×4 registers of 16 sums"
    drawn = ElementTree.fromstring(explain_tiles.svg([whole]))
    boxes = [
        tuple(float(each.get(name, "")) for name in ("width", "height"))
        for each in drawn.iter("{http://www.w3.org/2000/svg}rect")
    ]
    scale = boxes[0][0] / 4096  # Of A, which is 4096 columns wide.
    extents = [(4096, 2048), (1024, 132), (1024, 4096), (384, 1024), (1024, 2048), (384, 132)]
    for (width, height), (columns, rows) in zip(boxes, extents, strict=True):
        assert (width, height) == (pytest.approx(columns * scale, abs=0.06), pytest.approx(rows * scale, abs=0.06))
    # Four vectors in each of six rows.
    assert (
        len(list(ElementTree.fromstring(explain_tiles.svg([tile])).iter("{http://www.w3.org/2000/svg}line"))) == 3 + 5
    )
    assert explain_tiles.levels((0, 4, 4), sizes, 16, of, {}) == explain_tiles.levels((4, 4, 4), {}, 16, of, {}) == []


def test_two_kernels_are_compared(capsys, place):
    what = ["explain", "--shape", "192x512x192", "--target", "x86-64-v4", "--schedule", "packed"]
    assert main([*what, "-o", "first"]) == 0
    assert main([*what, "--threads", "2", "--set", "mr=4", "--against", "first", "-o", "second"]) == 0
    text = (place / "second" / "against.txt").read_text()
    assert re.search(r"^mr +6 +4  × 0.667$", text, re.MULTILINE)
    assert re.search(r"^fma +24 +16  × 0.667$", text, re.MULTILINE)
    assert re.search(r"^threads +1 +2  × 2$", text, re.MULTILINE)
    assert '+% = transform.tune.knob<"mr"> = 4' in text
    assert "not measured" in text
    data = data_of((place / "second" / "index.html").read_text())
    assert data["differences"] == text
    assert data["tiles"] == (place / "second" / "tiles.svg").read_text()
    assert re.search(r"\d threads, \d+ to \d+ tiles each", data["moves"])
    assert main([*what, "--against", "first", "-o", "third"]) == 0
    same = (place / "third" / "against.txt").read_text()
    assert "the same transform ops" in same
    assert "×" not in same
    for folder in ("absent", "."):
        assert main([*what, "--against", folder, "-o", "fourth"]) == 2
        assert "holds no explanation" in capsys.readouterr().err
    assert main(["explain", "--shape", "64x64x64", "--target", "sm_90a", "--against", "first", "-o", "fifth"]) == 2


# The page.


class Reader(HTMLParser):
    """Collects the tags with their attributes, and the text of the scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts, self._script = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = ""

    def handle_endtag(self, tag):
        if tag == "script":
            self.scripts.append(self._script)
            self._script = None

    def handle_data(self, data):
        if self._script is not None:
            self._script += data


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def data_of(page):
    return json.loads(read(page).scripts[0])


def page_of(shape=(40, 48, 32), change=None):
    problem = given(
        None,
        [shape],
        dtype="f32",
        layout="nn",
        batch=(),
        beta=0,
        b_packed=False,
        prologue_a=(),
        prologue_b=(),
        deterministic=False,
        epilogue=(),
        target="x86-64-v3",
        threads=1,
        schedule="packed",
        parameters={},
    )
    assert isinstance(problem, Problem)
    stages = problem.build("asm")
    for name, text in (change or {}).items():
        stages.texts[name] = text
    loop = hotloop.hottest(stages.texts["asm"])
    return explain_page.render(
        explain_page.Page(problem, stages, explain_module._names(stages.texts), loop, None, None)
    )


def test_the_page_has_every_stage_and_its_file():
    data = data_of(page_of())
    assert [stage["name"] for stage in data["stages"]] == list(CPU_TEXTS)
    assert data["stages"][2]["before"] == "Payload"
    assert data["stages"][2]["added"] > 10
    assert data["nest"]
    assert {loop["name"] for loop in data["nest"]} & {"jr", "ir"}
    assert sum(data["hot"]["mix"].values()) == len(data["hot"]["instructions"])
    for stage in data["stages"]:
        assert sum(count for _, count in stage["runs"]) == len(stage["lines"].split("\n"))


def test_the_page_loads_nothing():
    page = page_of()
    reader = read(page)
    assert "default-src 'none'" in page
    for tag, attributes in reader.tags:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert tag != "link" or attributes["href"] == "data:,"
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", page)


def test_text_cannot_leave_its_place_in_the_page():
    hostile = '// </script><script>alert(1)</script> <!-- \u2028 %0 = "x" \\ </SCRIPT >\n'
    page = page_of(change={"payload": hostile})
    reader = read(page)
    assert len(reader.scripts) == 2
    assert json.loads(reader.scripts[0])["stages"][0]["lines"] == hostile.rstrip("\n")
    assert "alert(1)</script>" not in page


def test_long_stages_are_cut(monkeypatch):
    monkeypatch.setattr(explain_page, "_MAX_LINES", 5)
    data = data_of(page_of())
    for stage in data["stages"]:
        assert len(stage["lines"].split("\n")) <= 5
        assert sum(count for _, count in stage["runs"]) <= 5
        assert stage["left_out"] > 0 or len(stage["lines"].split("\n")) <= 5
    assert any(stage["left_out"] for stage in data["stages"])


def test_every_category_has_a_color():
    page = page_of()
    for category in hotloop.CATEGORIES:
        assert page.count(f"--{category}:") == 3  # light, dark by the system, dark by choice


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
def test_instructions_of_a_call_are_counted(capsys):
    assert main(["explain", "--count", "--target", "neoverse-n1", "--shape", "16x16x32", "-o", "folder"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    facts = json.loads(Path("folder", "explain.json").read_text(encoding="utf-8"))
    # 8192 multiply-adds in vectors of four, and less than twice as many instructions altogether.
    assert 2048 < facts["instructions"] < 4096
    assert line.startswith(f"{facts['instructions']} instructions a call")
    assert data_of(Path("folder", "index.html").read_text(encoding="utf-8"))["count"]["kernel"] == facts["instructions"]


def test_instructions_are_not_counted_on_this_machine(capsys):
    assert main(["explain", "--count", *SHAPE, "-o", "folder"]) == 2
    assert "this machine runs code for host itself" in capsys.readouterr().err
