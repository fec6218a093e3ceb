# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled kernels with epilogues: their numbers, what calls with further operands take and refuse, and the C entry."""

from __future__ import annotations

import ctypes
import math
from functools import cache

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from products import TARGETS
from tilewright.dtypes import to_numpy
from tilewright.errors import OperandError
from tilewright.payload.reference import within_bound

CHAINS = {
    "bias, gelu": {"epilogue": (tw.bias(), tw.gelu())},
    "rows": {"epilogue": (tw.bias("m"), tw.scale_by("m"), tw.relu())},
    "bf16": {"a": "bf16", "c": "bf16", "epilogue": (tw.bias("n", "bf16"), tw.gelu("tanh"), tw.residual("mn", "bf16"))},
    "rounded on the way": {"epilogue": (tw.cast("bf16"), tw.bias("n", "f16"), tw.cast("f16"), tw.relu())},
    "f16": {"a": "f16", "c": "f16", "epilogue": (tw.multiply(), tw.clamp(-1, 1))},
    "f64": {"a": "f64", "epilogue": (tw.bias(), tw.gelu(), tw.silu())},
    "added to": {"beta": 1, "epilogue": (tw.bias(""), tw.leaky_relu(0.1))},
    "added to, rounded": {"beta": 1, "c": "bf16", "epilogue": (tw.residual("n"), tw.sigmoid())},
    "integers": {"a": "i8", "beta": 1, "epilogue": (tw.bias(), tw.relu())},
    "requantized": {
        "a": "u8",
        "b": "i8",
        "epilogue": (tw.bias(), tw.dequantize(), tw.relu(), tw.quantize(0.5, 3, "u8")),
    },
    "saturated": {"a": "i8", "epilogue": (tw.cast("i8"), tw.dequantize(0.1), tw.tanh())},
    "function": {
        "epilogue": (lambda c, s: tw.math.where(c > 0, tw.math.log(c + 1), tw.math.tanh(c * s)) + tw.math.erf(c),)
    },
}
SHAPES = [(1, 1, 1), (7, 19, 5), (33, 70, 40), (1, 40, 33), (40, 1, 33), (5, 3, 0), (0, 4, 3), (130, 200, 64)]


@cache
def compiled(spec: tw.MatmulSpec, target: str = "host", threads: int = 1) -> tw.Kernel:
    return tw.compile(spec, target, threads)


def random_operands(spec: tw.MatmulSpec, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """All operands, and a former C."""
    rng = np.random.default_rng(seed)

    def values(shape, element):
        if element.kind == "float":
            return rng.uniform(-1, 1, shape).astype(to_numpy(element))
        limits = np.iinfo(to_numpy(element)) if element.bits == 8 else None
        lo, hi = (limits.min, limits.max + 1) if limits else (-1000, 1000)
        return rng.integers(lo, hi, shape).astype(to_numpy(element))

    return [values(each.shape, each.type) for each in spec.operands], values(spec.c_shape, spec.c_type)


def assert_right(spec: tw.MatmulSpec, operands: list[np.ndarray], former: np.ndarray, result: np.ndarray) -> None:
    given = (*operands, former) if spec.beta else operands
    expected, bound = tw.reference(spec, *given), tw.error_bound(spec, *given)
    wrong = np.argwhere(~within_bound(result, expected, bound))
    assert len(wrong) == 0, (
        f"{len(wrong)} elements of {spec} are wrong, the first at {wrong[0]}: {result[tuple(wrong[0])]!r}, "
        f"expected {expected[tuple(wrong[0])]!r} ± {bound[tuple(wrong[0])]!r}"
    )
    assert bound.size == 0 or np.isfinite(bound).mean() > 0.9


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("chain", CHAINS)
def test_numbers(chain, shape):
    spec = tw.MatmulSpec(*shape, **CHAINS[chain])
    operands, former = random_operands(spec)
    result = former.copy()
    assert compiled(spec)(*operands, out=result) is result
    assert_right(spec, operands, former, result)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("chain", ["bias, gelu", "bf16", "rounded on the way", "requantized", "function"])
def test_numbers_on_every_target(chain, target):
    spec = tw.MatmulSpec(33, 70, 40, **CHAINS[chain])
    operands, former = random_operands(spec)
    assert_right(spec, operands, former, compiled(spec, target)(*operands))


def test_a_function_of_the_users_takes_three_lines():
    rng = np.random.default_rng(0)
    a, b, s = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((9, 33), (33, 20), (20,)))
    spec = tw.MatmulSpec(9, 20, 33, epilogue=(lambda c, s: tw.math.tanh(c * s),))
    kernel = tw.compile(spec)
    result = kernel(a, b, s)
    np.testing.assert_allclose(result, np.tanh((a @ b) * s), rtol=1e-5, atol=1e-6)


