# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SME's outer products in an emulator: numbers at many lengths of vectors, in and outside of streaming mode, and the ABI."""

import dataclasses
import itertools
import os
import re
import shutil

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.emit import code, stages
from tilewright.errors import ScheduleError, TargetError
from tilewright.payload.reference import within_bound
from tilewright.runtime import emulators
from tilewright.runtime.emulated_call import Operand, Program
from tilewright.runtime.emulator import Emulator
from tilewright.schedules import make, select
from tilewright.schedules.models import outer_blocks
from tilewright.targets import outer_products

needs_emulator = pytest.mark.skipif(
    os.uname().machine != "x86_64" or not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed"
)
FLOATS = ("f32", "f64", "bf16,bf16,f32", "f16,f16,f32")
BYTES = ("i8", "u8", "u8,i8,i32", "i8,u8,i32")
# Bits of vectors in streaming mode, and outside of it: equal, longer and shorter.
LENGTHS = ((128, 128), (256, 1024), (512, 128), (1024, 2048), (2048, 256))


def is_right(dtype: str) -> bool:
    """Whether the emulator multiplies such elements right."""
    if dtype in FLOATS:
        return True
    return emulators.multiplies_bytes(emulators.find(targets.get("sme")))


def check(spec: tw.MatmulSpec, *, lengths: tuple[int, int] = (512, 128), **parameters: int) -> None:
    """Runs a kernel of the strategy on random operands, and compares."""
    streaming, outside = lengths
    kernel = tw.compile(
        spec,
        targets.get("sme").emulated(vector_length=outside, streaming_length=streaming),
        schedule="outer_product",
        parameters=parameters,
        cache=False,
    )
    random = np.random.default_rng(7)

    def made(shape, element):
        numpy = to_numpy(element)
        if element.kind == "float":
            return random.uniform(-1, 1, shape).astype(numpy)
        info = np.iinfo(numpy) if element.bits == 8 else np.iinfo(np.int16)
        return random.integers(info.min, info.max, shape, endpoint=True).astype(numpy)

    given = [made(each.shape, each.type) for each in spec.operands]
    c = made(spec.c_shape, spec.c_type)
    former = (c.copy(),) if spec.beta else ()
    kernel(*given, out=c)
    assert within_bound(c, tw.reference(spec, *given, *former), tw.error_bound(spec, *given, *former)).all()


@needs_emulator
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda each: f"{each[0]}-{each[1]}")
@pytest.mark.parametrize("dtype", [*FLOATS, *BYTES])
def test_numbers(dtype, lengths):
    if not is_right(dtype):
        pytest.skip("this QEMU leaves out rows of outer products of bytes")
    layouts = itertools.cycle(("nn", "tt", "nt", "tn"))
    first = LENGTHS.index(lengths)
    for layout, beta, shape in zip(layouts, (first % 2, 1 - first % 2), ((37, 45, 29), (64, 130, 8)), strict=False):
        check(tw.MatmulSpec.from_dtypes(*shape, dtype, layout=layout, beta=beta), lengths=lengths)


@needs_emulator
@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16,bf16,f32", "i8"])
def test_blocks_of_odd_sizes(dtype, layout):
    if not is_right(dtype):
        pytest.skip("this QEMU leaves out rows of outer products of bytes")
    spec = tw.MatmulSpec.from_dtypes(97, 70, 61, dtype, layout=layout)
    check(spec, mc=33, nc=17, kc=13)


