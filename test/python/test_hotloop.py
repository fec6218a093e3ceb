# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops in assembly text: found whatever the layout, counted right, and analyzed by llvm-mca."""

import json
import shutil

import pytest
from tilewright import targets
from tilewright.emit import mca
from tilewright.emit.assembly import functions
from tilewright.emit.hotloop import hot_loops, hottest
from tilewright.emit.x86_text import SYNTAX, Instruction
from tilewright.errors import TargetError
from tilewright.targets import x86

needs_mca = pytest.mark.skipif(
    shutil.which("llvm-mca-22") is None and shutil.which("llvm-mca") is None, reason="llvm-mca is not installed"
)

NEST = """
	.text
	.globl	kernel                          # -- Begin function kernel
	.type	kernel,@function
kernel:                                 # @kernel
	pushq	%rbp
	movq	%rsp, %rbp
	xorl	%eax, %eax
	.p2align	4
.LBB0_1:                                # =>This Loop Header: Depth=1
                                        #     Child Loop BB0_2 Depth 2
	movq	%r8, -40(%rbp)                  # 8-byte Spill
	xorl	%edx, %edx
.LBB0_2:                                #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	vmovups	(%rsi,%rdx), %zmm0
	vbroadcastss	(%rdi), %zmm1
	vfmadd231ps	%zmm0, %zmm1, %zmm2
	vfmadd231ps	(%rcx,%rdx){1to16}, %zmm1, %zmm3
	vmovups	%zmm3, -128(%rbp)               # 64-byte Spill
	addq	$64, %rdx
	cmpq	%rdx, %r9
	jne	.LBB0_2
# %bb.3:                                #   in Loop: Header=BB0_1 Depth=1
	incq	%rax
	cmpq	%rax, %r10
	jne	.LBB0_1
.LBB0_4:
	vmovss	(%rsi), %xmm0
	vmulss	(%rdi), %xmm0, %xmm0
	decq	%r9
	jne	.LBB0_4
# %bb.5:
	popq	%rbp
	retq
.Lfunc_end0:
	.size	kernel, .Lfunc_end0-kernel
"""

ROTATED = """
f:
	jmp	.LBB0_2
.LBB0_1:                                # the latch stands before the header
	addps	%xmm1, %xmm2
	decq	%rax
	je	.LBB0_4
.LBB0_2:
	mulps	(%rdi), %xmm1
	testb	$1, %al
	jne	.LBB0_1
	mulps	(%rsi), %xmm1
	jmp	.LBB0_1
.LBB0_4:
	retq
"""


def only(asm):
    (loop,) = hot_loops(asm)
    return loop


def test_innermost_loops_of_a_nest():
    assert [(loop.label, loop.depth, loop.blocks) for loop in hot_loops(NEST)] == [(".LBB0_2", 2, 1), (".LBB0_4", 1, 1)]


def test_hottest_has_the_most_arithmetic_and_is_counted():
    loop = hottest(NEST)
    assert loop is not None
    assert (loop.function, loop.label) == ("kernel", ".LBB0_2")
    assert (loop.fma, loop.multiplies, loop.flops) == (2, 0, 2 * 2 * 16)
    assert (loop.loads, loop.stores, loop.gathers, loop.calls) == (3, 1, 0, 0)
    assert loop.counts["vfmadd231ps"] == 2
    assert loop.mix == {"multiply-add": 2, "load": 1, "broadcast": 1, "store": 1, "branch": 1, "scalar": 2}
    assert sum(loop.mix.values()) == len(loop.instructions)


def test_only_the_frame_pointer_of_the_function_counts_as_stack():
    loop = hottest(NEST)
    assert loop is not None
    assert loop.stack_accesses == 1
    without = hottest(NEST.replace("	movq	%rsp, %rbp\n", ""))
    assert without is not None
    assert without.stack_accesses == 0


def test_layout_does_not_matter():
    loop = only(ROTATED)
    assert (loop.label, loop.blocks, loop.multiplies, loop.fma) == (".LBB0_2", 3, 2, 0)
    assert loop.flops == 2 * 2 * 4


def test_the_function_itself_can_be_the_loop():
    loop = only("f:\n\tmulsd %xmm0, %xmm1\n\tjne f\n\tret\n")
    assert (loop.label, loop.flops) == ("f", 2)


def test_a_tie_goes_to_the_deeper_then_to_the_shorter_loop():
    asm = """
f:
.LA:
	vmulps %ymm0, %ymm1, %ymm2
	jne .LA
.LB:
.LC:
	vmulps %ymm0, %ymm1, %ymm2
	kmovw %k1, %eax
	jne .LC
.LD:
	vmulps %ymm0, %ymm1, %ymm2
	jne .LD
	jne .LB
	ret
"""
    assert [loop.label for loop in hot_loops(asm)] == [".LA", ".LC", ".LD"]
    loop = hottest(asm)
    assert loop is not None
    assert loop.label == ".LD"


