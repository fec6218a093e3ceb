# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedules that people write first: the natural ones work, and the others say at which line what is wrong, and what to do."""

import pytest
import tilewright as tw
from tilewright.errors import ScheduleError

HEAD = """
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import loop, structured
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        product = steps.match(script.root, "linalg.matmul")
"""
TAIL = """
    return script.module
"""
LINE = 10
"""The line of the file where what differs starts."""
ROOT = "transform.ApplyRegisteredPassOp(transform.AnyOpType.get(), script.root, 'convert-linalg-to-loops')"
SPEC = tw.MatmulSpec(m=48, n=48, k=48)

WORK = {
    "tile, vectorize": "tiled = structured.TileUsingForOp(product, sizes=[4, 16, 4]); structured.VectorizeOp(tiled.results[0])",
    "tile by one k": "tiled = structured.TileUsingForOp(product, sizes=[4, 16, 1]); steps.vectorize(tiled.results[0])",
}
FAIL = {
    "vectorize a remainder": (
        "tiled = structured.TileUsingForOp(product, sizes=[5, 7, 3]); structured.VectorizeOp(tiled.results[0])",
        "Attempted to vectorize, but failed",
        "Tile by sizes that divide the extents",
    ),
    "vectors smaller than the op": (
        "structured.VectorizeOp(product, vector_sizes=[4, 16, 4])",
        "Attempted to vectorize, but failed",
        "vector_sizes must be at least as large",
    ),
    "a handle twice": (
        "steps.tile(product, [4, 0, 0]); steps.tile(product, [0, 16, 0])",
        "uses a handle invalidated",
        "go on with the handles that it returned",
    ),
    "threads along k": (
        "structured.TileUsingForallOp(product, tile_sizes=[4, 16, 4])",
        "not thread safe",
        "Tile the reduction with tile_using_for",
    ),
    "too many sizes": (
        "structured.TileUsingForOp(product, sizes=[4, 4, 4, 4])",
        "expected at most 3 found 4",
        "tilewright trace",
    ),
    "an op that is not there": (
        'steps.tile(steps.match(script.root, "linalg.matmult"), [4, 0, 0])',
        'it looks for ["linalg.matmult"]',
        "The payload has",
    ),
    "another kind of op": (
        "structured.InterchangeOp(product, iterator_interchange=[2, 1, 0])",
        "wrong op kind",
        "structured.generalize",
    ),
    "an argument too few": ("structured.PackOp(product, packed_sizes=[8, 8, 8])", "TypeError", "target"),
    "a name that is nearly right": (
        "structured.TileUsingFor(product, sizes=[4, 16, 4])",
        "AttributeError",
        "TileUsingForOp",
    ),
    "a size that is no integer": (
        "structured.TileUsingForOp(product, sizes=[4.0, 16, 4])",
        "TypeError",
        "sizes, which are",
    ),
    "a negative size": ("structured.TileUsingForOp(product, sizes=[-4, 16, 4])", "is -4", "from 0 to"),
    "unroll the product": ("loop.loop_unroll(product, 4)", "incorrect type of payload", "those that tiling returned"),
    "hoist from the product": (
        "loop.loop_hoist_loop_invariant_subsets(product)",
        "wrong op kind",
        "steps.match of scf.for",
    ),
    "peel any loop": (
        "kind = transform.AnyOpType.get(); loop.LoopPeelOp(kind, kind, product)",
        "must be Transform IR handle to scf.for",
        "steps.peel",
    ),
    "an order of loops that is none": (
        "structured.TileUsingForOp(product, sizes=[4, 16, 4], interchange=[0, 0, 1])",
        "MLIR gave no reason",
        "name each dimension",
    ),
    "copy to threads": (
        "structured.MapCopyToThreadsOp(product, total_num_threads=32, desired_bit_alignment=128)",
        "only linalg.copy and tensor.pad",
        "tilewright trace",
    ),
    "the loop in place of the tile": (
        "_, rows = steps.tile(product, [4, 16, 0]); steps.vectorize(rows)",
        "cannot vectorize",
        "vectorize the tile, which tiling returns before its loops",
    ),
    "a field that a spec lacks": (
        "steps.tile(product, [spec.columns, 0, 0])",
        "no attribute 'columns'",
        "There is m, n, k",
    ),
    "a step that is called otherwise": ("steps.tiles(product, [4, 0, 0])", "no attribute 'tiles'", "There is tile"),
    "a step that is not there": ("steps.unroll(product, 4)", "no attribute 'unroll'", "help() shows what it has"),
    "one size for all": ("steps.tile(product, 4)", "'int' object is not iterable", "help() shows their arguments"),
    "no size": ("steps.tile(product, [0, 0, 0])", "no size above zero", ""),
}


def written(path, body):
    path.write_text(f"{HEAD}        {body}{TAIL}")
    return str(path)


@pytest.mark.parametrize("body", WORK.values(), ids=list(WORK))
def test_the_natural_ones_work(tmp_path, body):
    kernel = tw.compile(SPEC, target="x86-64-v3", schedule=written(tmp_path / "own.py", body), cache=False, verify=True)
    assert "vfmadd" in kernel.asm["asm"]


@pytest.mark.parametrize(("body", "what", "remedy"), FAIL.values(), ids=list(FAIL))
def test_the_others_say_where_and_what_to_do(tmp_path, body, what, remedy):
    file = written(tmp_path / "own.py", body)
    with pytest.raises(ScheduleError) as caught:
        tw.compile(SPEC, target="x86-64-v3", schedule=file, cache=False)
    assert f"{file}:{LINE}" in str(caught.value)
    assert what in str(caught.value)
    assert remedy in str(caught.value)


def test_too_large_a_vector_is_refused_at_once(tmp_path):
    file = written(tmp_path / "own.py", "structured.VectorizeOp(product)")
    with pytest.raises(ScheduleError, match=r"a vector of 884736 elements .*expected at most .*Tile the op"):
        tw.compile(tw.MatmulSpec(m=96, n=96, k=96), target="x86-64-v3", schedule=file, cache=False)


def test_a_pass_that_consumes_the_root_has_to_be_said(tmp_path):
    file = written(tmp_path / "own.py", ROOT)
    with pytest.raises(ScheduleError, match=r"consumed in the body but is not marked.*steps.script\(consumes=True\)"):
        tw.compile(SPEC, target="x86-64-v3", schedule=file, cache=False)
