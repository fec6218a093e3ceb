# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches: the same results as one product after the other, with any strides and broadcasting."""

from __future__ import annotations

import ctypes
import re
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.dtypes import to_numpy
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values
from tilewright.runtime.emulated_call import DLTensor
from tilewright.schedules.select import choose
from tilewright.targets import resolve

BROADCASTS: list[dict[str, Any]] = [{}, {"b_batch": ()}, {"a_batch": (3,), "b_batch": (2, 1)}, {"a_batch": ()}]


def operands_of(spec: tw.MatmulSpec, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [values(random, each.shape, each.type) for each in spec.operands]


def strided(shape: tuple[int, ...], numpy_type: np.dtype[Any]) -> np.ndarray:
    """Room for C with the rows of all entries side by side, and gaps, all 77."""
    whole = np.full((shape[-2], *shape[:-2], shape[-1] + 3), 77, numpy_type)
    return np.moveaxis(whole[..., 1:-2], 0, -2)


def tensor(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...] | None, kept: list[Any]) -> DLTensor:
    """An array of f32 as C has it; `kept` keeps all that it points to."""
    extents = (ctypes.c_int64 * len(shape))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
    at = [None if each is None else ctypes.addressof(each) for each in (extents, steps)]
    header = DLTensor(array.ctypes.data, 1, 0, len(shape), 2, 32, 1, *at, 0)
    kept += [extents, steps, header]
    return header


def check(spec: tw.MatmulSpec, schedule: str | None = None, **how: Any) -> tw.Kernel:
    """Compiles and calls the kernel, into rows with gaps between them, and checks every element and every gap."""
    kernel = tw.compile(spec, schedule=schedule, cache=False, **how)
    operands = operands_of(spec)
    out = strided(spec.c_shape, to_numpy(spec.c_type))
    former = values(np.random.default_rng(1), spec.c_shape, spec.c_type) if spec.beta else None
    if former is not None:
        out[...] = former
    taken: list[Any] = list(operands)
    if spec.b_packed:
        taken[1] = kernel.pack_b(operands[1])
    assert kernel(*taken, out=out) is out
    expected, bound = (of(spec, *operands, c=former) for of in (tw.reference, tw.error_bound))
    assert expected.shape == bound.shape == spec.c_shape
    assert within_bound(out, expected, bound).all(), str(spec)
    if out.size:
        gaps = np.asarray(out.base)
        assert (gaps[..., :1] == 77).all(), str(spec)
        assert (gaps[..., -2:] == 77).all(), str(spec)
    return kernel


@pytest.mark.parametrize("broadcast", BROADCASTS, ids=str)
@pytest.mark.parametrize("schedule", ["packed", "unpacked", "streamed"])
def test_every_strategy_takes_every_broadcast(schedule, broadcast):
    check(tw.MatmulSpec(21, 70, 33, batch=(2, 3), **broadcast), schedule)
    check(tw.MatmulSpec(9, 50, 34, a="bf16", batch=(2, 3), beta=1, **broadcast), schedule)


@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
def test_every_layout(layout):
    check(tw.MatmulSpec(21, 70, 33, layout=layout, batch=(2, 3), b_batch=(3,)))
    for m, n, k in ((1, 40, 33), (1, 100, 1), (5, 1, 20), (1, 1, 1)):
        check(tw.MatmulSpec(m, n, k, a="bf16", layout=layout, batch=(3,)), "unpacked")


@pytest.mark.parametrize("types", ["u8,i8,i32", "u8,u8,i32", "i8", "f16", "bf16,bf16,bf16", "f64"])
def test_types(types):
    check(tw.MatmulSpec.from_dtypes(11, 37, 29, types, batch=(3,), b_batch=(1,)))


def test_blocks_and_their_remains():
    sizes = {"mr": 5, "nr": 48, "mc": 20, "nc": 96, "kc": 37}
    for broadcast in BROADCASTS[:3]:
        for epilogue in ((), (tw.residual("mn"),)):
            spec = tw.MatmulSpec(50, 110, 80, batch=(2, 3), epilogue=epilogue, **broadcast)
            kernel = check(spec, "packed", parameters=sizes)
            # All scratch memory is in the workspace: no copy of a block of C is among it.
            assert "memref.alloc" not in kernel.asm["bufferized"]


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"),
    [
        (3, 4, 5, (1,)),
        (3, 4, 5, (1, 2, 1)),
        (3, 1, 40, (4,)),
        (1, 40, 3, (2, 2)),
        (3, 4, 5, (0,)),
        (3, 4, 0, (2,)),
        (0, 4, 5, (2,)),
    ],
)
def test_extents_of_one_and_none(m, n, k, batch):
    for beta in (0, 1):
        check(tw.MatmulSpec(m, n, k, batch=batch, beta=beta))
    check(tw.MatmulSpec(m, n, k, batch=batch, b_batch=(), epilogue=(tw.bias(),)))


