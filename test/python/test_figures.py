# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""README and docs say what results say, and nothing else in them claims a measurement."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean

import pytest
from tilewright.bench import PeerResult, Rates, Row, parse_shape, results
from tilewright.bench.operators.results import LIMIT, Result
from tilewright.bench.rows import OURS, PLAIN
from tilewright.errors import TilewrightError

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "figures"))

import documents  # noqa: E402
import measured  # noqa: E402
import nests  # noqa: E402
import prose  # noqa: E402
import published  # noqa: E402
import texts  # noqa: E402

MACHINE = "AMD EPYC, 2 CPUs, L1d 32 KiB, L2 1 MiB, L3 32 MiB, target znver4, virtual machine"
FILE = "amd-epyc-znver4.json"


def row(shape: str, dtype: str = "f32", percent: float = 90.0, best: float = 80.0, **fields: object) -> Row:
    defaults = Row(
        shape=parse_shape(shape),
        dtype=dtype,
        date="2026-11-22T10:00:00+00:00",
        machine=MACHINE,
        version="0.1.0, commit abc",
        threads=1,
        target="host",
        cache="hot",
        ours=Rates((percent, percent)),
        peak=Rates((100.0, 100.0)),
        stream=Rates((10.0, 10.0)),
        bytes_moved=1000,
        bandwidth={"L1": 200.0, "memory": 10.0},
        peers={"numpy": PeerResult(Rates((best, best)), "1.0", 1e-7), "mkl": PeerResult(Rates((10.0,)), "2", 0.0)},
        absent={},
        rel_error=1e-7,
        compile_seconds=0.25,
        cached_seconds=None,
        object_bytes=4096,
        schedule="packed",
    )
    return dataclasses.replace(defaults, **fields)


def layer(case: str, **fields: object) -> Result:
    rates = {OURS: Rates((9.0, 9.0)), LIMIT: Rates((10.0, 10.0)), "torch": Rates((3.0, 3.0))}
    made = Result(
        operator="attention",
        case=case,
        asked="f32",
        threads=1,
        target="host",
        streams=False,
        rates=rates,
        versions={OURS: "0.1.0", "torch": "2"},
        absent={},
        error=1e-7,
        compile_seconds=0.1,
        scratch=1024,
        date="2026-11-22T10:20:00+00:00",
        machine=MACHINE,
    )
    return dataclasses.replace(made, **fields)


BESIDE = {
    PLAIN: PeerResult(Rates((100.0, 100.0)), "0.1.0", 1e-7),
    "torch-compile": PeerResult(Rates((80.0, 80.0)), "2", 1e-7),
}
CONVOLVED = {OURS: Rates((8.0, 8.0)), LIMIT: Rates((10.0, 10.0)), "onednn": Rates((4.0, 4.0))}
MEASURED = [
    *(row(shape, dtype) for dtype in ("f32", "bf16") for shape in ("64x64x64", "1024x1024x1024")),
    row("1x4096x4096", percent=20.0, best=25.0),
    row("1024x1024x1024", percent=80.0, threads=2, peers={}),
    row("128x768x768", epilogue="bias:n,gelu", peers=BESIDE),
    layer("16 heads 512x512x64"),
    layer(
        "7x7x512, 1x1x2048, stride 1",
        operator="convolutions",
        asked="bf16",
        rates=CONVOLVED,
        versions={OURS: "0.1.0", "onednn": "3"},
    ),
]


def checkout(root: Path, measured: list[Row | Result], name: str = FILE) -> Path:
    """A README with every block of figures, and a file of results."""
    (root / published.FOLDER).mkdir(parents=True)
    blocks = "\n".join(f"<!-- figures: {block}, made -->\n<!-- end of figures -->\n" for block in texts.BLOCKS)
    (root / "README.md").write_text(f"# Title\n\n{blocks}\n## Next\n")
    (root / published.FOLDER / name).write_text(results.text({each.key: each for each in measured}))
    return root


def test_this_checkout_says_what_was_measured():
    assert list(documents.stale(ROOT)) == []


