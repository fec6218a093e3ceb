# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RISC-V with the vector extension: every type and strategy, at every length of vectors that the emulator has."""

import os
import re
import shutil

import numpy as np
import products
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.emit import hotloop, mca, riscv_text
from tilewright.errors import TargetError
from tilewright.payload.reference import within_bound
from tilewright.schedules import select

pytestmark = pytest.mark.skipif(
    os.uname().machine != "riscv64" and not shutil.which("qemu-riscv64"), reason="qemu-riscv64 is not installed"
)

LENGTHS = (128, 256, 512, 1024)
TYPES = ("f32", "f64", "f16,f16,f32", "bf16,bf16,f32", "f16", "bf16", "i8", "u8", "u8,i8,i32", "i8,u8,i32")
BLOCKS = {"mr": 6, "nr": 8, "mc": 18, "nc": 40, "kc": 32}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def is_right(spec, result, *operands):
    return within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()


def check(spec, target="rv64gcv", schedule=None, lengths=(128,), sizes=None):
    """Runs one kernel at several lengths, with operands between NaN."""
    for number, length in enumerate(lengths):
        kernel = tw.compile(
            spec, targets.get(target).emulated(vector_length=length), schedule=schedule, parameters=sizes
        )
        assert kernel.metadata.cached == (number > 0), "the same object at every length"
        products.check(kernel, products.uniform(spec))


@pytest.mark.parametrize("types", TYPES)
def test_scalable_vectors_of_any_length(types):
    sizes = BLOCKS | ({"nr": 4} if types == "f64" else {})
    check(tw.MatmulSpec.from_dtypes(41, 67, 75, types), schedule="scalable", lengths=LENGTHS, sizes=sizes)


@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
def test_operands_that_are_stored_transposed(layout):
    check(tw.MatmulSpec(m=23, n=29, k=19, layout=layout), schedule="scalable", lengths=(128, 512))


def test_what_is_done_to_the_sums():
    spec = tw.MatmulSpec(m=23, n=61, k=40, epilogue=(tw.bias("n"), tw.gelu()))
    kernel = tw.compile(spec, target=targets.get("rv64gcv").emulated(vector_length=256), schedule="scalable")
    a, b, _ = products.uniform(spec)
    bias = np.random.default_rng(0).uniform(-1, 1, 61).astype(np.float32)
    assert is_right(spec, kernel(a, b, bias), a, b, bias)


@pytest.mark.parametrize("target", ["rv64gcv", "spacemit-x60"])
@pytest.mark.parametrize(
    "strategy", [name for name in select.available(targets.get("rv64gcv")) if name != "scaled_sums"]
)
def test_every_strategy(target, strategy):
    layout = "nt" if strategy == "inner_product" else "nn"
    check(tw.MatmulSpec(m=5, n=37, k=70, layout=layout), target, strategy, lengths=(256,))


@pytest.mark.parametrize("types", TYPES)
def test_small_products_by_the_strategy_that_is_chosen(types):
    check(tw.MatmulSpec.from_dtypes(3, 17, 33, types), lengths=(128, 256))


def test_extents_of_zero_and_one_and_dynamic_ones():
    for shape in ((0, 3, 4), (1, 1, 1), (4, 5, 0), (1, 9, 1)):
        check(tw.MatmulSpec.from_dtypes(*shape, "f32"))
    dynamic = tw.MatmulSpec(m=None, n=33, k=20)
    kernel = tw.compile(dynamic, target="rv64gcv")
    for m in (1, 7, 30):
        a, b, _ = products.uniform(tw.MatmulSpec(m=m, n=33, k=20))
        assert is_right(tw.MatmulSpec(m=m, n=33, k=20), kernel(a, b), a, b)


def test_the_hot_loop_multiplies_by_numbers_and_spills_nothing():
    target = targets.get("spacemit-x60")
    kernel = tw.compile(tw.MatmulSpec(m=96, n=96, k=96), target=target, schedule="scalable")
    loop = hotloop.hottest(kernel.asm["asm"], "riscv64")
    assert loop is not None
    groups = 4
    assert loop.counts["vfmacc.vf"] == 6 * 2 * groups
    assert loop.stack_accesses == 0
    assert sum(bool(re.match(r"vl\w+\.v$", each.mnemonic)) for each in loop.instructions) == 2 * groups
    assert loop.flops == 2 * loop.counts["vfmacc.vf"] * 4  # of f32, in two registers of 64 bits for each vscale
    analysis = mca.analyze(loop, target)
    assert analysis.cpu == "spacemit-x60"
    assert analysis.bound == 2 * loop.counts["vfmacc.vf"]  # a cycle for each register
    assert 70 <= analysis.percent_of_bound <= 100


@pytest.mark.parametrize(
    ("setting", "bits", "group"),
    [("vsetvli a1, zero, e32, m2, ta, ma", 32, 2), ("vsetivli zero, 4, e16, mf2, ta, ma", 16, 0.5), ("", 0, 1)],
)
def test_what_a_vsetvli_sets(setting, bits, group):
    assert riscv_text.length(setting) == (bits, group)
    each = riscv_text.read("vfmacc.vf v8, fa0, v4", setting)
    assert each.fma
    assert each.lanes == max(1, int(64 * group) // bits if bits else 1)


def test_instructions_are_what_they_are():
    load, store, branch = (
        riscv_text.read(line, "") for line in ("vle32.v v8, (a0)", "vse32.v v8, (sp), v0.t", "bne a0, a1, .L1")
    )
    assert (load.reads_memory, load.base, load.category) == (True, "a0", "load")
    assert (store.writes_memory, store.base, store.category) == (True, "sp", "store")
    assert branch.category == "branch"
    assert riscv_text.read("fsd fs0, 8(sp)", "").writes_memory
    assert not riscv_text.read("vsub.vv v1, v2, v3", "").writes_memory


def test_vector_lengths_that_are_refused():
    with pytest.raises(TargetError, match="a vector length of 100"):
        targets.get("rv64gcv").emulated(vector_length=100)
    with pytest.raises(TargetError, match="rv64gcv has no streaming vectors"):
        targets.get("rv64gcv").emulated(streaming_length=128)
