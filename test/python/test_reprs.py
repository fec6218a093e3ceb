# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nothing public takes more than a screen when a shell shows it."""

import dataclasses
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.runtime.bisect_point import Point
from tilewright.schedules import make

SCREEN = 24 * 80
SPEC = tw.MatmulSpec(m=4, n=6, k=5)
MODULE = """
func.func @f(%a: tensor<6x5xf32>, %b: tensor<5x7xf32>, %c: tensor<6x7xf32>) -> tensor<6x7xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<6x5xf32>, tensor<5x7xf32>) outs(%c : tensor<6x7xf32>) -> tensor<6x7xf32>
  return %0 : tensor<6x7xf32>
}
"""


def shown():
    """An object of every public class, and what else calls return, with the text that its repr has."""
    entries = (
        tw.bias("n"),
        tw.gelu(),
        tw.function(lambda x, y: tw.math.exp(x * 2 + y) / (1 + y), y="mn"),
        tw.softmax(),
    )
    packs = tw.compile(tw.MatmulSpec(m=4, n=6, k=5, b_packed=True))
    open_ = tw.compile(tw.MatmulSpec(m=None, n=tw.Dim(max=100), k=None))
    conv = tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3)
    operator = tw.compile(conv)
    module = tw.compile_module(MODULE)
    gpu = tw.compile(SPEC, target=tw.targets.gpu("sm_80").emulated())
    yield tw.targets(), "<x86-64-v3: "
    yield targets.Availability(targets.get("znver4"), ("avx512f", "avx512bw")), "<znver4: lacks avx512f and 1 more>"
    yield targets.get("znver5"), "<tilewright.Target znver5: x86_64, 32 vectors of 512 bits>"
    yield targets.resolve("host"), "<tilewright.Target host ("
    yield targets.gpu("sm_90a"), "<tilewright.GpuTarget sm_90a>"
    yield SPEC, "MatmulSpec(m=4, n=6, k=5, a='f32'"
    yield tw.MatmulSpec(m=None, n=6, k=5, batch=(2, 3), epilogue=entries), "<tilewright.Epilogue lambda("
    yield tw.Dim(max=100), "max=100"
    yield entries[1], "<tilewright.Epilogue gelu("
    yield conv, "Conv2dSpec("
    yield tw.AttentionSpec(queries=8, keys=8, head=16, heads=2, kv_heads=2), "AttentionSpec("
    for kernel in (packs, open_, operator, module, gpu):
        yield kernel, "<tilewright."
        yield kernel.metadata, "Metadata(target="
        yield kernel.asm, "<stages payload, schedule, "
    yield packs.c_function, "int32_t matmul("
    yield packs.pack_b(np.ones((5, 6), np.float32)), "<tilewright.PackedB "
    yield packs.packed_format, "PackedFormat("
    yield operator.signature, "<tilewright.Signature conv2d(x: "
    yield module["f"], "<tilewright.Function f("
    yield make.make(open_.spec, targets.get("znver5")), " cases>"
    yield tw.Blocking(mr=6, nr=64, mc=132, nc=1024, kc=1024), "Blocking(mr=6"
    with TemporaryDirectory() as folder:
        library = tw.library({"small": SPEC}, targets=["x86-64-v3"], name="mine", out=folder)
    yield library, "<tilewright.Library mine: 1 kernels for x86-64-v3>"
    empty = np.empty(0, np.uint8)
    yield tw.GgufTensor("x" * 20, "Q4_0", (4, 32), empty), "<tilewright.GgufTensor xxx"
    yield tw.Gguf({"key" * 20: ["word"] * 1000}, {}, {}), "<tilewright.Gguf"
    with tw.coverage() as seen:
        pass
    yield seen, "<tilewright.Coverage: 0 kernels>"
    yield tw.Trace("4x6x5", ()), "<tilewright.Trace 4x6x5: 0 steps>"
    blame = tw.Blame(
        "%1 = op " + "x" * 400, "op", 2, 3, 4, "slow", SPEC, targets.get("x86-64-v4"), 1, "", Point(""), Point("")
    )
    yield blame, "<tilewright.Blame op 2 of 3: %1 = op xxx"
    yield tw.quantize_weights(np.ones((64, 64), np.float32), "i4", group=32), "<tilewright.Quantized 64x64 i4, scales "


@pytest.fixture(scope="module")
def objects():
    return list(shown())


def test_a_repr_fits_a_screen_and_says_what_it_is(objects):
    wrong = [repr(value)[:100] for value, says in objects if says not in repr(value) or len(repr(value)) > SCREEN]
    assert wrong == []


def test_every_public_class_is_shown(objects):
    classes = {name for name in tw.__all__ if isinstance(getattr(tw, name), type)}
    public = {name for name in classes if not issubclass(getattr(tw, name), Exception)}
    assert public <= {base.__name__ for value, _ in objects for base in type(value).__mro__}


def test_metadata_of_a_large_module_are_cut_short():
    facts = tw.compile(SPEC).metadata
    many = {f"function{number}": tuple(f"{each}x768x768 f32 nn" for each in range(20)) for number in range(100)}
    assert len(repr(dataclasses.replace(facts, parameters=many))) <= SCREEN