@pytest.mark.parametrize(
    "asm",
    [
        "",
        "\n# nothing\n\t.text\n",
        "f:\n\tvmulps %xmm0, %xmm1, %xmm2\n\tret\n",
        "f:\n\tjmp g\n",
        "f:\n\tjmpq *%rax\n",
        "f:\n.LX:\n\tmovq %rax, %rcx\n\tjne .LX\n\tret\n",
        ".LX:\n",
        "not: an assembly at all (",
    ],
)
def test_without_arithmetic_in_a_loop_there_is_no_hottest(asm):
    assert hottest(asm) is None


def test_text_reads_back():
    loop = only(ROTATED)
    again = only(loop.text)
    assert again.lines == loop.lines


def test_two_functions_do_not_mix():
    asm = NEST + NEST.replace("kernel", "other").replace("LBB0_", "LBB1_")
    assert [name for name, _ in functions(asm, SYNTAX)] == ["kernel", "other"]
    assert [loop.function for loop in hot_loops(asm)] == ["kernel"] * 2 + ["other"] * 2


def read(line):
    ((_, blocks),) = functions(f"f:\n\t{line}\n", SYNTAX)
    (instruction,) = blocks[0].instructions
    return instruction


@pytest.mark.parametrize(
    ("line", "category", "loads", "stores"),
    [
        ("vfmadd132pd 8(%rax,%rcx,8){1to8}, %zmm1, %zmm2 {%k1} {z}", "multiply-add", True, False),
        ("vmovups\t(%rax), %ymm1", "load", True, False),
        ("vmovups\t%ymm1, (%rax)", "store", False, True),
        ("vmovaps %zmm1, %zmm2", "vector", False, False),
        ("vmovups 64(%rax), %zmm0 {%k1} {z}", "load", True, False),
        ("vmovups %zmm0, 64(%rax) {%k1}", "store", False, True),
        ("vbroadcastsd (%rdi), %ymm3", "broadcast", True, False),
        ("vgatherdps (%rax,%ymm1,4), %ymm0 {%k1}", "gather", True, False),
        ("vscatterdps %zmm0, (%rax,%zmm1,4) {%k1}", "gather", False, True),
        ("vpermps %zmm0, %zmm1, %zmm2", "shuffle", False, False),
        ("prefetcht0 512(%rax)", "prefetch", False, False),
        ("leaq (%rax,%rax,2), %rcx", "scalar", False, False),
        ("addq $1, 8(%rsp)", "scalar", True, True),
        ("cmpq $1, 8(%rsp)", "scalar", True, False),
        ("movq %rax, 8(%rsp)", "scalar", False, True),
        ("lock incl (%rax)", "scalar", True, True),
        ("addps (%rax), %xmm2", "multiply-add", True, False),
        ("xorps %xmm1, %xmm2", "vector", False, False),
        ("callq memset@PLT", "branch", False, False),
        ("kmovd %eax, %k1", "vector", False, False),
        ("rep stosq %rax, %es:(%rdi)", "scalar", True, True),
        ("{vex} vpdpbusd (%rax), %ymm0, %ymm1", "multiply-add", True, False),
        ("vpmaddwd (%rax){1to16}, %zmm0, %zmm1", "multiply-add", True, False),
        ("tdpbssd %tmm6, %tmm4, %tmm0", "multiply-add", False, False),
        ("tileloadd (%rax,%rcx), %tmm4", "load", True, False),
        ("tilestored %tmm4, (%rax,%rcx)", "store", False, True),
        ("ldtilecfg -64(%rsp)", "scalar", True, False),
        ("vmovss global(%rip), %xmm0", "load", True, False),
        ("vzeroupper", "scalar", False, False),
    ],
)
def test_instructions_are_told_apart(line, category, loads, stores):
    instruction = read(line)
    assert (instruction.category, instruction.reads_memory, instruction.writes_memory) == (category, loads, stores)


@pytest.mark.parametrize(
    ("line", "lanes"),
    [
        ("vfmadd231ps %zmm0, %zmm1, %zmm2", 16),
        ("vfmadd231pd %zmm0, %zmm1, %zmm2 {%k1}", 8),
        ("vfmadd231ss %xmm0, %xmm1, %xmm2", 1),
        ("mulpd %xmm0, %xmm1", 2),
        ("vmulph %zmm0, %zmm1, %zmm2", 32),
        ("retq", 1),
    ],
)
def test_lanes(line, lanes):
    assert read(line).lanes == lanes


