# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`explain`: the page, and a folder in which no file is lost."""

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lab_pages import data_of, lines_of, shown_in
from tilewright.cli import explain_folder, explain_page, main
from tilewright.cli.problem import Problem
from tilewright.emit import hotloop
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.errors import TargetError, TilewrightError
from tilewright.lab import blocks, bundle
from tilewright.schedules import make
from tilewright.schedules.models.register_tiles import MANY_REGISTERS
from tilewright.spec import MatmulSpec
from tilewright.targets import resolve

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


# The folder.


def test_all_files_are_written(capsys, place):
    assert main(["explain", *SHAPE, "--schedule", "packed", "-o", "out"]) == 0
    printed = capsys.readouterr()
    expected = FILES | ANALYSIS if HAS_MCA else FILES
    assert {path.name for path in (place / "out").iterdir()} == expected
    assert printed.out.startswith("out/index.html: 128x256x96 f32 nn for host, packed (mr=")
    assert re.search(r"hot loop: \d+ instructions, \d+ FMAs, \d+ loads, 0 spills, 0 gathers", printed.out)
    facts = json.loads((place / "out" / "explain.json").read_text())
    host = resolve("host")
    waits = {"rows_ahead"} if host.rows_ahead else set()
    taken = {"unroll"} if host.fuses and host.vector_registers < MANY_REGISTERS else set()
    assert facts["parameters"].keys() == {"mr", "nr", "mc", "nc", "kc"} | waits | taken
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
    assert any(ports in each for each in shown_in(place / "d")["hot"]["analysis"]["pressure"])


def test_without_a_loop(capsys, place):
    assert main(["explain", "--shape", "0x4x4", "-o", "out"]) == 0
    assert "straight-line" in (place / "out" / "hot_loop.s").read_text()
    assert "hot loop: none" in capsys.readouterr().out
    assert not (place / "out" / "schedule.mlir").exists()
    assert shown_in(place / "out")["hot"] is None


