# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels on a card that is a fake: cuda-core as it is, on ``test/emulators/cuda.c`` in place of NVIDIA's driver.

A launch runs the kernel in the emulator, on the parameters that the driver was given. Run as a program, with the fake driver's
folder in LD_LIBRARY_PATH, it does every case below, and prints a line of JSON for each: its name, and the traceback of a failure.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
import traceback
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import attention_cases
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from dlpack_arrays import Library
from fake_card import Driver, FakeTensor, OnCard
from gpu_kernels import array
from tilewright.bench.card import bundle, plan, proofs
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.suites import parse_shape
from tilewright.errors import OperandError, TargetError
from tilewright.runtime import card_calls, cards, device_arrays, gpu
from tilewright.schedules.gpu.warpgroup import FLAG_BYTES
from tilewright.targets import nvidia

SM_80, SM_90A, SM_100A = nvidia.ROWS
CASES: list[Callable[[], None]] = []
STREAM = 7


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES.append(function)
    return function


def refuses(error: type[Exception], words: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=words):
        call()


def operands_of(spec: Any, *, aligned: bool = True) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [array(each, rng, aligned=aligned) for each in spec.operands]


def is_right(spec: Any, got: np.ndarray, operands: list[np.ndarray], *former: np.ndarray) -> bool:
    expected, bound = tw.reference(spec, *operands, *former), tw.error_bound(spec, *operands, *former)
    return bool((np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= bound).all())


@case
def no_card() -> None:
    DRIVER.library.fake_cards(0)
    kernel = gpu.compile(tw.MatmulSpec(m=8, n=8, k=8), SM_90A)
    a = np.ones((8, 8), np.float32)
    refuses(TargetError, "no card", lambda: kernel(a, a))
    DRIVER.library.fake_cards(1)
    refuses(TargetError, "capability 9.0", lambda: gpu.compile(tw.MatmulSpec(m=8, n=8, k=8), SM_100A)(a, a))


@case
def numpy_arrays_by_copies() -> None:
    spec = tw.MatmulSpec(m=93, n=120, k=61, a="bf16", epilogue=(tw.bias("n"), tw.relu()), beta=0)
    for kernel in (gpu.compile(spec, SM_90A), gpu.compile(spec, SM_80)):
        DRIVER.runs(kernel)
        operands = operands_of(spec, aligned=False)
        assert is_right(spec, kernel(*operands, stream=STREAM), operands), DRIVER.error
        assert DRIVER.last["stream"] == STREAM
        assert DRIVER.last["shared_bytes"] == kernel._stages.shared_bytes
        assert DRIVER.last["follows"] == (
            kernel.metadata.schedule == "warpgroup"
        )  # The other one has no instruction to wait by.
        assert DRIVER.count(f"synchronize {STREAM}")
    assert DRIVER.count("alloc") == DRIVER.count("free") == 8


@case
def samples_of_calls() -> None:
    """A launch of the fake takes a millisecond."""
    for beta in (0, 1):
        spec = tw.MatmulSpec(64, 48, 32, a="bf16", beta=beta)
        kernel = gpu.compile(spec, SM_90A)
        DRIVER.runs(kernel)
        out = np.zeros((64, 48), np.float32)
        before = {each: DRIVER.count(each) for each in ("launch", "alloc", "free", "event", "no event")}
        with card_calls.samples(kernel, operands_of(spec), out) as sample:
            assert np.isclose([sample(1), sample(3)], 1e-3).all()
        added = {each: DRIVER.count(each) - count for each, count in before.items()}
        assert added["launch"] == 5
        assert added["alloc"] == added["free"] == 3
        assert added["event"] == added["no event"] == 2


@case
def kernels_behind_one_another() -> None:
    spec = tw.MatmulSpec(
        m=5, n=7, k=16, a="bf16", prologue_a=(tw.gather_rows(9),), epilogue=(tw.softmax(), tw.scale_by("m"))
    )
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    operands = operands_of(spec)
    operands[2] %= 9
    assert is_right(spec, kernel(*operands), operands), DRIVER.error
    out = OnCard(np.full((5, 7), np.nan, np.float32))
    assert kernel(*map(OnCard, operands), out=out, stream=STREAM) is out
    assert is_right(spec, out.values, operands), DRIVER.error
    assert DRIVER.count("alloc async") == DRIVER.count("free async") == 2