def test_threads():
    spec = tw.MatmulSpec(256, 512, 256, epilogue=(tw.bias(), tw.gelu(), tw.residual()))
    operands, former = random_operands(spec)
    assert_right(spec, operands, former, compiled(spec, threads=2)(*operands))


def test_packed_b():
    spec = tw.MatmulSpec(33, 70, 40, b_packed=True, epilogue=(tw.bias(), tw.gelu()))
    (a, b, bias), former = random_operands(spec)
    kernel = compiled(spec)
    assert_right(spec, [a, b, bias], former, kernel(a, kernel.pack_b(b), bias))
    with pytest.raises(OperandError, match="is no packed B"):
        kernel(a, b, bias)


def test_nothing_beyond_an_operand_is_touched():
    """Each operand ends, or begins, where memory does: a kernel that strays ends the process."""
    program = """
        import ctypes, mmap
        import numpy as np
        import tilewright as tw
        from test_kernel_epilogues import assert_right, compiled, random_operands

        regions = []

        def guarded(array, at_end):
            pages = -(-array.nbytes // mmap.PAGESIZE)
            region = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
            regions.append(region)
            address = ctypes.addressof(ctypes.c_char.from_buffer(region))
            start = mmap.PAGESIZE + (pages * mmap.PAGESIZE - array.nbytes if at_end else 0)
            copy = np.frombuffer(region, array.dtype, array.size, start).reshape(array.shape)
            copy[...] = array
            for fence in (address, address + (pages + 1) * mmap.PAGESIZE):
                assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), mmap.PAGESIZE, 0) == 0
            return copy

        entries = (tw.bias(), tw.bias("m"), tw.residual("mn", "bf16"), tw.scale_by(""), tw.gelu())
        for shape in ((7, 19, 5), (64, 70, 33), (1, 3, 9)):
            for schedule in (None, "packed", "unpacked"):
                spec = tw.MatmulSpec(*shape, epilogue=entries)
                kernel = tw.compile(spec, schedule=schedule)
                operands, former = random_operands(spec)
                for at_end in (False, True):
                    out = guarded(former, at_end)
                    assert_right(spec, operands, former, kernel(*(guarded(each, at_end) for each in operands), out=out))
        print("none")
    """
    assert in_new_process(program).strip() == "none"


@pytest.fixture
def kernel() -> tw.Kernel:
    return compiled(tw.MatmulSpec(4, 6, 5, epilogue=(tw.bias(), tw.residual())))


def test_rows_may_lie_apart_and_operands_have_names(kernel):
    (a, b, bias, residual), _ = random_operands(kernel.spec)
    wide = [np.full((each.shape[0], each.shape[1] + 3), np.nan, np.float32) for each in (a, b, residual)]
    for whole, each in zip(wide, (a, b, residual), strict=True):
        whole[:, 1:-2] = each
    views = [each[:, 1:-2] for each in wide]
    expected = a @ b + bias + residual
    out = np.full((4, 9), 7, np.float32)
    assert kernel(views[0], views[1], bias, views[2], out=out[:, 2:-1]).base is out
    np.testing.assert_allclose(out[:, 2:-1], expected, rtol=1e-5)
    assert (out[:, :2] == 7).all()
    assert (out[:, -1] == 7).all()
    np.testing.assert_allclose(kernel(a, b, residual=residual, bias=bias), expected, rtol=1e-5)