def test_the_model_of_warp_groups_is_near_the_best_of_what_was_measured():
    """In both runs, of products of few rows and of many; what a change of the model loses shows here."""
    found = list(measured.shares(measured.records(ROOT / measured.CARD)))
    for run, bar in ((1, 0.95), (2, 0.93)):
        shares = [share for of, _, share in found if of == run]
        assert len(shares) > 350
        assert geometric_mean(shares) >= bar
        assert min(shares) > 0.6


@pytest.fixture
def written(tmp_path):
    """A checkout in which all is as it should be."""
    pytest.importorskip("matplotlib")
    documents.write(checkout(tmp_path, MEASURED))
    assert list(documents.stale(tmp_path)) == []
    return tmp_path


def test_a_block_is_of_the_machine_measured_last_that_has_something_for_it(tmp_path):
    pytest.importorskip("matplotlib")
    checkout(tmp_path, MEASURED)
    later = row("64x64x64", machine=MACHINE.replace("znver4", "znver5"), date="2026-11-23T10:00:00+00:00")
    (tmp_path / published.FOLDER / "amd-epyc-znver5.json").write_text(results.text({later.key: later}))
    documents.write(tmp_path)
    blocks = {each["name"]: each["text"] for each in texts.BLOCK.finditer((tmp_path / "README.md").read_text())}
    assert "znver5" in blocks["speed"]
    assert "znver4" in blocks["attention"]
    assert list(documents.stale(tmp_path)) == []


def replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new, 1))

    return change


PICTURE = "docs/images/bench/amd-epyc-znver4/squares-1t-hot.png"
DATA = f"docs/reference/results/{FILE}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            replaced("README.md", "| 90 | 1.12 |", "| 90 | 1.13 |"),
            "README.md differs from what make bench-docs writes, line",
        ),
        (replaced("docs/reference/attention_results.md", "3.00", "3.01"), "attention_results.md differs"),
        (replaced("docs/reference/benchmark_results.md", "Machine: ", "Computer: "), "benchmark_results.md differs"),
        (replaced(DATA, '"rounds": {"tilewright": [90.0', '"rounds": {"tilewright": [91.0'), "README.md differs"),
        (
            replaced(DATA, '"compile_seconds": 0.25', '"compile_seconds": 0.251'),
            f"{PICTURE} is drawn from other results",
        ),
        (lambda root: (root / PICTURE).unlink(), f"{PICTURE} is missing"),
        (lambda root: (root / PICTURE).with_name("gflops.png").touch(), "gflops.png is drawn from nothing"),
        (lambda root: (root / "README.md").write_text("# Title\n"), "no page has the block 'speed'"),
        (
            replaced("README.md", "## Next\n", "## Next\n\nIts rate is 99.0 GFLOP/s.\n"),
            "'99.0 GFLOP/s' is written by hand",
        ),
    ],
)
def test_what_is_not_as_results_say_is_found(written, change, says):
    change(written)
    assert [line for line in documents.stale(written) if says in line]


def test_writing_again_mends_it_and_removes_old_pictures(written):
    replaced("README.md", "| 90 | 1.12 |", "| 90 | 1.13 |")(written)
    (written / PICTURE).with_name("gflops.png").touch()
    documents.write(written)
    assert list(documents.stale(written)) == []


def test_the_block_has_the_machine_the_day_the_conditions_and_the_losses(written):
    text = (written / "README.md").read_text()
    for part in (
        f"Measured 2026-11-22 on {MACHINE}",
        "one thread, hot operands, B packed on the fly",
        "numpy and mkl",
        "100 in f32 and 100 in bf16",
        "| 1×4096×4096 | 20 | 0.80 |  |  |",
        "| 3 shapes: median; geometric mean |",
        "Another library was faster at 1 of 5 shapes and types; at worst we reach 0.80 of its speed (f32 1×4096×4096, numpy).",
        "On 2 threads, squares from 512 up reach 80 % in f32 of the peak of 2 cores.",
        f"]({PICTURE})",
        "| 1×4096×4096 | 20 | 0.80 |\n",
        "with bias and gelu they run at 0.90 in f32 of the speed of the plain product\n",
        "and at 1.12 in f32 times the speed of torch.compile.",
        "- blocks of queries reach 90 % in f32 of the peak; our speed over that of torch is 3.0 in f32.",
        "the median\nshare of the peak is 80 % in bf16. The geometric means of our speed over that of\nonednn are 2.00 in bf16.",
    ):
        assert part in text