@case
def a_convolution_has_a_launch_for_each_group() -> None:
    spec = tw.Conv2dSpec(2, 5, 4, 16, 16, 3, 3, a="bf16", padding=1, groups=2, epilogue=(tw.bias(),))
    kernel = gpu.compile(spec, SM_80)
    DRIVER.runs(kernel)
    operands = [np.ascontiguousarray(each) for each in operands_of(spec)]
    assert is_right(spec, kernel(*operands), operands), DRIVER.error
    out = OnCard(np.full(spec.result.shape, np.nan, np.float32))
    assert kernel(*map(OnCard, operands), out=out, stream=STREAM) is out
    assert is_right(spec, out.values, operands), DRIVER.error


@case
def patches_are_copied_in_boxes_of_images() -> None:
    spec = tw.Conv2dSpec(
        2, 5, 4, 128, 16, 3, 3, a="bf16", stride=(2, 1), dilation=(1, 2), padding=((0, 2), (3, 1)), groups=2
    )
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    operands = [np.ascontiguousarray(each) for each in operands_of(spec)]
    out = OnCard(np.full(spec.result.shape, np.nan, np.float32))
    for _ in range(2):
        assert kernel(*map(OnCard, operands), out=out, stream=STREAM) is out
        assert is_right(spec, out.values, operands), DRIVER.error


@case
def attention_on_the_card() -> None:
    spec = tw.AttentionSpec(None, None, 16, heads=2, kv_heads=1, q="bf16", causal=True)
    kernel = gpu.compile(spec, SM_80, parameters={"bm": 32, "kc": 16, "threads": 64, "rows": 16})
    DRIVER.runs(kernel)
    called = replace(spec, queries=33, keys=40)
    operands = operands_of(called)
    assert is_right(called, kernel(*operands), operands), DRIVER.error
    out = OnCard(np.zeros(called.result.shape, operands[0].dtype))
    assert kernel(*map(OnCard, operands), out=out, stream=STREAM) is out
    assert is_right(called, out.values, operands), DRIVER.error


@case
def attention_with_tables_on_the_card() -> None:
    # Tensor maps of pages have four axes, and boxes of a page's keys.
    spec = tw.AttentionSpec(70, 40, 64, heads=2, kv_heads=1, q="bf16", sequences=3, page=16, causal="lower_right")
    kernel = gpu.compile(spec, SM_90A, parameters={"bm": 64, "kc": 32})
    assert [each.shape for each in kernel._stages.boxes] == [(1, 64, 64), (1, 1, 16, 64), (1, 1, 16, 64)]
    DRIVER.runs(kernel)
    operands = attention_cases.operands(spec, seed=0)
    assert is_right(spec, kernel(*operands), operands), DRIVER.error
    assert DRIVER.last["grid"] == (2, 70 // 64 + 3, 1)
    out = OnCard(np.zeros(spec.result.shape, operands[0].dtype))
    assert kernel(*map(OnCard, operands), out=out, stream=STREAM) is out
    assert is_right(spec, out.values, operands), DRIVER.error
    pages = operands[5].copy()
    pages[0, 0] = len(operands[1])
    refuses(OperandError, "names a page that there is not", lambda: kernel(*operands[:5], pages))


@case
def a_result_that_is_added_to() -> None:
    spec = tw.MatmulSpec(m=5, n=7, k=3, beta=1)
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel, aligned=False)
    operands, former = operands_of(spec), np.full((5, 7), 2.0, np.float32)
    out = former.copy()
    assert kernel(*operands, out=out) is out
    assert is_right(spec, out, operands, former)
    refuses(OperandError, "beta is not 0", lambda: kernel(*operands))


