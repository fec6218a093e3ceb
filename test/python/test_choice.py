# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One choice: what the tables of strategies give some specs and targets, and that nobody else decides by names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.bench.suites import Shape
from tilewright.bench.weights import problem
from tilewright.codegen.gpu.strategies import CARRIERS
from tilewright.schedules import make, select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.targets import registry

PACKAGE = Path(tw.__file__).parent
GENERATED = ("mlir", "bin")
STRATEGIES = {*select.STRATEGIES, *GPU_STRATEGIES}
FAMILIES = {each.family for each in (*targets.all(), *registry.GPUS)}
TARGETS = {each.name for each in (*targets.all(), *registry.GPUS)} - FAMILIES
TABLES = ("schedules/select.py", "schedules/gpu_strategies.py", "targets")

CHOICES = """
znver4 1x1x1 f32 nn: unpacked
znver4 96x96x96 f32 nn: unpacked
znver4 1024x1024x1024 f32 nn: packed
znver4 96x640x2720 f32 nn: unpacked
znver4 24x2272x2251 f32 nn: unpacked
znver4 4096x1024x768 f32 nn: packed
znver4 8x4096x4096 f32 nn: streamed
znver4 24x4096x4096 f32 nn: streamed
znver4 1x4096x4096 f32 nn: streamed
znver4 200x200x200 bf16,bf16,f32 nn: unpacked
znver4 128x768x768 bf16,bf16,f32 nn: unpacked
znver4 118x176x3264 bf16,bf16,f32 nn: packed
znver4 355x2543x64 bf16,bf16,f32 nn: packed
znver5 12x2048x2048 bf16,bf16,f32 nn: streamed
znver5 12x3000x1030 bf16,bf16,f32 nn: streamed
znver5 24x4096x4096 f32 nn: streamed
znver5 64x4096x4096 f32 nn: streamed
znver4 1x4096x4096 f32 nt: inner_product
znver4 1024x1x1024 f32 nn: inner_product
znver4 64x64x65536 f32 nn: unpacked
znver4 16x4096x4096 f32 tn: packed
znver4 16x2048x2048 i8 nn: packed
x86-64-v3 4x1024x1024 bf16,bf16,f32 nt: inner_product
sapphirerapids 384x1024x1024 bf16,bf16,f32 nn: packed
neoverse-n1 96x96x96 f32 nn: packed
neoverse-v1 96x96x96 f32 nn: scalable
neoverse-v1 2x256x256 f32 tn: unpacked
armv9-a+sme 96x96x96 f32 nn: outer_product
armv9-a+sme 2x256x256 f32 nn: unpacked
rv64gcv 128x768x3072 f32 nn: scalable
"""


def chosen(line: str) -> str:
    target, shape, types, layout = line.split()
    m, n, k = map(int, shape.split("x"))
    spec = tw.MatmulSpec.from_dtypes(m, n, k, types, layout=layout)
    return make.make(spec, targets.get(target)).name


@pytest.mark.parametrize("line", CHOICES.strip().splitlines())
def test_what_is_chosen(line):
    asked, name = line.split(": ")
    assert chosen(asked) == name


def test_weights_in_few_bits_are_sums_of_codes():
    names = [
        make.make(problem(Shape(rows, 1024, 1024), "bf16", "i4:128", "nn"), targets.get("znver4")).name
        for rows in (4, 64)
    ]
    assert names == ["scaled_sums", "packed"]


def test_every_strategy_for_gpus_is_carried_out():
    assert set(CARRIERS) == set(GPU_STRATEGIES)


def test_every_spec_has_a_row():
    """The last rows fit whatever is asked for: one of them pays always, the other one fuses everything."""
    *_, packed, unpacked = select.STRATEGIES.values()
    spec, target = tw.MatmulSpec(3, 5, 7), targets.get("x86-64")
    assert unpacked.fits(spec)
    assert unpacked.pays(spec, target)
    fused = tw.MatmulSpec(3, 5, 7, epilogue=(tw.softmax(),))
    assert packed.fits(fused)
    assert packed.pays(fused, target)


@pytest.mark.parametrize(
    ("name", "fuses"),
    [
        *[(name, True) for name in ("x86-64-v3", "znver4", "neoverse-n1", "rv64gcv")],
        *[(name, False) for name in ("x86-64", "x86-64-v2")],
    ],
)
def test_whether_a_multiply_add_is_one_instruction(name, fuses):
    assert targets.get(name).fuses is fuses


def decided_by_name(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """The lines that compare something with one of `names`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [each for side in (node.left, *node.comparators) for each in ast.walk(side)]
            if any(isinstance(each, ast.Constant) and each.value in names for each in parts):
                yield node.lineno


def test_nobody_else_decides_by_the_name_of_a_strategy_or_a_target():
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        where = file.relative_to(PACKAGE).as_posix()
        if where.startswith((*GENERATED, *TABLES)):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [f"{where}:{line}" for line in decided_by_name(tree, STRATEGIES | TARGETS)]
    assert found == []


def test_a_planted_decision_is_found():
    for text in ('if name == "packed": pass', 'x = plan.name in ("streamed", "other")', 'y = "znver4" != target.name'):
        assert list(decided_by_name(ast.parse(text), STRATEGIES | TARGETS)) == [1]