@needs_emulator
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 70, 3), (33, 1, 40), (40, 30, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_extents_of_one_and_none(shape):
    check(tw.MatmulSpec(*shape), lengths=(256, 512))
    check(tw.MatmulSpec(*shape, a="bf16", beta=1))


@needs_emulator
def test_what_follows_the_sums():
    check(tw.MatmulSpec(37, 45, 29, epilogue=(tw.bias("n"), tw.gelu())))
    check(tw.MatmulSpec(70, 90, 29, epilogue=(tw.bias("n"), tw.relu()), beta=1), mc=32, nc=64)
    # Sums of several blocks of K wait in memory for what is done to them.
    check(tw.MatmulSpec(70, 90, 29, a="f16", c="f16", layout="tt"), mc=32, nc=64, kc=10)


@needs_emulator
def test_batches():
    check(tw.MatmulSpec(33, 20, 40, batch=(3,)))
    check(tw.MatmulSpec(33, 20, 40, batch=(2, 3), b_batch=(), layout="tn"), mc=16, kc=16)
    check(tw.MatmulSpec(33, 20, 40, batch=(2,), epilogue=(tw.relu(),)), mc=16, nc=16)
    check(tw.MatmulSpec(1, 65, 9, batch=(3,), b_batch=(), layout="tn"))


@needs_emulator
def test_extents_that_only_a_call_tells():
    spec = tw.MatmulSpec(None, None, None, a="bf16", layout="nt")
    kernel = tw.compile(spec, "sme", schedule="outer_product", parameters={"mc": 64, "nc": 32, "kc": 40}, cache=False)
    random = np.random.default_rng(0)
    for shape in ((1, 1, 1), (70, 45, 129), (64, 0, 8), (3, 5, 0)):
        static = spec.at(*shape)
        a, b = (random.uniform(-1, 1, each.shape).astype(to_numpy(each.type)) for each in static.operands)
        assert within_bound(kernel(a, b), tw.reference(static, a, b), tw.error_bound(static, a, b)).all()


def test_which_instruction():
    features = targets.get("sme").features
    expected = {("f32", "f32"): "fmopa", ("f64", "f64"): "fmopa", ("bf16", "bf16"): "bfmopa", ("f16", "f16"): "fmopa"}
    expected |= {("i8", "i8"): "smopa", ("u8", "u8"): "umopa", ("u8", "i8"): "usmopa", ("i8", "u8"): "sumopa"}
    for types, name in expected.items():
        row = outer_products.of(*types, features)
        assert row is not None
        # All that ZA has: a square of the vector's bits, of which a tile has one of its elements' bits.
        assert (row.name, row.down * row.across, row.depth * tw.dtypes.dtype(types[0]).bits) == (
            name,
            row.word // 8,
            row.word,
        )
    assert outer_products.of("f64", "f64", features - {"sme-f64f64"}) is None
    assert outer_products.of("f32", "f32", targets.get("neoverse-v2").features) is None


def test_when_it_is_chosen():
    row = targets.get("sme")
    assert row is targets.get("armv9-a+sme")
    for target, spec, name in (
        (row, tw.MatmulSpec(64, 64, 64), "outer_product"),
        (row, tw.MatmulSpec(64, 64, 64, a="i8", layout="nt"), "outer_product"),
        (targets.get("apple-m4"), tw.MatmulSpec(16, 16, 8, a="bf16"), "outer_product"),
        (targets.get("neoverse-v2"), tw.MatmulSpec(64, 64, 64), None),
        (row, tw.MatmulSpec(64, 8, 64), None),
        (row, tw.MatmulSpec(64, 64, 64, b_packed=True), "packed"),
    ):
        found = select.choose(spec, target).strategy
        assert found == name if name else found != "outer_product"


@pytest.mark.parametrize("schedule", ["outer_product", "packed"])
@pytest.mark.parametrize(
    "spec",
    [
        tw.MatmulSpec(97, 70, 61, epilogue=(tw.bias("n"), tw.gelu())),
        tw.MatmulSpec(97, 70, 61, a="f64", layout="tt", beta=1),
        tw.MatmulSpec(97, 70, 61, a="bf16", c="bf16", batch=(2,)),
        tw.MatmulSpec(97, 70, 61, a="i8"),
    ],
    ids=str,
)
def test_scalable_vectors_stay_in_streaming_mode_where_there_are_none_outside(spec, schedule):
    row = targets.get("apple-m4")
    asm = stages.build(spec, row, make.make(spec, row, schedule), until="asm").texts["asm"]
    streaming, found = False, 0
    for line in asm.splitlines():
        instruction = re.sub(r"\s+", " ", line.partition("//")[0]).strip()
        if instruction in ("smstart sm", "smstop sm"):
            streaming = instruction == "smstart sm"
        scalable = re.search(r"\b[zp]\d+(\.[bhsdq])?(/[mz])?\b(?!:)|^(rdvl|addvl|cnt[bhwd]|inc[bhwd]) ", instruction)
        assert streaming or not scalable, line
        assert not (streaming and instruction.startswith("bl ")), "what is called need not know streaming mode"
        found += streaming and scalable is not None
    assert bool(found) == (schedule == "outer_product")


def test_it_uses_one_thread():
    spec = tw.MatmulSpec(512, 512, 512)
    assert make.make(spec, targets.get("sme"), threads=4).threads == 1
    assert make.make(spec, targets.get("sme"), "outer_product", threads=4).threads == 1
    assert make.make(spec, targets.get("neoverse-n1"), threads=4).threads == 4


def test_what_it_refuses():
    spec = tw.MatmulSpec(64, 64, 64)
    with pytest.raises(ScheduleError, match="neoverse-v2 has no outer products of f32 and f32"):
        make.make(spec, targets.get("neoverse-v2"), "outer_product")
    with pytest.raises(ScheduleError, match="does not compute"):
        make.make(dataclasses.replace(spec, b_packed=True), targets.get("sme"), "outer_product")
    row = targets.get("sme")
    plan = make.make(spec, row, "outer_product", {"mr": 8})
    with pytest.raises(ScheduleError, match="a register tile of 8 x 32"):
        stages.build(spec, row, plan)


def test_an_old_emulator_is_refused_for_bytes(tmp_path):
    old = tmp_path / "qemu-aarch64"
    old.write_text("#!/bin/sh\necho qemu-aarch64 version 7.2.22\n")
    old.chmod(0o755)
    emulator = Emulator(str(old), ())
    emulators.check(emulator, tw.MatmulSpec(4, 4, 4), "outer_product")
    emulators.check(emulator, tw.MatmulSpec(4, 4, 4, a="i8"), "packed")
    with pytest.raises(
        TargetError, match=r"computes outer products of bytes wrongly; expected QEMU 9 or newer\. Run `make"
    ):
        emulators.check(emulator, tw.MatmulSpec(4, 4, 4, a="i8"), "outer_product")


@needs_emulator
def test_lengths_are_those_of_the_target_or_asked_for():
    def options(name: str, **lengths: int) -> str:
        return emulators.find(targets.get(name).emulated(**lengths)).options[1]

    assert options("neoverse-v1") == "max,sve-default-vector-length=32"
    assert options("apple-m4") == "max,sme-default-vector-length=64"
    assert options("sme", vector_length=256, streaming_length=2048) == (
        "max,sve-default-vector-length=32,sme-default-vector-length=256"
    )
    with pytest.raises(TargetError, match="apple-m4 has no scalable vectors"):
        options("apple-m4", vector_length=128)
    with pytest.raises(TargetError, match="neoverse-v1 has no streaming vectors"):
        options("neoverse-v1", streaming_length=128)
    with pytest.raises(TargetError, match="a vector length of 384"):
        options("sme", streaming_length=384)


# A caller with something in ZA: LLVM leaves it there over the call, says where it may be saved, and, when it has been, restores
# it by a function of the runtime, which is given here.
CALLER = """
declare void @llvm.aarch64.sme.ldr(i32, ptr, i32)
declare void @llvm.aarch64.sme.str(i32, ptr, i32)
declare i64 @llvm.aarch64.sme.cntsd()
define i32 @calls_with_za(ptr %before, ptr %after, ptr %a, ptr %b, ptr %c) "aarch64_new_za" "target-features"="+sve,+sme" nounwind {
  %words = call i64 @llvm.aarch64.sme.cntsd()
  %bytes = shl i64 %words, 3
  br label %fill
fill:
  %i = phi i64 [ 0, %0 ], [ %i1, %fill ]
  %n = trunc i64 %i to i32
  %o = mul i64 %i, %bytes
  %p = getelementptr i8, ptr %before, i64 %o
  call void @llvm.aarch64.sme.ldr(i32 %n, ptr %p, i32 0)
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %bytes
  br i1 %more, label %fill, label %multiply
multiply:
  %r = call i32 @matmul(i64 20, i64 20, i64 20, ptr %a, i64 20, ptr %b, i64 20, ptr %c, i64 20)
  %v = call i64 asm sideeffect "rdvl $0, #1", "=r"()
  br label %read
read:
  %j = phi i64 [ 0, %multiply ], [ %j1, %read ]
  %k = trunc i64 %j to i32
  %s = mul i64 %j, %bytes
  %q = getelementptr i8, ptr %after, i64 %s
  call void @llvm.aarch64.sme.str(i32 %k, ptr %q, i32 0)
  %j1 = add i64 %j, 1
  %again = icmp ult i64 %j1, %bytes
  br i1 %again, label %read, label %done
done:
  %status = shl i32 %r, 16
  %length = trunc i64 %v to i32
  %both = or i32 %status, %length
  ret i32 %both
}
define void @__arm_tpidr2_restore() naked noinline "target-features"="+sme" {
  call void asm sideeffect "ldr x14, [x0]\\0Aldrh w17, [x0, #8]\\0Amov w15, #0\\0A2:\\0Acmp w15, w17\\0Ab.hs 3f\\0A\
ldr za[w15, 0], [x14]\\0Aaddsvl x14, x14, #1\\0Aadd w15, w15, #1\\0Ab 2b\\0A3:\\0Aret", "~{memory}"()
  unreachable
}
"""


@needs_emulator
@pytest.mark.parametrize(("streaming", "outside"), [(512, 128), (128, 512)])
@pytest.mark.parametrize("target", ["sme", "apple-m4"])
def test_za_of_a_caller_is_as_it_was_and_streaming_mode_is_left(target, streaming, outside):
    # The first function that runs is then one of few registers, none of which it saves for itself.
    spec, row = tw.MatmulSpec(20, 20, 20, layout="nt"), targets.get(target)
    text = stages.build(spec, row, make.make(spec, row, "outer_product"), until="llvmir").texts["llvmir"]
    # The caller looks at its vectors' length, which apple-m4 has none of by itself.
    emulator = emulators.find(targets.get("sme").emulated(outside, streaming))
    program = Program(code.object_file(text + CALLER, row), ["calls_with_za"], row, emulator)
    random = np.random.default_rng(0)
    before = random.integers(0, 255, (streaming // 8) ** 2, np.uint8)
    a, b = (random.uniform(-1, 1, (20, 20)).astype(np.float32) for _ in "ab")
    after, c = np.zeros_like(before), np.zeros_like(a)
    arguments = [
        Operand(each.ctypes.data, (each.nbytes,), written=each is after or each is c)
        for each in (before, after, a, b, c)
    ]
    assert program.call("calls_with_za", arguments) == outside // 8
    assert (after == before).all()
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tiles"), [("f32", (2, 2)), ("f64", (2, 4))])
def test_a_block_has_more_tiles_side_by_side(dtype, tiles):
    spec, target = tw.MatmulSpec(64, 64, 64, a=dtype), targets.get("sme")
    lanes = max(target.streaming_bits, 128) // spec.acc_type.bits
    assert outer_blocks.register_tile(spec, target) == tuple(count * lanes for count in tiles)