@case
def factors_that_are_numbers() -> None:
    spec = tw.MatmulSpec(m=5, n=8, k=16, a="bf16", alpha="arg", beta="arg")
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    *operands, _, _ = operands_of(spec)
    before = DRIVER.count("alloc async")
    former = np.full((5, 8), 2.0, np.float32)
    for alpha, beta in ((0.5, -3.0), (0, 2)):
        given = [*operands, np.array(alpha, np.float32), np.array(beta, np.float32)]
        out = former.copy()
        kernel(*operands, out=out, alpha=alpha, beta=beta)
        assert is_right(spec, out, given, former), DRIVER.error
        there = OnCard(former.copy())
        kernel(*map(OnCard, operands), out=there, alpha=alpha, beta=beta, stream=STREAM)
        assert is_right(spec, there.values, given, former), DRIVER.error
        # Where alpha is known to be 0, the kernel has no products: A and B may hold anything.
        kernel(*map(OnCard, given), out=OnCard(former.copy()), stream=STREAM)
    assert DRIVER.count("alloc async") == DRIVER.count("free async") == before + 4


@case
def arrays_on_the_card_where_they_lie() -> None:
    spec = tw.MatmulSpec(m=65, n=72, k=40, a="bf16")
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    operands = operands_of(spec)
    out = OnCard(np.full((65, 72), np.nan, np.float32))
    given = [OnCard(each, old=number == 1) for number, each in enumerate(operands)]
    before = DRIVER.count("alloc")
    assert kernel(*given, out=out, stream=STREAM) is out
    assert is_right(spec, out.values, operands), DRIVER.error
    assert DRIVER.last["stream"] == STREAM
    assert [each.streams for each in (*given, out)] == [[STREAM]] * 3
    assert DRIVER.count("alloc") == before
    kernel(*given, out=out)
    assert DRIVER.last["stream"] == 0
    assert given[0].streams == [STREAM, device_arrays.DEFAULT_STREAM]


@case
def streams_of_other_libraries() -> None:
    spec = tw.MatmulSpec(m=4, n=4, k=4)
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    a = np.ones((4, 4), np.float32)
    for stream in (
        types.SimpleNamespace(cuda_stream=9),
        types.SimpleNamespace(ptr=9),
        types.SimpleNamespace(__cuda_stream__=lambda: (0, 9)),
    ):
        kernel(a, a, stream=stream)
        assert DRIVER.last["stream"] == 9
    refuses(OperandError, "stream", lambda: kernel(a, a, stream="0"))


@case
def clusters() -> None:
    spec = tw.MatmulSpec(m=384, n=64, k=128, a="bf16")
    sizes = {"bm": 64, "bn": 64, "consumers": 1, "cluster": 2}
    kernel = gpu.compile(spec, SM_90A, "warpgroup", parameters=sizes)
    DRIVER.runs(kernel)
    operands = operands_of(spec)
    assert is_right(spec, kernel(*operands), operands), DRIVER.error
    assert (DRIVER.last["cluster"], DRIVER.last["follows"]) == ((2, 1, 1), 1)
    assert DRIVER.last["grid"] == (2, 1, 1)  # Of four multiprocessors one has no neighbor.
    leaves_sums(gpu.compile(spec, SM_90A, "warpgroup", {**sizes, "cluster": 1, "streamed": 1}))


def leaves_sums(kernel: gpu.GpuKernel) -> None:
    """Memory in which blocks leave sums for others: zeros are made once a stream and a capture, and are there again behind each launch."""
    spec, before = kernel.spec, DRIVER.count("set")
    operands = operands_of(spec)
    DRIVER.runs(kernel)
    for stream, capture, made in (
        (7, 0, 1),
        (7, 0, 1),
        (8, 0, 2),
        (7, 0, 2),
        (7, 1, 3),
        (7, 1, 3),
        (7, 2, 4),
        (7, 0, 4),
    ):
        DRIVER.library.fake_capture(capture)
        assert is_right(spec, kernel(*operands, stream=stream), operands), DRIVER.error
        assert DRIVER.count("set") - before == made
    form, loaded = kernel.code(True, lambda _: {})
    ((first,),) = loaded.values()
    blocks = prod(DRIVER.last["grid"])
    for place in first._workspaces._places.values():
        memory = np.frombuffer((ctypes.c_uint8 * (blocks * form.sizes.workspace)).from_address(place), np.uint8)
        sums, flags = np.split(memory.reshape(blocks, -1), [-FLAG_BYTES], axis=1)
        assert sums.any()
        assert not flags.any()


@case
def steps_divided_on_blackwell() -> None:
    spec = tw.MatmulSpec(m=384, n=64, k=640, a="bf16")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cards.Card, "runs", lambda card, target: True)
        sizes = {"bm": 128, "bn": 64, "stages": 3, "streamed": 1}
        leaves_sums(gpu.compile(spec, SM_100A, "tensor_memory", parameters=sizes))


