# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports go one way: a stage imports the stages before it and the leaves, never a later stage.

The sources are parsed, not imported. Imports inside functions, under TYPE_CHECKING and through import_module count too.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "tilewright"
GENERATED = ("mlir", "bin")  # built, not written here

# What each leaf may import.
LEAVES = {
    "version": ("standalone",),
    "standalone": (),
    "_interpreter": (),
    "errors": ("standalone",),
    "dims": ("errors",),
    "batches": ("dims", "errors"),
    "dtypes": ("errors",),
    "nibbles": ("dims", "errors", "dtypes", "standalone"),
    "operand": ("dtypes", "nibbles"),
    "quantized": ("errors", "dtypes", "nibbles", "standalone"),
    "gguf": ("errors", "dtypes", "nibbles", "quantized", "gguf_blocks"),
    "gguf_blocks": (),
    "groups": ("dims", "errors", "dtypes", "expressions", "entries"),
    "expressions": ("errors", "dtypes"),
    "entries": ("errors", "dtypes", "expressions"),
    "math": ("expressions",),
    "precision": ("errors", "dtypes"),
    "scaling": ("errors", "dtypes", "entries", "expressions", "math", "operand"),
    "knobs": ("errors",),
    "text_files": (),
    "notebook": (),
    "processes": ("errors", "version"),
    "ptx": ("errors",),
    "targets": ("errors", "dtypes", "knobs", "text_files", "notebook"),
}
# In the direction of the flow. "" is `tilewright` itself, the public names, which only what people call may import.
STAGES = (
    "spec",
    "operator_specs",
    "build",
    "payload",
    "schedules",
    "lowering",
    "codegen",
    "emit",
    "records",
    "runtime",
    "libraries",
    "blas",
    "torch",
    "onnx",
    "bench",
    "jax",
    "tuning",
    "distributed",
    "",
    "lab",
    "cli",
)
SAME_AS = {"__init__": "", "__main__": "cli", "_tools": "cli"}
# Compiled modules, and the first stage that may import each.
NATIVE = {"mlir": "build", "_codegen": "emit", "_runtime": "runtime"}


def may_import(part: str, other: str) -> bool:
    """Whether a module of `part` may import one of `other`, both named as in the tables."""
    if part == other:
        return True
    if part in LEAVES:
        return other in LEAVES[part]
    if other in NATIVE:
        return STAGES.index(part) >= STAGES.index(NATIVE[other])
    return other in LEAVES or STAGES.index(other) < STAGES.index(part)


def is_known(part: str) -> bool:
    """Whether the tables name `part`."""
    return part in LEAVES or part in STAGES or part in NATIVE


def part_of(file: Path, package: Path) -> str:
    """The stage, leaf or other part of the package that `file` belongs to."""
    first = file.relative_to(package).parts[0].removesuffix(".py")
    return SAME_AS.get(first, first)


def imported(tree: ast.AST, file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """The line and dotted name of every import in `tree`; names from ``from x import y`` come as x.y."""
    here = ["tilewright", *file.relative_to(package).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: len(here) - node.level + 1]] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__"):
                yield from ((node.lineno, text) for text in literal_start(node.args[0]))


