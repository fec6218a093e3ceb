# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The estimates of our own products' time on a GPU, which stand beside what a card measured, and how they are compared."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.runtime import emulated_time
from tilewright.schedules.gpu import warpgroup_sizes

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "figures"))

import measured  # noqa: E402


@pytest.mark.parametrize("split", [1, 2])
def test_more_depth_takes_longer_and_nothing_less_than_the_floor(split):
    """Parts of K are added up by a kernel of their own, which counts too."""
    tool = runpy.run_path(str(ROOT / "tools" / "estimate_table" / "__main__.py"))
    specs = [tw.MatmulSpec(128, 256, depth, a="bf16", c="bf16", layout="nt") for depth in (1024, 4096)]
    short, deep = (tool["estimated"](each, {"bm": 64, "bn": 64, "consumers": 1, "split": split}) for each in specs)
    assert deep > 1.5 * short
    for spec, seconds in zip(specs, (short, deep), strict=True):
        assert seconds * emulated_time.CLOCK_GHZ * 1e9 >= (warpgroup_sizes.least(spec) or 0)


def test_pairs_of_kernels_for_one_product_are_in_order_or_not(tmp_path):
    def row(k: int, found: float, estimate: float) -> str:
        return f"bf16,nt,64,4096,{k},bm=64,{found},{estimate}"

    lines = ["types,layout,m,n,k,sizes,measured,estimated"]
    lines += [row(4096, 100, 120), row(4096, 50, 130), row(4096, 95, 10), row(1024, 20, 10), row(1024, 10, 5)]
    file = tmp_path / "estimates.csv"
    file.write_text("\n".join(lines) + "\n")
    table = list(measured._estimates(file))
    # 100 and 95 are as good as equal; 95 before 50 is right in neither estimate, 20 before 10 is.
    assert table[-1] == "| bf16 | 1 to 64 | 5 | 0.61 | 0.11 | 2.60 | 1 of 3 |"