def test_operands_that_do_not_fit_are_refused_by_name(kernel):
    (a, b, bias, residual), c = random_operands(kernel.spec)
    shared = np.zeros((8, 6), np.float32)
    unaligned = np.zeros(25, np.uint8)[1:].view(np.float32)
    frozen = c.copy()
    frozen.flags.writeable = False
    for given, out, match in (
        ((a, b, bias[:-1], residual), None, r"operand bias: shape \(5,\); expected \(6,\)"),
        ((a, b, bias[np.newaxis], residual), None, r"operand bias: shape \(1, 6\).*reshape\(\(6,\)\)"),
        ((a, b, bias.astype(np.float64), residual), None, "operand bias: element type float64; expected float32"),
        (
            (a, b, np.zeros(12, np.float32)[::2], residual),
            None,
            r"operand bias: strides \(8,\) bytes.*adjacent elements",
        ),
        ((a, b, unaligned[:6], residual), None, "operand bias: its first element lies . bytes off"),
        ((a, b, list(bias), residual), None, r"operand bias: a list is not a numpy array"),
        ((a, b, bias, residual.T.copy().T), None, "operand residual: strides .* not adjacent"),
        ((a, b, bias, residual[::-1]), None, "operand residual: strides .* rows run backwards"),
        ((a[:3], b, bias, residual), None, r"operand a: shape \(3, 5\)"),
        ((a, b, bias, residual), c[:3], r"operand out: shape \(3, 6\)"),
        ((a, b, bias, residual), frozen, "operand out: the array is read-only"),
        ((a, b, bias, shared[:4]), shared[2:6], "operand out: it overlaps operand residual"),
    ):
        with pytest.raises(OperandError, match=match):
            kernel(*given, out=out)


def test_wrong_calls(kernel):
    (a, b, bias, residual), c = random_operands(kernel.spec)
    for given, named, match in (
        ((a, b, bias), {}, r"takes 4 operands \(a, b, bias, residual, \*, out=None\), and residual is missing"),
        ((a, b, bias, residual, c), {}, "takes 4 positional operands"),
        ((a, b, bias, residual), {"bias": bias}, "several values for operand 'bias'"),
        ((a, b, bias, residual), {"scale": bias}, "no keyword 'scale'"),
    ):
        with pytest.raises(TypeError, match=match):
            kernel(*given, **named)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def dltensor(array: np.ndarray, **changed) -> _DLTensor:
    longs = ctypes.c_int64 * max(array.ndim, 1)
    fields = {
        "data": array.ctypes.data,
        "device": (1, 0),
        "ndim": array.ndim,
        "code": 2,
        "bits": 8 * array.itemsize,
        "lanes": 1,
        "shape": array.shape,
        "strides": [each // array.itemsize for each in array.strides],
        "byte_offset": 0,
        **changed,
    }
    for name in ("shape", "strides"):
        fields[name] = longs(*fields[name]) if fields[name] else None
    return _DLTensor(**fields)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 0),
        ({"strides": ()}, 0),
        ({"shape": (7,)}, 1),
        ({"ndim": 2}, 4),
        ({"bits": 64}, 4),
        ({"code": 0}, 4),
        ({"lanes": 2}, 4),
        ({"device": (2, 0)}, 4),
        ({"strides": (2,)}, 4),
    ],
)
def test_the_c_entry_checks_its_tensors(kernel, changed, status):
    (a, b, bias, residual), c = random_operands(kernel.spec)
    function = kernel.c_function
    assert function.prototype == (
        "int32_t matmul(const DLTensor *a, const DLTensor *b, const DLTensor *bias_, const DLTensor *residual_, DLTensor *c)"
    )
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.POINTER(_DLTensor)] * 5)(function.address)
    before = c.copy()
    tensors = [dltensor(a), dltensor(b), dltensor(bias, **changed), dltensor(residual), dltensor(c)]
    assert entry(*map(ctypes.byref, tensors)) == status
    np.testing.assert_allclose(c, before if status else a @ b + bias + residual, rtol=1e-5)


