# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of mutants matches the sources, and the judge tells noticed mutants from unnoticed ones."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "mutants"))

import judging  # noqa: E402
import mutant  # noqa: E402
from mutant_table import MUTANTS  # noqa: E402

PARTS = ("spec.py", "payload", "schedules", "lowering", "emit", "runtime", "targets", "bench", "cli", "quantized.py")


@pytest.mark.parametrize("each", MUTANTS, ids=lambda each: f"{each.file}: {each.new[:40].strip()}")
def test_each_mutant_changes_one_place_of_a_source_that_is_there(each):
    before, after = (ast.dump(ast.parse(text)) for text in (each.place().read_text(encoding="utf-8"), each.mutated()))
    assert before != after
    assert each.tests
    assert all(mutant.path_of(test).is_file() for test in each.tests)


def test_there_are_a_hundred_and_some_of_every_part():
    assert sum(not each.equivalent for each in MUTANTS) >= 100
    assert len({(each.file, each.old, each.new) for each in MUTANTS}) == len(MUTANTS)
    parts = Counter(each.file.split("/")[0] for each in MUTANTS)
    assert all(parts[part] for part in PARTS), parts
    assert any(each.file.startswith("codegen/gpu/") for each in MUTANTS)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one, with a source and a test of it."""
    source, test = tmp_path / mutant.PACKAGE / "half.py", tmp_path / "test" / "python" / "test_half.py"
    for file in (source, test):
        file.parent.mkdir(parents=True)
    source.write_text("def half(x):\n    return x // 2\n")
    text = "from importlib.util import module_from_spec, spec_from_file_location as found\n"
    text += f"spec = found('half', {str(source)!r})\nhalf = module_from_spec(spec)\nspec.loader.exec_module(half)\n"
    test.write_text(text + "def test_half():\n    assert half.half(4) == 2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("new", "noticed"), [("x // 3", "test_half.py"), ("x / 2", ""), ("(", "test_half.py"), ("-(-x // 2)", "")]
)
def test_a_mutant_is_noticed_by_the_first_test_that_fails(checkout, new, noticed):
    one = mutant.Mutant("half.py", "x // 2", new, ("test_half.py",))
    before = one.place(checkout).read_text()
    assert not judging.fails("test_half.py", checkout, Path(sys.executable))
    assert judging.judge(one, checkout, Path(sys.executable)) == noticed
    assert one.place(checkout).read_text() == before


def test_a_text_that_is_not_there_once_is_refused(checkout):
    for old, new in (("x", "y"), ("z", "y"), ("half(x)", "half(x)")):
        with pytest.raises(ValueError, match="expected once, and another text for it"):
            mutant.Mutant("half.py", old, new, ()).mutated(checkout)


def test_what_was_judged_is_known_until_the_source_or_a_test_changes(checkout):
    one = mutant.Mutant("half.py", "x // 2", "x // 3", ("test_half.py",))
    digest = one.digest(checkout)
    results = judging.Results(checkout / "results.json")
    assert results.get(digest) is None
    results.put(digest, "test_half.py")
    assert judging.Results(checkout / "results.json").get(digest) == "test_half.py"
    test = checkout / "test" / "python" / "test_half.py"
    test.write_text(test.read_text() + "\n")
    assert one.digest(checkout) != digest