def test_an_epilogue_has_operands_for_all_entries_and_for_each():
    entries = (tw.bias("n"), tw.scale_by("m"), tw.residual("mn"), tw.gelu())
    for schedule in ("packed", "unpacked"):
        spec = tw.MatmulSpec(10, 32, 20, batch=(2, 3), b_batch=(), epilogue=entries)
        assert [each.shape for each in spec.further] == [(32,), (10,), (2, 3, 10, 32)]
        check(spec, schedule)


def test_a_mask_for_all_entries_is_a_residual_that_is_broadcast():
    spec = tw.MatmulSpec(8, 16, 12, batch=(5,), epilogue=(tw.residual("mn"),))
    a, b, mask = operands_of(spec)
    mask = np.broadcast_to(mask[0], mask.shape)
    c = tw.compile(spec)(a, b, mask)
    assert (np.abs(c - tw.reference(spec, a, b, mask)) <= tw.error_bound(spec, a, b, mask)).all()


def test_heads_side_by_side_in_one_row():
    """The operands of attention as a linear layer leaves them: for each place the heads, one after the other."""
    rows, heads, size = 20, 3, 16
    spec = tw.MatmulSpec(rows, rows, size, layout="nt", batch=(heads,))
    random = np.random.default_rng(0)
    q, k = (values(random, (rows, heads, size), spec.a_type).swapaxes(0, 1) for _ in range(2))
    out = np.zeros((rows, heads, rows), np.float32).swapaxes(0, 1)
    tw.compile(spec)(q, k, out=out)
    assert (np.abs(out - tw.reference(spec, q, k)) <= tw.error_bound(spec, q, k)).all()


def test_b_packed_is_shared():
    spec = tw.MatmulSpec(10, 70, 33, batch=(2, 3), b_batch=(), b_packed=True)
    kernel = check(spec)
    alone = tw.compile(replace(spec, batch=(), a_batch=(), b_batch=()), cache=False)
    assert alone.packed_format == kernel.packed_format


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4, 5), (5, 6)),
        ((2, 3, 4, 5), (3, 5, 6)),
        ((4, 5), (7, 5, 6)),
        ((3, 1, 4, 5), (2, 5, 6)),
        ((6, 4, 5), (5, 6)),
        ((0, 4, 5), (5, 6)),
        ((2, 4, 0), (0, 6)),
    ],
)
def test_matmul_broadcasts_as_numpy_does(a, b):
    random = np.random.default_rng(0)
    left, right = (random.integers(-8, 8, shape).astype(np.float32) for shape in (a, b))
    expected = left @ right
    result = tw.matmul(left, right)
    assert result.shape == expected.shape
    assert (result == expected).all()
    transposed = tw.matmul(np.ascontiguousarray(left.swapaxes(-1, -2)).swapaxes(-1, -2), right)
    assert (transposed == expected).all()


def test_single_rows_that_share_a_b_are_one_matrix():
    random = np.random.default_rng(0)
    left, right = (random.integers(-8, 8, shape).astype(np.float32) for shape in ((2, 3, 4, 10), (5, 6)))
    for rows in (left[:, :, :1, :5], left[0, :, :1, :5], left[..., :5]):
        result = tw.matmul(rows, right)
        assert result.shape == (*rows.shape[:-1], 6)
        assert (result == rows @ right).all()


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        ((), (5, 6), r"operand a: has no dimensions; .* Write a \* b"),
        ((4, 5), (6,), "operand b: has 6 rows; expected 5"),
        ((2, 4, 5), (3, 5, 6), r"operand b: is a batch of \(3,\) matrices; expected .* broadcast to \(2,\)"),
        ((2, 4, 5), (2, 4, 6), "operand b: has 4 rows; expected 5"),
    ],
)
def test_wrong_operands_of_matmul(a, b, what):
    with pytest.raises(tw.OperandError, match=what):
        tw.matmul(np.ones(a, np.float32), np.ones(b, np.float32))


OPEN: list[dict[str, Any]] = [
    {"batch": (None, 3), "b_batch": (None, 1), "epilogue": (tw.bias("n"), tw.residual("mn"), tw.gelu())},
    {"batch": (2, None), "b_batch": (None,), "a": "bf16", "c": "bf16", "epilogue": (tw.residual("mn"),)},
    {"batch": (None, None), "a_batch": (None, 1), "a": "u8", "b": "i8", "beta": 1},
    {"batch": (None,), "m": None, "n": None, "k": None, "layout": "nt"},
    {"batch": (tw.Dim(1, 8),), "m": None, "b_batch": (), "b_packed": True},
    {"batch": (None,), "prologue_b": (tw.scale_by("k"),), "epilogue": (tw.softmax(),)},
    {"batch": (None,), "m": 200, "n": 160, "k": 150, "threads": 2},
]


