# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""B packed ahead of time: the numbers, the format, what is refused, files, and the entries for C."""

from __future__ import annotations

import copy
import ctypes
import itertools
import pickle
import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import products
import pytest
import tilewright as tw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_schedules import SPEC, schedule_failure, written
from products import TARGETS
from tilewright.dtypes import dtype, to_numpy
from tilewright.emit import stages
from tilewright.payload.reference import within_bound
from tilewright.runtime.product import Product
from tilewright.schedules import make
from tilewright.standalone import packed_b
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat

DOCS = Path(__file__).parents[2] / "docs"


@cache
def compiled(
    m: int, n: int, k: int, types: str = "f32", beta: int = 0, target: str = "host", **parameters: int
) -> tw.Kernel:
    spec = tw.MatmulSpec.from_dtypes(m, n, k, types, beta=beta, b_packed=True)
    return tw.compile(spec, target, parameters=parameters, cache=False)


def format_of(kernel: tw.Kernel) -> PackedFormat:
    assert kernel.packed_format is not None
    return kernel.packed_format


def is_right(kernel: tw.Kernel, packed: tw.PackedB | None = None) -> bool:
    """Whether a call on fresh operands is within the bound, for a new result and for one that is given."""
    spec = kernel.spec
    a, b, c = products.uniform(spec)
    packed = kernel.pack_b(b) if packed is None else packed
    former = c.copy() if spec.beta else None
    expected, bound = tw.reference(spec, a, b, former), tw.error_bound(spec, a, b, former)
    right = bool(within_bound(kernel(a, packed, out=c), expected, bound).all())
    return right and (bool(spec.beta) or bool((kernel(a, packed) == c).all()))


# The rows between differ in sizes only.
LEVELS = [name for name in TARGETS if name in ("host", "x86-64-v3", "x86-64")]
NARROW = ["bf16", "bf16,bf16,bf16", "f16", "i8", "u8,i8,i32", "i8,u8,i32", "u8"]

# Each loop of the nest there and not, and tails of each.
BLOCKS = [
    {},
    {"nc": 32, "nr": 16, "kc": 7},
    {"nc": 32, "nr": 32, "kc": 8, "mc": 4, "mr": 2},
    {"nr": 16, "kc": 9},
    {"nc": 16, "nr": 16},
    {"mc": 4, "mr": 4},
]


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("parameters", BLOCKS, ids=str)
def test_the_numbers(target, parameters):
    for (m, n, k), beta in itertools.product([(1, 40, 20), (23, 70, 31), (9, 16, 7), (5, 5, 5)], (0, 1)):
        assert is_right(compiled(m, n, k, beta=beta, target=target, **parameters)), (m, n, k, beta)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*[st.one_of(st.integers(1, 9), st.integers(1, 130))] * 3, st.sampled_from(["f32", "f64"]))
def test_the_numbers_at_any_shape(m, n, k, types):
    assert is_right(compiled(m, n, k, types))


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("types", NARROW)
def test_narrow_elements(target, types):
    for m, n, k in [(1, 40, 21), (23, 70, 31), (1, 1, 1)]:
        assert is_right(compiled(m, n, k, types, target=target)), (m, n, k)
    assert is_right(compiled(9, 70, 200, types, target=target, nc=32, nr=16, kc=128))


@pytest.mark.parametrize("types", ["f32", *NARROW])
@pytest.mark.parametrize("parameters", [{}, {"kc": 128, "mr": 6}], ids=str)
def test_one_panel_by_rows_of_a_where_they_lie(types, parameters):
    for m, n, k in [(23, 40, 384), (7, 16, 256), (64, 33, 128)]:
        assert is_right(compiled(m, n, k, types, **parameters)), (m, n, k)
    spec = tw.MatmulSpec.from_dtypes(23, 40, 384, types)
    a, b, c = products.uniform(spec)
    kernel = tw.compile(spec, schedule="packed", parameters=parameters)
    assert within_bound(kernel(a, b, out=c), tw.reference(spec, a, b), tw.error_bound(spec, a, b)).all()


