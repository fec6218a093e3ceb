# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Claims about assembly: those that hold, those that do not, and what is no claim."""

import shutil

import pytest
import tilewright as tw
from tilewright import targets
from tilewright.cli import main
from tilewright.emit import claims, mca

LOOP = """
kernel:
	movq	%rdi, -8(%rsp)
.L1:
	vmovups	(%rdi), %zmm1
	vfmadd231ps	(%rsi){1to16}, %zmm1, %zmm2
	vfmadd231ps	4(%rsi){1to16}, %zmm1, %zmm3
	movq	-8(%rsp), %rax
	decq	%rcx
	jne	.L1
	vdivps	%zmm2, %zmm3, %zmm3
	retq
"""
HOLD = (
    "fma == 2",
    "instructions == 6",
    "spills == 1",
    "loads <= 2 * fma",
    "loads > 1.5 * fma",
    "fma != stores",
    "count(vfmadd231ps) == fma",
    "count(vdivps) == 0",
    "all.count(vdivps) == 1",
)
FAIL = {
    "spills == 0": "spills is 1; expected spills == 0",
    "loads < fma": r"loads is 4; expected loads < fma \(2\)",
    "all.count(vdivps) < 1": r"all.count\(vdivps\) is 1",
}
NONE = ("spills", "spills = 0", "spill == 0", "fma == == 2", "count(1", "fma >= -1", "vdivps == 0", "")


def check(*given, text=LOOP):
    claims.check(text, targets.resolve("x86-64-v4"), given)


def test_claims_that_hold():
    check(*HOLD)


@pytest.mark.skipif(mca.find_tool() is None, reason="llvm-mca is not installed")
def test_the_busiest_port_is_known():
    """Four loads on two ports take two cycles."""
    check("pressure >= 2", "pressure <= cycles")
    with pytest.raises(tw.ClaimError, match="pressure is 2"):
        check("pressure < 2")


@pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc is not installed")
def test_bytes_are_those_of_the_machine_code():
    """6, 6, 7, 5, 3 and a short jump of 2; around them 5, 6 and 1."""
    check("bytes == 29", "all.bytes == 41")
    far = LOOP.replace("\tdecq", "\t.skip 200, 0x90\n\tdecq")
    check("bytes == 33", text=far)
    check("all.bytes == 7", text="kernel:\n\tvdivps\t%zmm2, %zmm3, %zmm3\n\tretq\n")


@pytest.mark.skipif(shutil.which("llvm-mc-22") is None, reason="llvm-mc is not installed")
def test_bytes_of_other_architectures():
    for name in ("neoverse-v1", "rv64gcv"):
        kernel = tw.compile(tw.MatmulSpec(96, 128, 64), name)
        tw.check_asm(kernel, "bytes <= 4 * instructions", "bytes >= 2 * instructions", "all.bytes > bytes")


@pytest.mark.parametrize("claim", FAIL)
def test_claims_that_do_not_hold_say_what_was_found(claim):
    with pytest.raises(tw.ClaimError, match=FAIL[claim]) as failed:
        check("fma == 2", claim)
    assert "2 vfmadd231ps" in str(failed.value)
    assert isinstance(failed.value, AssertionError)


@pytest.mark.parametrize("claim", NONE)
def test_what_is_no_claim_is_refused(claim):
    with pytest.raises(tw.TilewrightError, match=r"no claim|unknown name") as failed:
        check(claim)
    assert not isinstance(failed.value, AssertionError)


def test_without_a_hot_loop():
    text = "kernel:\n\tvdivps\t%zmm2, %zmm3, %zmm3\n\tretq\n"
    check("all.count(vdivps) == 1", text=text)
    with pytest.raises(tw.TilewrightError, match="no loop multiplies"):
        check("fma == 0", text=text)


def test_a_kernel_and_the_command_line(capsys, tmp_path):
    kernel = tw.compile(tw.MatmulSpec(96, 128, 64), "x86-64-v4")
    tw.check_asm(kernel, "spills == 0", "fma == 24", "all.count(vdivps) == 0")
    with pytest.raises(tw.ClaimError):
        tw.check_asm(kernel, "fma == 0")
    (tmp_path / "loop.s").write_text(LOOP)
    given = ["check-asm", str(tmp_path / "loop.s"), "--target", "x86-64-v4", "--claim", "fma == 2"]
    assert main(given) == 0
    assert main([*given, "--claim", "spills == 0"]) == 1
    assert main([*given, "--claim", "nonsense"]) == 2
    assert main(["check-asm", "--shape", "96x128x64", "--target", "x86-64-v4", "--claim", "spills == 0"]) == 0
    assert "1 claims hold" in capsys.readouterr().out
