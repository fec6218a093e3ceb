# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Assembly of AArch64: instructions are read right, and loops are found and analyzed."""

import shutil

import pytest
from tilewright import targets
from tilewright.emit import mca
from tilewright.emit.arm_text import read
from tilewright.emit.hotloop import hottest

NEST = """
	.type	kernel,@function
kernel:                                 // @kernel
	stp	x29, x30, [sp, #-16]!           // 16-byte Folded Spill
	mov	x29, sp
.LBB0_1:                                // =>This Loop Header: Depth=1
	mov	x9, xzr
.LBB0_2:                                //   Parent Loop BB0_1 Depth=1
	ldr	q0, [x1, x9]
	ldp	q1, q2, [x2], #32
	fmla	v3.4s, v1.4s, v0.s[0]
	fmla	v4.4s, v2.4s, v0.s[1]
	str	q3, [x29, #16]
	add	x9, x9, #16
	cmp	x9, x10
	b.lo	.LBB0_2
	subs	x11, x11, #1
	cbnz	x11, .LBB0_1
	ldp	x29, x30, [sp], #16
	ret
"""


@pytest.mark.parametrize(
    ("line", "category", "products", "memory"),
    [
        ("fmla\tv3.4s, v1.4s, v0.s[0]", "multiply-add", 4, (False, False)),
        ("fmla v3.2d, v1.2d, v0.d[1]", "multiply-add", 2, (False, False)),
        ("fmadd s0, s1, s2, s3", "multiply-add", 1, (False, False)),
        ("sdot v0.4s, v1.16b, v2.4b[3]", "multiply-add", 16, (False, False)),
        ("smmla v0.4s, v1.16b, v2.16b", "multiply-add", 32, (False, False)),
        ("bfmmla v0.4s, v1.8h, v2.8h", "multiply-add", 16, (False, False)),
        ("madd x0, x1, x2, x3", "scalar", 0, (False, False)),
        ("mul x0, x1, x2", "scalar", 0, (False, False)),
        ("ldp q1, q2, [x2], #32", "load", 0, (True, False)),
        ("ld1r { v1.4s }, [x2]", "broadcast", 0, (True, False)),
        ("dup v1.4s, w2", "broadcast", 0, (False, False)),
        ("zip1 v1.2d, v2.2d, v3.2d", "shuffle", 0, (False, False)),
        ("st2 { v0.8h, v1.8h }, [x16]", "store", 0, (False, True)),
        ("str x0, [sp, #8]", "scalar", 0, (False, True)),
        ("prfm pldl1keep, [x0]", "prefetch", 0, (False, False)),
        ("b.lo .LBB0_2", "branch", 0, (False, False)),
    ],
)
def test_an_instruction(line, category, products, memory):
    found = read(line)
    assert (found.category, found.products) == (category, products)
    assert (found.reads_memory, found.writes_memory) == memory


def test_what_is_taken_by_lane():
    assert read("fmla v3.4s, v1.4s, v0.s[0]").by_lane
    assert not read("fmla v3.4s, v1.4s, v0.4s").by_lane
    assert not read("ldr q0, [x1]").by_lane


def test_the_hot_loop_and_its_spills():
    loop = hottest(NEST, "aarch64")
    assert loop is not None
    assert (loop.label, loop.depth, loop.blocks, loop.fma) == (".LBB0_2", 2, 1, 2)
    assert (loop.flops, loop.loads, loop.stores, loop.stack_accesses, loop.calls) == (16, 2, 1, 1, 0)
    assert loop.mix == {"multiply-add": 2, "load": 2, "store": 1, "branch": 1, "scalar": 2}


@pytest.mark.skipif(
    shutil.which("llvm-mca-22") is None and shutil.which("llvm-mca") is None, reason="llvm-mca is not installed"
)
def test_the_model_starts_as_many_multiply_adds_as_the_target():
    models = {name: mca.model(targets.get(name)) for name in ("neoverse-n1", "cortex-a76", "neoverse-v2", "armv8-a")}
    assert models == {
        "neoverse-n1": "neoverse-n1",
        "cortex-a76": "neoverse-n1",
        "neoverse-v2": "neoverse-v2",
        "armv8-a": "neoverse-v2",
    }
    loop = hottest(NEST, "aarch64")
    assert loop is not None
    assert mca.analyze(loop, targets.get("neoverse-v2")).bound == 0.5