def test_a_page_has_a_part_for_each_machine_and_readme_shows_the_last(written):
    later = dataclasses.replace(
        row("64x64x64", percent=50.0), machine=MACHINE.replace("znver4", "znver5"), date="2026-11-25T10:00:00+00:00"
    )
    (written / published.FOLDER / "amd-epyc-znver5.json").write_text(results.text({later.key: later}))
    documents.write(written)
    text = (written / "docs/reference/benchmark_results.md").read_text()
    assert re.findall(r"^## .*", text, re.MULTILINE) == ["## AMD EPYC (znver5)", "## AMD EPYC (znver4)"]
    assert "Measured 2026-11-25 on" in (written / "README.md").read_text()
    assert list(documents.stale(written)) == []


@pytest.mark.parametrize(
    ("measured", "name", "says"),
    [
        (MEASURED, "other.json", f"other.json is of {re.escape(MACHINE)}; expected the name amd-epyc-znver4.json"),
        ([*MEASURED, row("8x8x8", machine="Another, target znver3")], FILE, "is of 2 machines"),
        ([*MEASURED, row("8x8x8", date="2026-11-24T10:00:00+00:00")], FILE, "measurements 2 days, 0:00:00 apart"),
        ([row("8x8x8", date="")], FILE, "has a bad date"),
        ([row("8x8x8", percent=177.0)], FILE, "has 8x8x8 f32 host with 177 % of the peak; expected at most 110 %"),
        ([], FILE, "is empty"),
    ],
)
def test_bad_results_are_refused(tmp_path, measured, name, says):
    with pytest.raises(TilewrightError, match=says):
        published.load(checkout(tmp_path, measured, name))


def test_without_results_there_is_nothing_to_write(tmp_path):
    (tmp_path / "README.md").write_text("# Title\n")
    with pytest.raises(TilewrightError, match=r"there are no results in docs/reference/results.*make bench-results"):
        documents.write(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "It runs at 110 GFLOP/s.",
        "It reads 28 to 31 GB/s.",
        "A call takes 2.9 to 3.5 ms.",
        "It ran at 10 % of the peak.",
        "Two threads are 1.8 to 2.0 times as fast as one.",
        "They run at 0.93 to 1.0 of the speed of others.",
        "1 to 1000 rows run at 0.94 to 1.10.",
        "Bias and gelu cost\n2 % of it.",
        "| M | GFLOP/s |\n|---|---|\n| 8 | 76 to 91 |",
        "| M | times static |\n|---|---|\n| 8 | 0.99 |",
    ],
)
def test_a_figure_by_hand_is_found(text):
    page = f"# Title\n\n## Section\n\nMeasured 2026-11-21 on an AMD EPYC (Zen 4):\n{text}\n"
    (claim, *_) = prose.claims(page, "page.md")
    assert page.splitlines()[claim.line - 1] in text.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "K of 4096 takes 3 blocks.",
        "%4 = a %2",
        "at most 81/96 of the peak",
        "| types | bits |\n|---|---|\n| f32 | 32 |",
    ],
)
def test_other_numbers_are_none(text):
    assert list(prose.claims(f"# Title\n\n{text}\n", "page.md")) == []


def test_exemptions_say_why_and_are_needed():
    assert all(each.why for each in prose.EXEMPT)
    pages = {each.page: (ROOT / each.page).read_text(encoding="utf-8") for each in prose.EXEMPT}
    assert list(prose.unused(pages)) == []
    assert list(prose.unused(dict.fromkeys(pages, ""))) == [
        f"{each.page}: {text!r}" for each in prose.EXEMPT for text in each.texts
    ]


def test_pictures_of_nests_are_up_to_date():
    drawn = nests.drawn()
    assert {path.relative_to(ROOT) for path in (ROOT / nests.NESTS).iterdir()} == drawn.keys()
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    for path, text in drawn.items():
        assert (ROOT / path).read_text() == text, "make bench-docs draws it anew"
        assert "currentColor" not in text
        assert f"images/nests/{path.name})" in pages
