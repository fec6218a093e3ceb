# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The documentation is true: its code runs and prints what it says, its links lead somewhere, its lists are complete."""

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tilewright.schedules import select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES

sys.path.append(str(Path(__file__).parents[2] / "tools" / "setup"))
import runtime_wheel

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
# Written by `make docs`, and not tracked.
GENERATED = ("docs/reference/dialect.md",)


def pages() -> list[Path]:
    """Every page of documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Block:
    """A block of code, and the text right after it: what it prints."""

    where: str
    line: int
    language: str
    code: str
    output: str | None

    def assert_prints(self, got: str) -> None:
        """Compares as doctest does: `...` stands for anything, and any space for any other."""
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if self.output is not None and not doctest.OutputChecker().check_output(self.output, got, options):
            pytest.fail(f"{self.where} prints\n{got}\nand not\n{self.output}", pytrace=False)


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for block, after in zip(found, [*found[1:], None], strict=True):
        printed = after if after and after[1] == "text" and not text[block.end() : after.start()].strip() else None
        line = text.count("\n", 0, block.start(2)) + 1
        yield Block(f"{page.name}:{line}", line, block[1], block[2], printed[2] if printed else None)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A folder to work in, the environment's programs on the path, a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEWRIGHT_NO_RECORDS")  # Pages tune, into a database of their own.
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(
        runtime_wheel.package(tmp_path / "packages").parent
    )  # As in an environment with its wheel.


RUN = (
    "docs/how-to/arm.md",
    "docs/how-to/cost_without_hardware.md",
    "docs/how-to/fusion.md",
    "docs/how-to/library.md",
    "docs/how-to/modules.md",
    "docs/how-to/own_schedule.md",
    "docs/explanation/sme.md",
    "docs/tutorials/first_kernel.md",
    "docs/reference/python.md",
    "docs/explanation/packed.md",
    "docs/reference/epilogues.md",
    "docs/reference/packed_b.md",
    "docs/reference/types.md",
    "README.md",
)
"""The pages whose Python and shell blocks are run; text right after a block is what it prints."""


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", RUN)
def test_the_code_runs_and_prints_what_the_page_says(name):
    from tilewright import targets

    page = ROOT / name
    if "x86-64-v3" in page.read_text(encoding="utf-8") and targets.runnable(targets.get("x86-64-v3")):
        pytest.skip("this machine does not run x86-64-v3")
    if "emulated by" in page.read_text(encoding="utf-8") and shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
            block.assert_prints(printed.getvalue())
        elif block.language == "sh":
            done = subprocess.run(
                ["sh", "-euc", block.code],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{block.where}: {done.stdout}"
            block.assert_prints(done.stdout)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / target).resolve()
        assert path.exists(), f"{page.name} links to {target}"
        assert path.relative_to(ROOT).as_posix() not in GENERATED, (
            f"{page.name} links to {target}, which only `make docs` makes"
        )


def test_every_page_can_be_reached():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        waiting += [(page.parent / target).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert set(pages()) <= reached | {ROOT / name for name in GENERATED}


def test_every_option_of_the_command_line_is_in_its_reference():
    from tilewright.cli.app import command

    reference = (ROOT / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
    verbs = [(f"tilewright {name}", verb) for name, verb in command.commands.items()]
    for name, verb in verbs:
        assert name in reference or f"`{name.removeprefix('tilewright ')}`" in reference, name
        verbs += [(f"{name} {each}", below) for each, below in getattr(verb, "commands", {}).items()]
        for parameter in verb.params:
            for option in parameter.opts:
                assert not option.startswith("-") or f"`{option}" in reference, f"{name} {option}"


def test_every_public_name_is_in_the_reference():
    import tilewright

    reference = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert [name for name in tilewright.__all__ if f"`{name}" not in reference and f"`tw.{name}" not in reference] == []


def test_every_environment_variable_is_in_the_reference():
    reference = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = [
        *(ROOT / "python" / "tilewright").rglob("*.py"),
        *(ROOT / "dialect").rglob("*.cpp"),
        *(ROOT / "native").rglob("*.cpp"),
    ]
    used = {
        name
        for source in sources
        if "mlir" not in source.relative_to(ROOT).parts[2:3]
        for name in re.findall(r"\"(TILEWRIGHT_[A-Z_]+)\"", source.read_text(encoding="utf-8"))
    }
    assert used
    assert sorted(name for name in used if f"`{name}`" not in reference) == []
    assert sorted(name for name in re.findall(r"`(TILEWRIGHT_[A-Z_]+)`", reference) if name not in used) == []


def test_the_page_of_steps_is_that_of_the_module():
    path = [str(ROOT / "tools" / "setup"), *sys.path]
    program = f"import sys; sys.path[:] = {path!r}; import steps_page; print(steps_page.text(), end='')"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    text = run.stdout
    assert text == (ROOT / "docs" / "reference" / "steps.md").read_text(encoding="utf-8"), "run make docs"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sources_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    parts = ("python", "test", "tools", "dialect", "native", "examples")
    known = {each.name for part in parts for each in (ROOT / part).rglob("*.*")}
    named = re.findall(r"`(?:[\w.-]+/)*([\w-]+\.(?:py|cpp|td))`", text)
    assert sorted(name for name in named if name not in known) == []
    links = re.findall(r"\[`([\w/.-]+\.py)`\]\(([^)#]+)\)", text)
    assert [(name, path) for name, path in links if not path.endswith(name)] == []


def test_the_recipes_name_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:python|test|dialect|tools|docs|examples|cmake)/[\w./-]+)`", text)
    assert len(named) > 20
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_tables_that_recipes_name_are_where_they_say():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    named = re.findall(r"`(\w+)` (?:of|in) `((?:python|test|dialect|tools)/[\w./-]+)`", text)
    assert len(named) > 20
    assert [(table, name) for table, name in named if table not in (ROOT / name).read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("docs/explanation/shapes.md", select.STRATEGIES),
        ("docs/reference/python.md", select.STRATEGIES),
        ("docs/reference/command_line.md", select.STRATEGIES),
        ("docs/how-to/gpu.md", GPU_STRATEGIES),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_every_strategy_is_on_the_pages_that_list_them(page, table):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in table if not re.search(rf'`"?{name}"?`', text)] == []


def test_the_readme_says_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make check" in text


def test_the_table_of_instructions_is_that_of_the_targets():
    from tilewright import targets
    from tilewright.targets import outer_products

    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "reference" / "targets.md").read_text(encoding="utf-8").splitlines()
        if (line.startswith("| `") and "as f32" in line) or "`tdpfp16ps`" in line or "`bfmopa`" in line
    ]
    named = [name for row in rows for name in re.findall(r"`([\w.+-]+)`", row[0])]
    assert sorted(named) == sorted(target.name for target in targets.all())
    small = ([("f16", "f16")], [("bf16", "bf16")], [("i8", "i8"), ("u8", "u8"), ("u8", "i8"), ("i8", "u8")])
    for row in rows:
        for name in re.findall(r"`([\w.+-]+)`", row[0]):
            for cell, types in zip(row[2:], small, strict=True):
                told = set(re.findall(r"`([^`]+)`", cell)) or {"multiply-add"}
                target = targets.get(name)
                best = [outer_products.of(a, b, target.features) or target.dot(a, b) for a, b in types]
                assert told == {each.name for each in best}, f"{name}, {types[0]}"