@case
def a_library_that_makes_the_result() -> None:
    fake = types.ModuleType("torch")

    current: Any = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=11))
    fake.__dict__.update(
        cuda=current,
        float32=np.float32,
        _C=types.SimpleNamespace(),
        empty=lambda shape, dtype, device: FakeTensor(np.full(shape, np.nan, dtype)),
    )
    sys.modules["torch"] = fake
    try:
        spec = tw.MatmulSpec(m=8, n=16, k=8, a="bf16")
        kernel = gpu.compile(spec, SM_90A)
        DRIVER.runs(kernel)
        operands = operands_of(spec)
        got = kernel(*map(FakeTensor, operands))
        assert isinstance(got, FakeTensor)
        assert is_right(spec, got.values, operands), DRIVER.error
        assert DRIVER.last["stream"] == 11
        bytes_ = FakeTensor(np.ones((2, 2), np.uint8))
        small = types.SimpleNamespace(dtype="torch.float8_e4m3fn", view=lambda kind: bytes_)
        fake.uint8 = "uint8"  # pyright: ignore[reportAttributeAccessIssue]
        assert device_arrays.LIBRARIES["torch"].bytes_of(fake, small) == (bytes_, "float8_e4m3fn")
    finally:
        del sys.modules["torch"]


@case
def a_repeated_call_is_its_launch_alone() -> None:
    """Nothing is encoded, allocated or waited for: a graph can capture it."""
    fake: Any = types.ModuleType("torch")
    streams = [11]
    fake.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=streams[-1]))
    fake._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: streams[-1])
    fake.float32 = np.float32
    fake.empty = lambda shape, dtype, device: FakeTensor(np.full(shape, np.nan, dtype))
    sys.modules["torch"] = fake
    try:
        spec = tw.MatmulSpec(m=None, n=16, k=8, a="bf16")
        kernel: Any = gpu.compile(spec, SM_90A)
        # Calls with dynamic extents take the sizes that are predicted to be the fastest.
        assert kernel.of_call(spec.sized({"m": 8})) is not kernel
        DRIVER.runs(kernel.of_call(spec.sized({"m": 8})))
        random = np.random.default_rng(0)
        a, b = (random.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16) for shape in ((8, 8), (8, 16)))
        given, out = [FakeTensor(a), FakeTensor(b)], FakeTensor(np.full((8, 16), np.nan, np.float32))
        called = spec.sized({"m": 8})

        def log() -> list[str]:
            return DRIVER.library.fake_log().decode().splitlines()

        def calls(*operands: Any, **more: Any) -> list[str]:
            before = len(log())
            out.values[...] = np.nan
            result = kernel(*operands, **more)
            assert is_right(called, result.values, [each.values for each in operands]), DRIVER.error
            return log()[before:]

        assert calls(*given, out=out).count("encode") == 3
        exported = len(given[0].streams)
        # Of all calls of the driver two are left: whether the card is the current one, and the launch.
        assert calls(*given, out=out) == ["context", "launch"]
        assert calls(*given, out=out, stream=11) == ["context", "launch"]
        assert DRIVER.last["stream"] == 11
        assert len(given[0].streams) == exported
        # Another address, another layout, another stream, or an array that must not be exported is a new call.
        assert "encode" in calls(FakeTensor(a.copy()), given[1], out=out)
        assert "encode" in calls(*given)
        assert "encode" in calls(*given, out=out, stream=12)
        streams.append(13)
        assert "encode" in calls(*given, out=out)
        assert calls(*given, out=out) == ["context", "launch"]
        given[0].requires_grad = True
        assert "encode" in calls(*given, out=out)
        refuses(OperandError, "shape|elements along", lambda: kernel(given[1], given[1], out=out))
        # No array is kept alive by what is kept of its call.
        passing = FakeTensor(a.copy())
        gone = weakref.ref(passing)
        calls(passing, given[1], out=out)
        del passing
        gc.collect()
        assert gone() is None
    finally:
        del sys.modules["torch"]