@pytest.mark.parametrize("fields", OPEN, ids=str)
def test_any_number_of_entries(fields):
    fields = {"m": 21, "n": 40, "k": 18} | fields
    kernel = tw.compile(
        tw.MatmulSpec(**{k: v for k, v in fields.items() if k != "threads"}), threads=fields.get("threads", 1)
    )
    for size in (1, 4):
        sizes = {name: size if name.startswith("b") else 10 + size for name in kernel.spec.open}
        spec = kernel.spec.sized(sizes)
        assert not spec.open
        operands = operands_of(spec)
        out = strided(spec.c_shape, to_numpy(spec.c_type))
        out[...] = 3
        also = {"c": out.copy()} if spec.beta else {}
        expected, bound = (of(kernel.spec, *operands, **also) for of in (tw.reference, tw.error_bound))
        taken: list[Any] = list(operands)
        if spec.b_packed:
            taken[1] = kernel.pack_b(operands[1])
        assert kernel(*taken, out=out) is out
        assert within_bound(out, expected, bound).all(), str(spec)
    none = kernel.spec.sized(dict.fromkeys(kernel.spec.open, 0)) if "b_packed" not in fields else None
    if none is not None and not none.beta:
        assert kernel(*operands_of(none)).shape == none.c_shape


def test_entries_that_do_not_fit_are_refused():
    kernel = tw.compile(tw.MatmulSpec(3, 4, 5, batch=(tw.Dim(2, 8, 2), None)))
    a, b = np.ones((2, 3, 3, 5), np.float32), np.ones((2, 3, 5, 4), np.float32)
    for wrong in (3, 10):
        with pytest.raises(
            tw.OperandError, match=f"extent 0 of the batch is {wrong}; expected a multiple of 2 from 2 to 8"
        ):
            kernel(np.ones((wrong, 3, 3, 5), np.float32), b)
    with pytest.raises(tw.OperandError, match=r"operand b: shape \(4, 3, 5, 4\); expected \(2, 3, 5, 4\)"):
        kernel(a, np.ones((4, 3, 5, 4), np.float32))
    alone = tw.compile(tw.MatmulSpec(3, 4, 5, batch=(None,), a_batch=(), b_batch=()))
    assert (alone(a[0, 0], b[0, 0], out=np.zeros((6, 3, 4), np.float32)) == 5).all()
    with pytest.raises(tw.OperandError, match=r"operand out: it is missing, .*, shape \(any, 3, 4\)\. Pass out=c"):
        alone(a[0, 0], b[0, 0])
    with pytest.raises(tw.OperandError, match=r"operand b: shape \(1, 3, 5, 4\)"):  # Broadcasting is the spec's to say.
        kernel(a, b[:1])
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(kernel.c_function.address)
    c = np.zeros((2, 3, 3, 4), np.float32)
    for given, status in ((b, 0), (b[:1], 1)):
        kept: list[Any] = []
        assert entry(*(ctypes.addressof(tensor(each, each.shape, None, kept)) for each in (a, given, c))) == status
    assert (c == 5).all()


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"batch": (2, -1)}, "batch is -1; expected an extent from 0"),
        ({"batch": (2, "3")}, "batch is '3', a str"),
        ({"batch": (2,), "b_batch": (3,)}, r"b_batch is \(3,\) for batch \(2,\)"),
        ({"batch": (None,), "b_batch": (3,)}, r"b_batch is \(3,\) for batch \(\?,\)"),
        ({"batch": (2,), "a_batch": (1, 2)}, r"a_batch is \(1, 2\) for batch \(2,\)"),
        ({"batch": (2,), "b_packed": True}, r"b_packed with a B for each of batch \(2,\)"),
        ({"batch": (2**31 - 1,) * 3}, "more bytes than a 64-bit offset can reach"),
    ],
)
def test_wrong_batches(fields, what):
    with pytest.raises(tw.SpecError, match=what):
        tw.MatmulSpec(3, 4, 5, **fields)


def test_how_a_spec_says_its_batch():
    spec = tw.MatmulSpec(3, 4, 5, batch=(8, 12), b_batch=(12,))
    assert str(spec) == "8x12*3x4x5 f32 nn b_batch=(12,)"
    assert (spec.a_shape, spec.b_shape, spec.c_shape) == ((8, 12, 3, 5), (12, 5, 4), (8, 12, 3, 4))
    assert spec.flops == 8 * 12 * 2 * 3 * 4 * 5