@pytest.mark.parametrize(
    ("line", "products", "fma", "multiply"),
    [
        ("vfmadd231ps %zmm0, %zmm1, %zmm2", 16, True, False),
        ("mulpd %xmm0, %xmm1", 2, False, True),
        ("addps %xmm0, %xmm1", 0, False, False),
        ("vdpbf16ps %zmm0, %zmm1, %zmm2", 32, True, False),
        ("vpdpbusd (%rax){1to16}, %zmm1, %zmm2", 64, True, False),
        ("{vex} vpdpbssd %ymm0, %ymm1, %ymm2", 32, True, False),
        ("vpdpwssd %ymm0, %ymm1, %ymm2", 16, True, False),
        ("vpmaddwd %zmm0, %zmm1, %zmm2", 32, False, True),
        ("pmaddwd %xmm0, %xmm1", 8, False, True),
        ("tdpbf16ps %tmm6, %tmm4, %tmm0", 8192, False, False),
        ("tdpbuud %tmm6, %tmm4, %tmm0", 16384, False, False),
        ("tdpfp16ps %tmm6, %tmm4, %tmm0", 8192, False, False),
        ("tilezero %tmm0", 0, False, False),
    ],
)
def test_products(line, products, fma, multiply):
    instruction = read(line)
    assert (instruction.products, instruction.fma, instruction.multiply) == (products, fma, multiply)
    assert instruction.tile_product == line.startswith("tdp")


def test_parts_of_an_instruction():
    parsed = read("vfmadd231ps\t-64(%rax,%rcx,4), %zmm1, %zmm2 # comment, (%rsp)")
    assert isinstance(parsed, Instruction)
    assert parsed == Instruction(
        "vfmadd231ps -64(%rax,%rcx,4), %zmm1, %zmm2", "vfmadd231ps", ("-64(%rax,%rcx,4)", "%zmm1", "%zmm2")
    )
    assert (parsed.memory, parsed.base) == ("-64(%rax,%rcx,4)", "%rax")


# 12 independent sums in 512 bits: two multiply-adds a cycle, and latency hidden.
TWELVE = (
    "k:\n.LBB0_1:\n"
    + "".join(f"\tvfmadd231ps %zmm30, %zmm31, %zmm{n}\n" for n in range(12))
    + "\tdecq %rax\n\tjne .LBB0_1\n\tretq\n"
)


@needs_mca
def test_analysis_reaches_the_bound_of_independent_multiply_adds():
    loop = hottest(TWELVE)
    assert loop is not None
    found = mca.analyze(loop, targets.get("x86-64-v4"))
    assert found.bound == 6
    assert found.cycles == pytest.approx(6, rel=0.02)
    assert found.percent_of_bound == pytest.approx(100, rel=0.02)
    assert len(found.costs) == len(loop.instructions)
    assert found.costs[0].latency >= 3
    assert sum(found.pressure.values()) >= 12
    assert all(name.isprintable() for name in mca.analyze(loop, targets.get("x86-64-v4"), cpu="znver4").pressure)
    assert json.loads(found.json)["TargetInfo"]["CPUName"] == found.cpu
    assert "Bottleneck" in found.text


TILES = """
k:
	ldtilecfg -64(%rsp)
.LBB0_1:
	tileloadd (%rax,%rcx), %tmm4
	tileloadd (%rbx,%rcx), %tmm5
	tileloadd (%rdx,%rcx), %tmm6
	tileloadd 64(%rdx,%rcx), %tmm7
	tdpbf16ps %tmm6, %tmm4, %tmm0
	tdpbf16ps %tmm6, %tmm5, %tmm2
	tdpbf16ps %tmm7, %tmm4, %tmm1
	tdpbf16ps %tmm7, %tmm5, %tmm3
	addq $64, %rax
	decq %rsi
	jne .LBB0_1
	tilestored %tmm0, (%rdi,%r8)
	retq
"""


def test_a_loop_of_tiles_is_counted():
    loop = hottest(TILES)
    assert loop is not None
    assert (loop.tile_products, loop.fma, loop.loads, loop.configurations) == (4, 0, 4, 0)
    assert loop.flops == 2 * 4 * 8192
    inside = hottest(TILES.replace("decq %rsi", "ldtilecfg (%r9)"))
    assert inside is not None
    assert inside.configurations == 1


