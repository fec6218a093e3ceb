# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Last columns of bytes, of a dynamic extent, on processors without instructions that mask them: no branch for each element."""

import platform
import re
import shutil

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

_BRANCHES = re.compile(r"@llvm\.masked\.(?:load|store)[^\n]*<\d+ x i1> %")
"""What LLVM makes a branch of each element of, where nothing masks: a mask that only a call tells."""
_UNMASKED = [("x86-64", "u8,i8,i32"), ("x86-64-v3", "u8,i8,i32"), ("x86-64-v3", "i8,i8,i32"), ("armv8-a", "i8,i8,i32")]


def _spec(dtypes, n=None):
    return tw.MatmulSpec.from_dtypes(tw.Dim(2, 8), n, 64, dtypes)


@pytest.mark.parametrize(("target", "dtypes"), _UNMASKED)
def test_no_element_is_a_branch(target, dtypes):
    kernel = tw.compile(_spec(dtypes), target=target, schedule="unpacked")
    assert not _BRANCHES.search(kernel.asm["llvmir"])


def test_vectors_are_masked_where_instructions_do():
    kernel = tw.compile(_spec("f32"), target="x86-64-v3", schedule="unpacked")
    assert _BRANCHES.search(kernel.asm["llvmir"])


@pytest.mark.parametrize(
    ("name", "bits", "masks"),
    [
        ("x86-64", 32, False),
        ("x86-64-v3", 32, True),
        ("x86-64-v3", 16, False),
        ("x86-64-v3", 4, False),
        ("x86-64-v4", 8, True),
        ("x86-64-v4", 4, True),
        ("neoverse-n1", 64, False),
        ("neoverse-v2", 8, True),
        ("rv64gcv", 8, True),
    ],
)
def test_which_elements_a_target_masks(name, bits, masks):
    assert targets.resolve(name).masks(bits) is masks


def _skip_unless_run(target):
    if target.startswith("x86") and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()}, and not x86-64")
    if not target.startswith("x86") and shutil.which("qemu-aarch64") is None:
        pytest.skip("no emulator of aarch64")


@pytest.mark.parametrize(("target", "dtypes"), _UNMASKED)
@pytest.mark.parametrize("schedule", ["unpacked", "streamed"])
def test_every_number_of_columns_around_a_vector(target, dtypes, schedule):
    _skip_unless_run(target)
    kernel = tw.compile(_spec(dtypes), target=target, schedule=schedule)
    random = np.random.default_rng(5)
    for number, n in enumerate((1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 33)):
        spec = tw.MatmulSpec.from_dtypes(2 + number % 7, n, 64, dtypes)
        a, b = values(random, (spec.m, 64), spec.a_type), values(random, (64, n), spec.b_type)
        assert within_bound(kernel(a, b), tw.reference(spec, a, b), tw.error_bound(spec, a, b)).all(), spec


def test_a_block_of_columns_starts_from_zero_in_both_loops():
    """Zeros are written before blocks of K and the two loops over columns: what the second one reads is zero still."""
    _skip_unless_run("x86-64")
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(1, None, 9000, "u8,i8,i32"), target="x86-64", schedule="streamed")
    a, b = np.ones((1, 9000), np.uint8), np.ones((9000, 7), np.int8)
    assert (kernel(a, b, out=np.full((1, 7), 5, np.int32)) == 9000).all()