@pytest.mark.parametrize("types", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("b_packed", [False, True])
def test_one_panel_with_an_epilogue(types, b_packed):
    for m, n, k in [(23, 40, 96), (6, 64, 34)]:
        spec = tw.MatmulSpec.from_dtypes(m, n, k, types, b_packed=b_packed, epilogue=(tw.bias("n"), tw.relu()))
        a, b, c = products.uniform(spec)
        bias = np.linspace(-1, 1, n, dtype=np.float32)
        kernel = tw.compile(spec, schedule="packed")
        found = kernel(a, kernel.pack_b(b) if b_packed else b, bias, out=c)
        assert within_bound(found, tw.reference(spec, a, b, bias), tw.error_bound(spec, a, b, bias)).all()


def test_a_depth_of_one_panel_divides_k():
    form = format_of(compiled(20, 64, 1 << 15))
    assert form.kc < 1 << 15
    assert (1 << 15) % form.kc == 0
    assert format_of(compiled(20, 64, 32771)).kc < 2048  # A prime number: A is packed.


def test_several_blocks_as_the_model_makes_them():
    kernel = compiled(33, 2500, 1500)
    form = format_of(kernel)
    assert form.nc < 2500
    assert form.kc < 1500
    assert is_right(kernel)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)], ids=str)
def test_an_empty_product(shape):
    kernel = compiled(*shape)
    packed = kernel.pack_b(np.ones((shape[2], shape[1]), np.float32))
    assert packed.nbytes == HEADER_BYTES
    assert kernel(np.ones((shape[0], shape[2]), np.float32), packed).tolist() == np.zeros(shape[:2]).tolist()