def test_without_llvm_mca_everything_else_is_written(capsys, monkeypatch, place):
    def absent(*_args, **_kwargs):
        raise TargetError("llvm-mca is not installed", remedy="Install it")

    monkeypatch.setattr("tilewright.emit.mca.analyze", absent)
    assert main(["explain", *SHAPE, "-o", "out"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "tilewright: the hot loop is not analyzed: llvm-mca is not installed. Install it\n"
    assert {path.name for path in (place / "out").iterdir()} == FILES
    assert "is not analyzed" in shown_in(place / "out")["note"]


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
    whole, block, tile = blocks.levels((2048, 1024, 4096), sizes, 16, of, {"L1": 32 << 10, "L2": 1 << 20})
    assert (whole.inner, block.inner) == ((132, 384, 1024), (6, 64, 1024))
    assert "A 528 KiB, 52% of L2" in block.note
    assert "B 1.5 MiB, in no cache" in block.note
    assert tile.note == "6×4 registers of 16 sums"
    drawn = ElementTree.fromstring(blocks.svg([whole]))
    boxes = [
        tuple(float(each.get(name, "")) for name in ("width", "height"))
        for each in drawn.iter("{http://www.w3.org/2000/svg}rect")
    ]
    scale = boxes[0][0] / 4096  # Of A, which is 4096 columns wide.
    extents = [(4096, 2048), (1024, 132), (1024, 4096), (384, 1024), (1024, 2048), (384, 132)]
    for (width, height), (columns, rows) in zip(boxes, extents, strict=True):
        assert (width, height) == (pytest.approx(columns * scale, abs=0.06), pytest.approx(rows * scale, abs=0.06))
    # Four vectors in each of six rows.
    assert len(list(ElementTree.fromstring(blocks.svg([tile])).iter("{http://www.w3.org/2000/svg}line"))) == 3 + 5
    assert blocks.levels((0, 4, 4), sizes, 16, of, {}) == blocks.levels((4, 4, 4), {}, 16, of, {}) == []


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
    shown = shown_in(place / "second")
    assert shown["differences"] == text
    assert any(len(loop["shares"]) == 2 for loop in shown["moves"]["loops"])
    assert main([*what, "--against", "first", "-o", "third"]) == 0
    same = (place / "third" / "against.txt").read_text()
    assert "the same transform ops" in same
    assert "×" not in same
    for folder in ("absent", "."):
        assert main([*what, "--against", folder, "-o", "fourth"]) == 2
        assert "holds no explanation" in capsys.readouterr().err
    assert main(["explain", "--shape", "64x64x64", "--target", "sm_90a", "--against", "first", "-o", "fifth"]) == 2


# The page.


def test_the_page_has_every_stage_and_step(place):
    """Lines of the assembly and of the IR name lines of the schedule that is shown beside them."""
    assert main(["explain", *SHAPE, "--target", "x86-64-v3", "--schedule", "packed", "-o", "out"]) == 0
    page = (place / "out" / "index.html").read_text()
    shown = data_of(page)
    answer, trace, schedule = shown["answer"], shown["trace"], shown["problem"]["text"]
    assert schedule == (place / "out" / "schedule.mlir").read_text()
    assert [name for name in answer["stages"] if name] == list(CPU_TEXTS)
    assert lines_of(answer["texts"], answer["stages"]["bufferized"]) == (
        (place / "out" / "3-bufferized.mlir").read_text().splitlines()
    )
    tilings = [step for step in trace["steps"] if step["name"] == "structured.tile_using_for"]
    named = [int(step["source"].removeprefix("schedule.mlir:")) for step in tilings]
    assert all("tile_using_for" in schedule.splitlines()[line - 1] for line in named)
    assert {step["kind"] for step in trace["steps"]} == {"transform ops", "MLIR's passes", "LLVM's passes"}
    hot = [each["origin"] for each in answer["hot"]["instructions"] if each["category"] == "multiply-add"]
    assert all(re.match(r"schedule\.mlir:\d+ in jr, ir, ", each) for each in hot)
    assert len(answer["drawings"]) == 2


def test_of_a_file_the_page_shows_its_own_lines(place):
    (place / "own.py").write_text(OWN)
    assert main(["explain", "--shape", "32x48x16", "--schedule", "own.py", "--target", "x86-64-v3", "-o", "out"]) == 0
    shown = data_of((place / "out" / "index.html").read_text())
    assert (shown["problem"]["text"], shown["problem"]["language"]) == (OWN, "py")
    sources = {step["source"] for step in shown["trace"]["steps"] if step["kind"] == "transform ops"}
    assert "schedule.py:7" in sources


OWN = """from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        tile = steps.match(script.root, "linalg.matmul")
        tile, _loop = steps.tile(tile, [4, 24, 1])
        steps.vectorize(tile)
    return script.module
"""


def test_the_page_loads_nothing(place):
    assert main(["explain", "--shape", "0x4x4", "-o", "out"]) == 0
    page = (place / "out" / "index.html").read_text()
    assert "default-src 'none'" in page
    assert not re.search(r"<(iframe|object|embed|base)\b", page)
    assert not re.search(r"\bsrc=|url\(|@import|innerHTML|eval\(", page)
    assert set(re.findall(r"https?://[^\"' )]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_what_a_page_has_no_room_for_is_left_out(monkeypatch):
    """Less and less: LLVM's passes are one step, then stages are the steps, then long stages are cut."""
    monkeypatch.setattr("tilewright.lab.page._CUTS", (12_000, 200))
    target = resolve("x86-64-v3")
    spec = MatmulSpec(48, 48, 32)
    made = explain_page.compiled(Problem(spec, target, make.make(spec, target, "packed")))
    shown = []
    for _ in range(4):
        page = made.render(made.built)
        shown.append(data_of(page))
        monkeypatch.setattr("tilewright.lab.page.LIMIT", len(page.encode()) - 1)
    every, joined, staged, cut = shown
    assert sum(step["kind"] == "LLVM's passes" for step in every["trace"]["steps"]) > 100
    (llvm,) = [step for step in joined["trace"]["steps"] if step["kind"] == "LLVM's passes"]
    assert len(joined["trace"]["texts"]["lines"]) < len(every["trace"]["texts"]["lines"])
    first, *_, last = [step for step in every["trace"]["steps"] if step["kind"] == "LLVM's passes"]
    for end, step in (("before", first), ("after", last)):
        assert lines_of(joined["trace"]["texts"], llvm[end]) == lines_of(every["trace"]["texts"], step[end])
    names = [name for name in CPU_TEXTS if name != "schedule"]
    assert [step["name"] for step in staged["trace"]["steps"]] == names
    assert ["left_out" in each["trace"] for each in shown] == [False, True, True, True]
    whole, less = (lines_of(each["answer"]["texts"], each["answer"]["stages"]["llvm"]) for each in (staged, cut))
    assert (whole[:200], f"... and {len(whole) - 200} lines") == (less[:200], less[200])


def test_every_category_has_a_color():
    styles = bundle.page()
    for category in hotloop.CATEGORIES:
        assert styles.count(f"--{category}:") == 2  # light and dark


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
def test_instructions_of_a_call_are_counted(capsys):
    assert main(["explain", "--count", "--target", "neoverse-n1", "--shape", "16x16x32", "-o", "folder"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    facts = json.loads(Path("folder", "explain.json").read_text(encoding="utf-8"))
    # 8192 multiply-adds in vectors of four, and less than twice as many instructions altogether.
    assert 2048 < facts["instructions"] < 4096
    assert line.startswith(f"{facts['instructions']} instructions a call")
    assert shown_in(Path("folder"))["count"]["kernel"] == facts["instructions"]


def test_instructions_are_not_counted_on_this_machine(capsys):
    assert main(["explain", "--count", *SHAPE, "-o", "folder"]) == 2
    assert "this machine runs code for host itself" in capsys.readouterr().err