def test_the_byte_offset_counts(kernel):
    (a, b, bias, residual), c = random_operands(kernel.spec)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.POINTER(_DLTensor)] * 5)(kernel.c_function.address)
    longer = np.concatenate([np.full(3, 9, np.float32), bias])
    tensors = [dltensor(a), dltensor(b), dltensor(bias, data=longer.ctypes.data, byte_offset=12), dltensor(residual)]
    assert entry(*map(ctypes.byref, [*tensors, dltensor(c)])) == 0
    np.testing.assert_allclose(c, a @ b + bias + residual, rtol=1e-5)


def test_a_schedule_of_the_users_takes_epilogues(tmp_path):
    spec = tw.MatmulSpec(8, 32, 16, epilogue=(tw.bias(), lambda c, s: c * s))
    operands, former = random_operands(spec)
    file = tmp_path / "nothing.mlir"
    file.write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        '    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op\n'
        '    transform.annotate %f "seen" : !transform.any_op\n'
        "    transform.yield\n  }\n}\n"
    )
    assert_right(spec, operands, former, tw.compile(spec, schedule=file)(*operands))


SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-38,
    88.72,
    88.73,
    -87.4,
    -103.9,
    -104.1,
    9.0,
    3.4e38,
    -3.4e38,
]
FUNCTIONS = {"exp": np.exp, "log": np.log, "tanh": np.tanh}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_f32(name, target):
    """Within three units in the last place of float64's result, at special values and over the whole range."""
    bits = np.random.default_rng(0).integers(0, 2**32, 8 * 1024 - len(SPECIAL), np.uint32)
    x = np.concatenate([np.array(SPECIAL, np.float32), bits.view(np.float32)]).reshape(8, 1024)
    spec = tw.MatmulSpec(8, 1024, 1, epilogue=(tw.function(lambda c, x: getattr(tw.math, name)(x), x="mn"),))
    found = compiled(spec, target)(np.zeros((8, 1), np.float32), np.zeros((1, 1024), np.float32), x)
    with np.errstate(all="ignore"):
        wide = FUNCTIONS[name](x.astype(np.float64))
        expected = wide.astype(np.float32)
        unit = np.spacing(np.abs(expected)).astype(np.float64)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        assert (same | (np.abs(found - wide) <= 3 * unit)).all()
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


SPECIAL_F64 = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-308,
    709.78,
    709.79,
    -708.4,
    -745.1,
    -745.2,
    19.0,
    1.7e308,
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*FUNCTIONS, "erf"])
def test_functions_of_f64(name, target):
    """Within some units in the last place, at special values and over the whole range, and without the C library."""
    bits = np.random.default_rng(0).integers(0, 2**64, 2048 - len(SPECIAL_F64), np.uint64).view(np.float64)
    near = np.random.default_rng(1).uniform(-8, 8, 2048)
    x = np.concatenate([SPECIAL_F64, bits, near]).reshape(8, 512)
    spec = tw.MatmulSpec(8, 512, 1, a="f64", epilogue=(tw.function(lambda c, x: getattr(tw.math, name)(x), x="mn"),))
    kernel = compiled(spec, target)
    assert f"{name}@" not in kernel.asm["asm"]
    found = kernel(np.zeros((8, 1)), np.zeros((1, 512)), x)
    with np.errstate(all="ignore"):
        expected = np.vectorize(math.erf)(x) if name == "erf" else FUNCTIONS[name](x)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        assert (same | (np.abs(found - expected) <= 4 * np.spacing(np.abs(expected)))).all()
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("schedule", ["packed", "unpacked"])
@pytest.mark.parametrize("n", [1, 17, 33, 35, 65])
def test_bytes_beside_a_row_are_left_alone(n, schedule):
    """One byte under a mask is stored as one: LLVM by itself would store four."""
    spec = tw.MatmulSpec(8, n, 8, epilogue=(tw.quantize(0.05, 5, "i8"),))
    operands, former = random_operands(spec)
    whole = np.full((8, n + 64), 77, np.int8)
    assert_right(spec, operands, former, tw.compile(spec, schedule=schedule)(*operands, out=whole[:, 32 : 32 + n]))
    assert (np.delete(whole, np.s_[32 : 32 + n], axis=1) == 77).all()