def refused(view: Any) -> str:
    spec = tw.MatmulSpec(3, 4, 5, batch=(2,))
    kernel = tw.compile(spec)
    a, b = operands_of(spec)
    with pytest.raises(tw.OperandError) as caught:
        view(kernel, a, b)
    return str(caught.value)


def test_matrices_that_lie_as_no_batch_does():
    room = np.zeros((2, 3, 4), np.float32)
    assert "matrices run backwards" in refused(lambda kernel, a, b: kernel(a[::-1], b))
    assert "shape (1, 3, 5); expected (2, 3, 5)" in refused(lambda kernel, a, b: kernel(a[:1], b))
    assert "shape (3, 5); expected (2, 3, 5)" in refused(lambda kernel, a, b: kernel(a[0], b))
    same = np.lib.stride_tricks.as_strided(room, room.shape, (0, 16, 4))
    assert "matrices overlap" in refused(lambda kernel, a, b: kernel(a, b, out=same))
    meeting = np.lib.stride_tricks.as_strided(room, room.shape, (40, 16, 4))
    assert "matrices overlap" in refused(lambda kernel, a, b: kernel(a, b, out=meeting))
    within = np.lib.stride_tricks.as_strided(room, (2, 3, 5), (0, 20, 4))
    assert "it overlaps operand a" in refused(lambda kernel, a, b: kernel(within, b, out=room))


def test_the_c_entry_takes_tensors():
    spec = tw.MatmulSpec(3, 4, 5, batch=(2,))
    kernel = tw.compile(spec)
    assert kernel.c_function.prototype == "int32_t matmul(const DLTensor *a, const DLTensor *b, DLTensor *c)"
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(kernel.c_function.address)
    a, b = operands_of(spec)
    c = np.zeros(spec.c_shape, np.float32)

    def call(strides: tuple[int, ...] | None, shape: tuple[int, ...] = spec.c_shape) -> int:
        kept: list[Any] = []
        given = [tensor(a, a.shape, None, kept), tensor(b, b.shape, None, kept), tensor(c, shape, strides, kept)]
        return entry(*map(ctypes.addressof, given))

    assert call(None) == 0
    assert (c == kernel(a, b)).all()
    assert call((12, 4, 1)) == 0
    assert call((4, 8, 1)) == 0  # the rows of both entries side by side
    assert (c.reshape(3, 2, 4).swapaxes(0, 1) == kernel(a, b)).all()
    assert call((3, 8, 1)) == 4
    assert call(None, (3, 3, 4)) == 1


@pytest.mark.parametrize(
    ("batch", "b_batch", "regions"), [((6,), None, 1), ((6,), (), 2), ((2, 3), (2, 1), 1), ((3,), None, 3)]
)
def test_threads_take_entries_where_there_are_enough(batch, b_batch, regions):
    """With a B for each, one parallel region for all; with a shared one, another that packs it; for three, those of each."""
    spec = tw.MatmulSpec(260, 280, 300, batch=batch, b_batch=b_batch)
    # All of A is a block: strips of it that are packed one by one have no region of their own.
    blocks = {"mc": 260, "kc": 300}
    kernel = check(spec, "packed", threads=2, parameters=blocks)
    assert kernel.metadata.threads == 2
    assert len(re.findall(r"omp\.parallel", kernel.asm["bufferized"])) == regions
    operands = operands_of(spec)
    assert (kernel(*operands) == tw.compile(spec, schedule="packed")(*operands)).all()


def test_a_shared_b_counts_the_rows_of_all_entries():
    spec = tw.MatmulSpec(8, 1024, 1024, batch=(16,))
    target = resolve("x86-64-v4")
    assert choose(spec, target).strategy == "streamed"
    assert choose(replace(spec, b_batch=()), target).strategy == "packed"


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="no qemu-aarch64")
@pytest.mark.parametrize("target", ["neoverse-n1", "neoverse-v1", "armv9-a+sme"])
def test_emulated_processors(target):
    check(tw.MatmulSpec(17, 40, 23, batch=(2, 3), b_batch=(3,), epilogue=(tw.residual("mn"),)), target=target)
    check(tw.MatmulSpec(9, 33, 18, a="bf16", layout="nt", batch=(2,)), target=target)


def test_the_same_row_again_makes_no_matrix():
    a, b = np.arange(16, dtype=np.float32).reshape(1, 1, 16), np.eye(16, 5, dtype=np.float32)
    rows = np.broadcast_to(a, (4, 1, 16))
    np.testing.assert_array_equal(tw.matmul(rows, b), rows @ b)