@case
def operands_that_do_not_fit() -> None:
    spec = tw.MatmulSpec(m=4, n=4, k=4)
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    a = np.ones((4, 4), np.float32)
    frozen = a.copy()
    frozen.flags.writeable = False
    card = OnCard(a)
    refuses(OperandError, "card 0, this machine's memory", lambda: kernel(card, a))
    refuses(OperandError, "out=", lambda: kernel(card, card))
    refuses(OperandError, "float64", lambda: kernel(card, OnCard(a.astype(np.float64)), out=card))
    refuses(OperandError, "shape", lambda: kernel(card, card, out=OnCard(np.ones((4, 5), np.float32))))
    refuses(OperandError, "strides", lambda: kernel(OnCard(a.T), card, out=card))
    refuses(OperandError, "read-only", lambda: kernel(a, a, out=frozen))
    refuses(OperandError, "read-only", lambda: kernel(card, card, out=OnCard(frozen)))
    refuses(OperandError, "overlaps operand b", lambda: kernel(OnCard(a.copy()), card, out=OnCard(a)))
    refuses(OperandError, "this machine's memory", lambda: kernel(OnCard(a, kind=1), card, out=card))
    refuses(OperandError, "a list", lambda: kernel([[1.0]], a))
    refuses(TypeError, "b is missing", lambda: kernel(a))
    refuses(TypeError, "'bias'", lambda: kernel(a, a, bias=a))
    refuses(TypeError, "several values", lambda: kernel(a, a, b=a))
    refuses(TypeError, "3 are given", lambda: kernel(a, a, a))
    assert (kernel(a, b=a) == 4).all()
    refuses(OperandError, "DLPack's type", lambda: kernel(OnCard(a.astype(np.int16)), card, out=card))


@case
def what_the_driver_reports() -> None:
    spec = tw.MatmulSpec(m=4, n=4, k=4)
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    a = np.ones((4, 4), np.float32)
    kernel(a, a)
    before = DRIVER.count("alloc") - DRIVER.count("free")
    DRIVER.library.fake_fail_with(719)
    refuses(TargetError, "CUDA_ERROR_LAUNCH_FAILED", lambda: kernel(a, a))
    DRIVER.library.fake_fail_with(0)
    assert DRIVER.count("alloc") - DRIVER.count("free") == before


@case
def a_driver_that_is_older_than_the_assembler() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=4, n=4, k=4), SM_90A)
    DRIVER.runs(kernel)
    a, before = np.ones((4, 4), np.float32), DRIVER.count("load PTX")
    DRIVER.library.fake_refuse_cubins(1)
    assert (kernel(a, a) == 4).all()
    DRIVER.library.fake_refuse_cubins(0)
    assert DRIVER.count("load PTX") == before + 1