def elements(packed: tw.PackedB) -> np.ndarray:
    """B out of a packed B, as docs/reference/packed_b.md says it lies there."""
    form = packed.format
    k_blocks, n_blocks = -(-form.k // form.kc), -(-form.n // form.nc)
    stride = (form.nbytes - 64) // (k_blocks * n_blocks)
    stored = to_numpy(dtype(form.element))
    if stride > -(-form.kc * form.nc * stored.itemsize // 64) * 64:
        stored = np.dtype(np.int16 if stored.kind in "iu" else np.float32)
    assert stride == -(-form.kc * form.nc * stored.itemsize // 64) * 64
    b = np.full((k_blocks * form.kc, n_blocks * form.nc), 77, stored)
    for j, p in itertools.product(range(n_blocks), range(k_blocks)):
        start = 64 + (j * k_blocks + p) * stride
        block = packed.array[start : start + form.kc * form.nc * stored.itemsize].view(stored)
        panels = block.reshape(form.nc // form.nr, form.kc // form.depth, form.nr, form.depth)
        b[p * form.kc :, j * form.nc :][: form.kc, : form.nc] = panels.transpose(1, 3, 0, 2).reshape(form.kc, form.nc)
    assert not b[form.k :].any()
    assert not b[:, form.n :].any()
    return b[: form.k, : form.n]


@pytest.mark.parametrize("parameters", BLOCKS, ids=str)
@pytest.mark.parametrize("types", ["f32", "f64"])
def test_the_format_is_as_documented(types, parameters):
    for n, k in ((70, 31), (17, 20), (1, 1), (64, 64)):
        kernel = compiled(3, n, k, types, **parameters)
        b = products.uniform(kernel.spec)[1]
        assert (elements(kernel.pack_b(b)) == b).all(), (n, k)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("types", NARROW)
def test_the_format_of_narrow_elements(target, types):
    for parameters in ({}, {"nc": 32, "nr": 16, "kc": 128}):
        kernel = compiled(9, 70, 200, types, target=target, **parameters)
        b = products.uniform(kernel.spec)[1]
        assert (elements(kernel.pack_b(b)) == b).all()


def test_the_page_has_the_header():
    text = (DOCS / "reference" / "packed_b.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    form = format_of(compiled(3, 40, 20))
    values = {
        "magic": b"tw-packB",
        "version": struct.pack("<I", 1),
        "element": form.element.encode().ljust(12, b"\0"),
        "digest": form.digest,
        "nbytes": struct.pack("<Q", form.nbytes),
        **{name: struct.pack("<I", getattr(form, name)) for name in ("k", "n", "nr", "kc", "nc", "depth")},
    }
    assert {name for _, _, name in rows} == set(values)
    for offset, size, name in rows:
        assert form.header[int(offset) :][: int(size)] == values[name], name
    assert sum(int(size) for _, size, _ in rows) == HEADER_BYTES


def test_rows_of_b_may_lie_apart():
    kernel = compiled(23, 70, 31)
    b = products.uniform(kernel.spec)[1]
    bordered = products.Bordered.of(b)
    assert (kernel.pack_b(bordered.inner).array == kernel.pack_b(b).array).all()


def test_one_packed_b_serves_every_m():
    for n, k in ((300, 200), (2500, 1500)):
        first = compiled(64, n, k)
        packed = first.pack_b(products.uniform(first.spec)[1])
        b = products.uniform(first.spec)[1]
        for m in (1, 2, 7, 8, 32, 33, 128):
            other = compiled(m, n, k)
            assert other.packed_format == first.packed_format
            a = products.uniform(other.spec)[0]
            bound = tw.error_bound(other.spec, a, b)
            assert within_bound(other(a, packed), tw.reference(other.spec, a, b), bound).all()


@pytest.mark.parametrize("shape", [(33, 16, 400), (11, 16, 11), (64, 24, 30)])
def test_few_columns_leave_a_where_it_lies(shape):
    """One panel of B reads each element of A once: packing it is what such a product would spend its time with."""
    m, n, k = shape
    kernel = compiled(m, n, k)
    assert kernel.metadata.workspace_bytes == 0
    assert is_right(kernel)
    for other in (compiled(m + 20, n, k), tw.compile(replace(kernel.spec, layout="tn"), "host", cache=False)):
        assert format_of(other) == format_of(kernel)


def test_it_is_the_same_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    spec = tw.MatmulSpec(9, 40, 20, b_packed=True)
    first, second = tw.compile(spec), tw.compile(spec)
    assert [first.metadata.cached, second.metadata.cached] == [False, True]
    assert first.packed_format == second.packed_format
    assert is_right(second, first.pack_b(products.uniform(spec)[1]))


def test_a_packed_b_is_a_value():
    kernel = compiled(9, 40, 20)
    packed = kernel.pack_b(products.uniform(kernel.spec)[1])
    assert packed.nbytes == packed.array.nbytes == packed.format.nbytes
    assert packed.address == packed.array.ctypes.data
    assert packed.address % 64 == 0
    assert bytes(packed.array[:HEADER_BYTES]) == packed.format.header
    assert PackedFormat.from_header(packed.format.header) == packed.format
    assert "B of 20x40 f32" in repr(packed)
    for twin in (tw.PackedB(packed.array), pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
        assert twin.format == packed.format
        assert is_right(kernel, twin)
    with pytest.raises(AttributeError, match="cannot be changed: format"):
        packed.format = format_of(kernel)
    with pytest.raises(AttributeError, match="cannot be changed: array"):
        del packed.array
    with pytest.raises(ValueError, match="read-only"):
        packed.array[0] = 1


@pytest.mark.parametrize(("k", "alignment"), [(20, 64), (1 << 15, 1 << 21)])
def test_a_large_one_starts_on_a_huge_page(k, alignment):
    kernel = compiled(1, 32, k)
    packed = kernel.pack_b(np.ones((k, 32), np.float32))
    assert (packed.nbytes >= 1 << 21) == (alignment > 64)
    assert packed.address % alignment == 0


def test_it_goes_to_a_file_and_comes_back(tmp_path):
    kernel = compiled(9, 40, 20)
    packed = kernel.pack_b(products.uniform(kernel.spec)[1])
    packed.save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == packed.array.tobytes()
    assert is_right(kernel, tw.PackedB.load(tmp_path / "b"))


def damaged(data: bytes, offset: int, value: bytes) -> bytes:
    return data[:offset] + value + data[offset + len(value) :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "0 bytes; expected a header of 64"),
        (lambda data: data[:63], "63 bytes; expected a header of 64"),
        (lambda data: data[:-1], r"\d bytes; expected \d+, as its header says"),
        (lambda data: data + b"\0", r"\d bytes; expected \d+, as its header says"),
        (lambda data: damaged(data, 0, b"TW-packB"), "it starts with b'TW-packB'; expected b'tw-packB'"),
        (lambda data: damaged(data, 8, b"\2"), r"format version 2; expected 1\. Pack B again with this release"),
        (lambda data: damaged(data, 12, b"\xff"), "element type"),
        (lambda data: damaged(data, 48, b"\xff" * 8), "expected 18446744073709551615, as its header says"),
    ],
)
def test_what_is_no_packed_b_is_refused(tmp_path, change, message):
    kernel = compiled(9, 40, 20)
    data = change(kernel.pack_b(products.uniform(kernel.spec)[1]).array.tobytes())
    with pytest.raises(tw.OperandError, match=message):
        tw.PackedB(data)
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(tw.OperandError, match=message) as caught:
        tw.PackedB.load(tmp_path / "b")
    assert str(tmp_path / "b") in str(caught.value)


def test_a_file_that_grows_shorter_meanwhile_is_refused(tmp_path, monkeypatch):
    kernel = compiled(9, 40, 20)
    whole = kernel.pack_b(products.uniform(kernel.spec)[1]).array.tobytes()
    (tmp_path / "b").write_bytes(whole[:-100])
    status = type("Status", (), {"st_size": len(whole)})
    monkeypatch.setattr(packed_b.os, "fstat", lambda _: status)
    with pytest.raises(tw.OperandError, match=f"{len(whole) - 100} bytes; expected {len(whole)}"):
        tw.PackedB.load(tmp_path / "b")


def others() -> list[tw.Kernel]:
    """Kernels that differ from ``compiled(9, 40, 20)`` in one part of the format each."""
    return [
        compiled(9, 40, 21),
        compiled(9, 41, 20),
        compiled(9, 40, 20, "f64"),
        compiled(9, 40, 20, nr=16),
        compiled(9, 40, 20, kc=10),
        compiled(9, 40, 20, nc=16, nr=16),
    ]


@pytest.mark.parametrize("index", range(6))
def test_another_format_is_refused(index):
    kernel, other = compiled(9, 40, 20), others()[index]
    assert kernel.packed_format != other.packed_format
    a, _, c = products.uniform(kernel.spec)
    before = c.copy()
    with pytest.raises(tw.OperandError, match="operand b: it is packed in another format") as caught:
        kernel(a, other.pack_b(products.uniform(other.spec)[1]), out=c)
    assert str(kernel.packed_format) in str(caught.value)
    assert "Pack B again with this kernel's pack_b" in str(caught.value)
    assert (c == before).all()


def test_a_layout_of_the_same_sizes_is_refused():
    kernel = compiled(9, 40, 20)
    packed = kernel.pack_b(products.uniform(kernel.spec)[1])
    foreign = tw.PackedB(damaged(packed.array.tobytes(), 56, b"layouts!"))
    with pytest.raises(tw.OperandError, match="layout 6c61796f75747321"):
        kernel(products.uniform(kernel.spec)[0], foreign)


@pytest.mark.parametrize(
    "b", [np.zeros((20, 40), np.float32), None, 3, b"tw-packB" + bytes(3256)], ids=lambda b: type(b).__name__
)
def test_only_a_packed_b_is_taken(b):
    kernel = compiled(9, 40, 20)
    with pytest.raises(tw.OperandError, match=r"operand b: an? \w+ is no packed B; .*Pass kernel\.pack_b\(b\)"):
        kernel(products.uniform(kernel.spec)[0], b)


def test_what_cannot_be_packed_is_refused():
    kernel = compiled(9, 40, 20)
    for b, message in [
        (np.zeros((20, 41), np.float32), r"operand b: shape \(20, 41\)"),
        (np.zeros((20, 40)), "operand b: element type float64"),
        (np.zeros((20, 80), np.float32)[:, ::2], "operand b: strides"),
        ([[1.0]], "operand b: a list is not a numpy array"),
    ]:
        with pytest.raises(tw.OperandError, match=message):
            kernel.pack_b(b)


def test_a_kernel_that_takes_b_as_it_is():
    kernel = tw.compile(tw.MatmulSpec(9, 40, 20))
    assert kernel.packed_format is None
    a, b, _ = products.uniform(kernel.spec)
    with pytest.raises(tw.SpecError, match=r"kernel\.pack: .* takes B as it is; .*compile with b_packed=True"):
        kernel.pack_b(b)
    with pytest.raises(tw.OperandError, match="operand b: a PackedB is not a numpy array"):
        kernel(a, compiled(9, 40, 20).pack_b(b))


def test_a_schedule_that_does_not_pack_b():
    spec = tw.MatmulSpec(9, 1, 40, layout="nt", b_packed=True)
    with pytest.raises(tw.ScheduleError, match=r"b_packed=True: the schedule .*; expected one loop nest that packs B"):
        tw.compile(spec, schedule="unpacked", cache=False)


@pytest.mark.parametrize(("n", "layout"), [(1, "nn"), (1, "nt"), (30, "nn"), (30, "nt")])
def test_a_strategy_that_was_asked_for_packs_b_in_its_own_way(n, layout):
    kernel = tw.compile(tw.MatmulSpec(9, n, 40, layout=layout, b_packed=True), schedule="inner_product", cache=False)
    assert is_right(kernel)


def test_a_schedule_of_the_users_that_does_not_pack_b(tmp_path):
    own = written(tmp_path / "own.mlir", "transform.print")
    error = schedule_failure(own, replace(SPEC, b_packed=True))
    assert str(error).startswith("b_packed=True: the schedule does not pack B")


def test_a_schedule_of_the_users_that_packs_b():
    from tilewright.schedules.cpu.packed import packed

    def own(spec, target, blocking):
        return packed(spec, target, blocking)

    spec = tw.MatmulSpec(33, 100, 70, b_packed=True)
    kernel = tw.compile(spec, schedule=own, parameters={"nc": 32, "nr": 16, "kc": 20})
    assert is_right(kernel)
    ours = tw.compile(spec, parameters={"nc": 32, "nr": 16, "kc": 20})
    assert format_of(kernel) == format_of(ours), "the text alone decides the layout"
    a, b, _ = products.uniform(spec)
    np.testing.assert_array_equal(ours(a, kernel.pack_b(b)), ours(a, ours.pack_b(b)))
    other = tw.compile(spec, schedule=own, parameters={"nc": 32, "nr": 32, "kc": 20})
    with pytest.raises(tw.OperandError, match="nr=32"):
        ours(a, other.pack_b(b))


def test_tiles_that_are_not_as_tall_as_panels_are_deep_have_whole_rows_of_the_instruction():
    from tilewright.emit import stages
    from tilewright.schedules import make

    target = tw.targets.get("neoverse-v2")
    spec = tw.MatmulSpec(m=tw.Dim(min=1), n=63, k=8, a="bf16", b="bf16", c="bf16", b_packed=True)
    plan = make.make(spec, target)
    assert all(case.plan.sizes["mr"] % 2 == 0 for case in plan.cases)
    assert stages.build(spec, target, plan, until="bufferized").packed is not None


def test_the_entries_for_c(tmp_path):
    from tilewright.emit import shared, stages
    from tilewright.emit.header import header
    from tilewright.schedules import make

    spec = tw.MatmulSpec(23, 70, 31, b_packed=True)
    target = compiled(23, 70, 31).target
    plan = make.make(spec, target, parameters={"kc": 8})
    built = stages.build(spec, target, plan, for_linking=True, symbol="mm")
    form = built.packed
    assert form is not None
    (tmp_path / "mm.so").write_bytes(shared.link(built.object))
    library = ctypes.CDLL(str(tmp_path / "mm.so"))
    library.mm_packed_b_bytes.restype = ctypes.c_int64
    size = library.mm_packed_b_bytes(ctypes.c_int64(31), ctypes.c_int64(70))
    assert size == form.nbytes
    assert library.mm_packed_b_bytes(ctypes.c_int64(32), ctypes.c_int64(70)) == -1
    declared = header(spec, target, "mm")
    for declaration in ("mm(int64_t m", "mm_pack_b(int64_t k", "mm_packed_b_bytes(int64_t k"):
        assert declaration in declared

    def call(function, *arguments: int | ctypes.c_void_p) -> int:
        return function(*[a if isinstance(a, ctypes.c_void_p) else ctypes.c_int64(a) for a in arguments])

    def pointer(array: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    a, b, c = products.uniform(spec)
    packed = np.full(size + 3, 0xAB, np.uint8)[3:]  # at any address
    assert call(library.mm_pack_b, 31, 71, pointer(b), 70, pointer(packed)) == 1
    assert (packed == 0xAB).all()
    assert call(library.mm_pack_b, 31, 70, pointer(b), 70, pointer(packed)) == 0
    assert packed[:HEADER_BYTES].tobytes() == form.header
    operands = (23, 70, 31, pointer(a), 31, pointer(packed), 12345, pointer(c), 70)
    assert call(library.mm, *operands) == 0
    assert within_bound(c, tw.reference(spec, a, b), tw.error_bound(spec, a, b)).all()
    before = c.copy()
    for byte in range(HEADER_BYTES):
        packed[byte] ^= 1
        assert call(library.mm, *operands) == 3
        packed[byte] ^= 1
    assert (c == before).all()
    assert call(library.mm, 24, *operands[1:]) == 1


def test_nothing_beside_the_packed_b_is_written():
    kernel = compiled(23, 70, 31, nc=32, nr=16, kc=7)
    b = products.uniform(kernel.spec)[1]
    size = format_of(kernel).nbytes
    whole = np.full(size + 128, 0xAB, np.uint8)
    assert isinstance(kernel, Product)
    assert kernel._packing is not None
    kernel._packing.function.pack(b, whole[64 : 64 + size])
    assert (whole[:64] == 0xAB).all()
    assert (whole[64 + size :] == 0xAB).all()
    assert whole[64:][:size].tobytes()[:HEADER_BYTES] == format_of(kernel).header


def test_the_spec_says_it():
    spec = tw.MatmulSpec(9, 40, 20, b_packed=True)
    assert str(spec) == "9x40x20 f32 nn b_packed"
    assert str(replace(spec, b_packed=False)) == "9x40x20 f32 nn"


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        ("x86-64-v4", tw.MatmulSpec(None, 16, 1025, layout="tt", b_packed=True)),
        ("x86-64-v4", tw.MatmulSpec(1, 16, 1025, layout="nt", b_packed=True)),
        ("graniterapids", tw.MatmulSpec(None, 15, 48, a="f16", b_packed=True)),
        ("graniterapids", tw.MatmulSpec(None, 8, 15, a="bf16", layout="nt", b_packed=True, epilogue=(tw.bias("n"),))),
        ("armv8-a", tw.MatmulSpec(tw.Dim(multiple=8), 2, 3, a="f16", b_packed=True, epilogue=(tw.silu(),))),
        ("neoverse-n1", tw.MatmulSpec(tw.Dim(max=40), 2100, 7, b_packed=True, epilogue=(tw.scale_by("m"),))),
        ("neoverse-v2", tw.MatmulSpec(None, 3, 1, a="f64", layout="tn", beta=1, b_packed=True)),
        ("cascadelake", tw.MatmulSpec(None, 768, 192, b_packed=True)),
    ],
    ids=str,
)
def test_every_number_of_rows_packs_b_alike(target, spec):
    # With one row, vectors of B to be packed are of the type of a tile of C; what constants are called is no part of the layout.
    row = tw.targets.get(target)
    built = stages.build(spec, row, make.make(spec, row), until="bufferized")
    assert built.packed is not None


def test_one_packed_b_for_every_number_of_rows_of_a_deep_product():
    kernel = tw.compile(tw.MatmulSpec(None, 16, 1025, layout="tt", b_packed=True))
    random = np.random.default_rng(0)
    b = random.uniform(-1, 1, (16, 1025)).astype(np.float32)
    packed = kernel.pack_b(b)
    for rows in (0, 1, 2, 3, 9, 40):
        spec = kernel.spec.at(rows, 16, 1025)
        a = random.uniform(-1, 1, spec.a_shape).astype(np.float32)
        assert (abs(kernel(a, packed) - tw.reference(spec, a, b)) <= tw.error_bound(spec, a, b)).all()