def literal_start(node: ast.expr) -> Iterator[str]:
    """The text that a string or f-string surely starts with."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value


def violations(package: Path) -> list[str]:
    """What is wrong with the imports of every written module of `package`, one line each."""
    found = []
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] in GENERATED:
            continue
        part = part_of(file, package)
        where = file.relative_to(package).as_posix()
        if not is_known(part):
            found.append(f"{where}: {part} is in no table of test_layering.py")
            continue
        for line, name in imported(ast.parse(file.read_text(encoding="utf-8")), file, package):
            root, *rest = name.split(".")
            if root != "tilewright":
                continue
            # `from tilewright import compile` is an import of the package itself.
            other = SAME_AS.get(rest[0], rest[0]) if rest else ""
            other = other if is_known(other) else ""
            if not may_import(part, other):
                found.append(f"{where}:{line}: {part or 'tilewright'} imports {other or 'tilewright'} ({name})")
    return found


def test_imports_follow_the_flow():
    assert violations(PACKAGE) == []


def test_there_is_something_to_check():
    parts = {part_of(file, PACKAGE) for file in PACKAGE.rglob("*.py")}
    assert {"errors", "dtypes", "targets", "spec", "payload"} <= parts


@pytest.mark.parametrize(
    ("file", "line", "what"),
    [
        ("payload/bad.py", "from tilewright.runtime.kernel import Kernel", "payload imports runtime"),
        ("payload/bad.py", "import tilewright.runtime.kernel as kernel", "payload imports runtime"),
        ("payload/bad.py", "from tilewright import runtime", "payload imports runtime"),
        ("payload/bad.py", "from ..runtime import kernel", "payload imports runtime"),
        ("payload/bad.py", "def f():\n    from tilewright import runtime", "payload imports runtime"),
        ("payload/bad.py", "importlib.import_module('tilewright.cli')", "payload imports cli"),
        ("payload/bad.py", "import_module(f'tilewright.runtime.{name}')", "payload imports runtime"),
        ("payload/bad.py", "import tilewright", "payload imports tilewright"),
        ("payload/bad.py", "from tilewright import compile", "payload imports tilewright"),
        ("spec.py", "from .payload import matmul", "spec imports payload"),
        ("spec.py", "from tilewright.mlir import ir", "spec imports mlir"),
        ("errors.py", "from tilewright.dtypes import dtype", "errors imports dtypes"),
        ("dtypes.py", "from tilewright.targets import x86", "dtypes imports targets"),
        ("targets/x86.py", "from tilewright.spec import MatmulSpec", "targets imports spec"),
        ("lowering/bad.py", "from tilewright import _codegen", "lowering imports _codegen"),
        ("emit/bad.py", "from tilewright._runtime import Code", "emit imports _runtime"),
        ("__init__.py", "from tilewright.cli import main", "tilewright imports cli"),
        ("helpers.py", "x = 1", "helpers is in no table"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, file, line, what):
    bad = tmp_path / "tilewright" / file
    bad.parent.mkdir(parents=True)
    bad.write_text(f"{line}\n")
    (found,) = violations(tmp_path / "tilewright")
    assert found.startswith(file)
    assert what in found


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("payload/good.py", "from tilewright.spec import MatmulSpec\nfrom tilewright.mlir import ir\nimport numpy"),
        (
            "payload/good.py",
            "from . import reference\nfrom .reference import error_bound\nfrom ..errors import SpecError",
        ),
        ("targets/host.py", "from tilewright.knobs import Knobs\nfrom tilewright.dtypes import DType"),
        ("emit/good.py", "from tilewright import _codegen, errors\nfrom tilewright.lowering import driver"),
        ("runtime/good.py", "import tilewright._runtime\nimport tilewright.emit.object"),
        ("cli/run.py", "import tilewright as tw\nfrom tilewright.bench import suites"),
        ("__init__.py", "import_module('tilewright.runtime.compile')"),
        ("mlir/dialects/generated.py", "from tilewright.cli import main"),
    ],
)
def test_what_is_allowed_is_not_found(tmp_path, file, line):
    good = tmp_path / "tilewright" / file
    good.parent.mkdir(parents=True)
    good.write_text(f"{line}\n")
    assert violations(tmp_path / "tilewright") == []


# What the packages of a stage may import of that stage, beside themselves; others may import whatever makes no circle.
INSIDE = {
    "schedules.models": {"decisions", "calls"},
    "schedules.steps": {"models", "decisions"},
    "schedules.cpu": {"models", "steps", "decisions"},
    "schedules.gpu": {"models", "steps", "decisions"},
    "lowering.types": set(),
    "lowering.passes": {"types"},
    "lowering.entries": {"types", "passes", "driver", "product_calls"},
    **{
        f"codegen.{package.name}": {"block_products", "bounds", "patch_layout"}
        for package in (PACKAGE / "codegen").iterdir()
        if package.is_dir()
    },
    "codegen.gpu_attention": {"gpu", "attention"},
}
# How many files of ours a file imports at most, but for the one of all public names, that of all verbs of the command line, and those
# that still import more: these may only become fewer.
MOST_IMPORTS = 15
MORE_IMPORTS = {
    "tilewright.cli.app": 21,
    "tilewright.bench.operators.comparison": 17,
    "tilewright.bench.session": 23,
    "tilewright.bench.static": 16,
    "tilewright.bench.weights": 17,
    "tilewright.cli.problem": 18,
    "tilewright.codegen.gpu.strategies": 25,
    "tilewright.codegen.gpu.warpgroups": 17,
    "tilewright.codegen.scaled_sums.product": 19,
    "tilewright.emit.gpu_problem": 16,
    "tilewright.lowering.driver": 17,
    "tilewright.runtime.gpu": 20,
}


def crossings(package: Path) -> list[str]:
    """What packages of a stage import of it that `INSIDE` does not allow, one line each."""
    wrong = []
    for name, others in imports_of_files(package).items():
        _, stage, own, *rest = [*name.split("."), "", ""]
        allowed = INSIDE.get(f"{stage}.{own}")
        if not rest[:-2] or allowed is None:
            continue
        for other in others:
            _, of, part, *_ = [*other.split("."), "", ""]
            if of == stage and part not in {own, *allowed}:
                wrong.append(f"{name} imports {other}")
    return wrong


def test_packages_of_a_stage_are_apart():
    assert crossings(PACKAGE) == []


def test_a_planted_crossing_is_found(tmp_path):
    for name, text in {
        "codegen/gpu/a": "",
        "codegen/bounds": "from tilewright.codegen.gpu import a",
        "codegen/scalable/b": "from tilewright.codegen import bounds\nfrom tilewright.codegen.gpu import a",
        "lowering/types/c": "def f():\n    import tilewright.lowering.passes.d",
        "lowering/passes/d": "from tilewright.lowering.types import e",
        "lowering/types/e": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    assert sorted(crossings(tmp_path)) == [
        "tilewright.codegen.scalable.b imports tilewright.codegen.gpu.a",
        "tilewright.lowering.types.c imports tilewright.lowering.passes.d",
    ]


def test_no_file_imports_many_others():
    counts = {name: len(others) for name, others in imports_of_files(PACKAGE).items() if name != "tilewright"}
    assert {name: n for name, n in counts.items() if n > MORE_IMPORTS.get(name, MOST_IMPORTS)} == {}


@cache
def imports_of_files(package: Path) -> dict[str, set[str]]:
    """For each file, by dotted name, the files of `package` that it imports, also inside functions and under TYPE_CHECKING."""
    files = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).with_suffix("").parts
        if parts[0] not in GENERATED:
            files[".".join(("tilewright", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = file
    return {
        name: {
            each
            for _, said in imported(ast.parse(file.read_text(encoding="utf-8")), file, package)
            # `from x import y` is of the file x, or of x.y where that is one; of the package itself only names are taken.
            for each in [said if said in files else said.rpartition(".")[0]]
            if each in files and each not in (name, "tilewright")
        }
        for name, file in files.items()
    }


def circles(package: Path) -> list[tuple[str, ...]]:
    """The circles of files that import one another: the names of each, sorted."""
    imports = imports_of_files(package)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for each in imports[waiting.pop()] - found:
                found.add(each)
                waiting.append(each)
        return found

    all_reached = {name: reached(name) for name in imports}
    in_circles = {name for name, found in all_reached.items() if name in found}
    return sorted(
        {tuple(sorted(b for b in in_circles if b in all_reached[a] and a in all_reached[b])) for a in in_circles}
    )


def test_there_are_no_circles_of_files():
    assert circles(PACKAGE) == []


def test_a_circle_is_found(tmp_path):
    for name, text in {
        "a": "from tilewright.b import x",
        "b": "def f():\n    from tilewright import c",
        "c": "import tilewright.a",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert circles(tmp_path) == [("tilewright.a", "tilewright.b", "tilewright.c")]