@case
def a_kernel_of_a_bundle() -> None:
    """As ``bench card`` launches it where the card is."""
    sizes = {"bm": 128, "bn": 64}
    kernel = plan.Kernel("bf16", "nt", "warpgroup", tuple(sizes.items()))
    DRIVER.runs(gpu.compile(kernel.spec, SM_90A, "warpgroup", sizes))
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((130, 64), (72, 64)))
    c = np.full((130, 72), np.nan, ml_dtypes.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        bundle._compile(Path(folder), kernel, exact=False)
        form, code = bundle.read_form(Path(folder), kernel), bundle.read_code(Path(folder), kernel)
    card = cards.find(SM_90A)
    with cards.current(card):
        launch = cards.Loaded(card, form, code).bound(kernel.spec.sized({"m": 130, "n": 72, "k": 64}), [a, b, c])
    for stream in (STREAM, STREAM + 1):
        c[...] = np.nan
        launch(stream)
        assert is_right(kernel.spec.sized({"m": 130, "n": 72, "k": 64}), c, [a, b]), DRIVER.error
        assert DRIVER.last["stream"] == stream


@case
def steps_of_a_bundle_without_torch() -> None:
    """Layouts, and checks of either form: the one for whole pieces of 16 bytes is refused where rows end within one."""
    small = tuple(sorted({"bm": 32, "bn": 32, "bk": 8}.items()))
    whole = plan.Kernel("bf16", "nt", "simt", small)
    odd = replace(whole, aligned=False)
    shape = parse_shape("57x34x30")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prover = proofs.Prover(folder)
        for kernel, kind, size in (
            (whole, "layout", parse_shape("128x64x128")),
            (whole, "check", parse_shape("32x32x32")),
            (odd, "check", shape),
        ):
            bundle._compile(folder, kernel, exact=kind == "layout")
            DRIVER.runs(gpu.compile(kernel.spec, SM_90A, "simt", dict(small)), aligned=kernel.aligned)
            outcome = prover.run(plan.Step(kind, size, (kernel,)))
            assert (outcome["right"], outcome["wrong"], outcome["intact"]) == (True, 0, True), DRIVER.error
        refuses(tw.TilewrightError, "whole pieces of 16 bytes", lambda: prover.run(plan.Step("check", shape, (whole,))))
        # Another kernel's numbers are wrong, and what is wrong is shown.
        DRIVER.runs(gpu.compile(replace(whole, layout="nn").spec, SM_90A, "simt", dict(small)), aligned=False)
        wrong = prover.run(plan.Step("check", parse_shape("32x32x32"), (odd,)))
        assert not wrong["right"]
        assert wrong["where"]


@case
def operators_of_a_bundle() -> None:
    """Attention by warp groups, with one block and with clusters, and convolutions, of several launches."""
    heads = {"heads": 2, "kv_heads": 1, "q": "bf16"}
    images = {"n": 2, "h": 5, "w": 7, "ic": 16, "oc": 16, "kh": 3, "kw": 3, "a": "bf16", "groups": 2, "padding": 1}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prover = proofs.Prover(folder)
        for operator, strategy, sizes, fields in (
            (
                "attention",
                "warp_group_softmax",
                {"kc": 32},
                {"queries": 70, "keys": 90, "head": 64, "causal": True, **heads},
            ),
            ("attention", "warp_group_softmax", {}, {"queries": 3, "keys": 2900, "head": 64, **heads}),
            ("attention", "shared_softmax", {}, {"queries": 5, "keys": 9, "head": 16, "q": "f32"}),
            ("attention", "shared_softmax", {}, {"queries": 5, "keys": 9, "head": 16, "batch": (2,), "page": 4}),
            ("conv2d", "mma_sync", {"bm": 32, "bn": 32, "wm": 16, "wn": 16}, images),
            ("conv2d", "warpgroup", {"cluster": 1, "split": 1}, {**images, "ic": 128, "stride": (1, 2)}),
        ):
            kernel = Operator(operator, tuple(fields.items()), strategy, tuple(sizes.items()))
            bundle._compile(folder, kernel, exact=False)
            DRIVER.runs(gpu.compile(kernel.spec, SM_90A, strategy, sizes))
            outcome = prover.run(plan.Step("operator", kernel.shape, (kernel,)))
            assert (outcome["right"], outcome["wrong"], outcome["intact"]) == (True, 0, True), (DRIVER.error, outcome)
            split = dict(read_parameters(folder, kernel)).get("split", 1)
            assert DRIVER.last["cluster"] == (split, 1, 1)


def read_parameters(folder: Path, kernel: Operator) -> dict[str, Any]:
    return bundle.read_form(folder, kernel).parameters


@case
def no_elements() -> None:
    spec = tw.MatmulSpec(m=None, n=None, k=None, a="bf16")
    kernel = gpu.compile(spec, SM_90A)
    DRIVER.runs(kernel)
    a, b = np.ones((1, 0), ml_dtypes.bfloat16), np.ones((0, 8), ml_dtypes.bfloat16)
    assert not kernel(a, b).any()
    assert kernel(a[:0], b).shape == (0, 8)


@case
def arrays_of_other_libraries_in_this_machines_memory() -> None:
    spec = tw.MatmulSpec(16, 16, 16)
    kernel: Any = gpu.compile(spec, SM_80)
    DRIVER.runs(kernel)
    a, b = np.eye(16, dtype="f4"), np.arange(256, dtype="f4").reshape(16, 16)
    result = kernel(Library(a), b)
    assert type(result) is Library
    assert (result.array == b).all()
    out = Library(np.zeros((16, 16), "f4"))
    assert kernel(a, Library(b), out=out) is out
    assert (out.array == b).all()


if __name__ == "__main__":
    DRIVER = Driver()
    for each in CASES:
        failure = ""
        try:
            each()
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps({"case": each.__name__, "failure": failure}), flush=True)  # noqa: T201