@needs_mca
def test_products_of_tiles_take_sixteen_cycles_each():
    loop = hottest(TILES)
    assert loop is not None
    found = mca.analyze(loop, targets.get("sapphirerapids"))
    assert (found.bound, found.cycles, found.percent_of_bound) == (64, 64, 100)
    assert found.pressure["TMUL"] == 64
    assert found.pressure["tile loads"] == 32
    assert len(found.costs) == len(loop.instructions)
    assert (found.costs[4].latency, found.costs[4].throughput) == (52, 16)


@needs_mca
def test_products_into_one_sum_wait_for_each_other():
    loop = hottest(TILES.replace("%tmm2\n", "%tmm0\n"))
    assert loop is not None
    assert mca.analyze(loop, targets.get("sapphirerapids")).cycles == 2 * 52


@needs_mca
@pytest.mark.parametrize(
    ("line", "bound"), [("vpdpbusd %zmm30, %zmm31, %zmm{}", 6), ("vpmaddwd %zmm30, %zmm31, %zmm{}", 12)]
)
def test_the_bound_of_dot_products_is_that_of_their_rate(line, bound):
    body = "".join(f"\t{line.format(number)}\n" for number in range(12))
    loop = hottest(f"k:\n.LBB0_1:\n{body}\tdecq %rax\n\tjne .LBB0_1\n\tretq\n")
    assert loop is not None
    assert mca.analyze(loop, targets.get("cascadelake")).bound == bound


@needs_mca
def test_analysis_sees_a_chain_of_dependent_sums():
    loop = hottest("k:\n.LBB0_1:\n\tvfmadd231ps %ymm1, %ymm2, %ymm0\n\tdecq %rax\n\tjne .LBB0_1\n\tretq\n")
    assert loop is not None
    assert mca.analyze(loop, targets.get("x86-64-v3")).percent_of_bound < 20


@needs_mca
@pytest.mark.parametrize("target", x86.FAMILY.rows, ids=lambda target: target.name)
def test_the_analysis_names_its_model_and_reaches_the_targets_bound(target):
    loop = hottest(TWELVE)
    assert loop is not None
    if target.vector_bits == 512:
        found = mca.analyze(loop, target)
        assert found.cycles == pytest.approx(12 / target.fma_per_cycle, rel=0.02)
        assert found.percent_of_bound == pytest.approx(100, rel=0.02)
        assert found.model == f"{target.model_cpu} model of LLVM 22"
        assert found.notes == ((target.model_note,) if target.model_note else ())
        assert any(port.startswith("Zn4") for port in found.pressure) == (target.name == "znver4")


@needs_mca
@pytest.mark.parametrize(
    ("line", "stand_in"),
    [
        ("vdpbf16ps %zmm30, %zmm31, %zmm{}", "vdpbf16ps as vfmadd231ps"),
        ("vpdpbusd (%rdi){{1to16}}, %zmm31, %zmm{}", "vpdpbusd as vfmadd231ps"),
        ("vbroadcastss (%rdi), %zmm{}\n\tvfmadd231ps %zmm30, %zmm31, %zmm{}", "vbroadcastss as vmovups"),
    ],
)
def test_what_a_model_has_too_slow_is_analysed_as_something_else_and_that_is_said(line, stand_in):
    body = "".join(f"\t{line.format(number, number + 12)}\n" for number in range(12))
    loop = hottest(f"k:\n.LBB0_1:\n{body}\tdecq %rax\n\tjne .LBB0_1\n\tretq\n")
    assert loop is not None
    found = mca.analyze(loop, targets.get("znver4"))
    assert found.cycles == pytest.approx(12, rel=0.05)
    assert stand_in in found.notes[0]
    assert len(found.costs) == len(loop.instructions)
    assert mca.analyze(loop, targets.get("znver4"), cpu="skylake-avx512").notes == ()


@needs_mca
def test_analysis_says_what_it_cannot_do():
    loop = hottest(TWELVE)
    assert loop is not None
    with pytest.raises(TargetError, match="llvm-mca failed"):
        mca.analyze(loop, targets.get("x86-64-v4"), cpu="no-such-processor")
    with pytest.raises(TargetError, match="invalid instruction mnemonic 'vnonsense'"):
        mca.analyze(only("f:\n\tvnonsense\n\tjne f\n"), targets.get("x86-64"))


def test_absent_tool_is_named(tmp_path):
    with pytest.raises(TargetError, match="llvm-mca is not installed"):
        mca.find_tool({"PATH": str(tmp_path)})


def test_the_tool_of_llvm_dir_comes_first(tmp_path):
    tool = tmp_path / "prefix" / "bin" / "llvm-mca"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for folder in (tmp_path / "prefix", tmp_path / "prefix" / "lib" / "cmake" / "llvm"):
        assert mca.find_tool({"PATH": "", "LLVM_DIR": str(folder)}) == tool
