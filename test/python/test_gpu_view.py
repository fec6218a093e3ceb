# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drawings of GPU kernels: banks as the kernel uses them, parts of warps, the slots of the pipeline."""

import re
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from lab_pages import data_of
from tilewright.cli import main
from tilewright.lab import gpu_view
from tilewright.lab.gpu_view import Buffer

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("pieces", [4, 8, 16, 5, 9, 17])
def test_pieces_below_one_another_are_in_different_banks(pieces):
    buffer = Buffer(3, 128, pieces)
    assert buffer.is_swizzled == (pieces in (4, 8, 16))
    for piece in range(min(pieces, 8)):
        assert {buffer.bank_of(row, piece) for row in range(8)} == set(range(8))


def test_rows_that_are_neither_would_conflict():
    """The drawing can show a conflict: rows of six pieces are in half of the banks."""
    text, *_ = gpu_view.banks(Buffer(2, 64, 6), "A")
    assert "with 2 conflicts" in text


def test_one_slot_is_multiplied_at_each_step():
    text, *_ = gpu_view.pipeline(3)
    said = re.findall(r"<title>step (\d+): (multiplied|a copy is in flight)</title>", text)
    for step in range(7):
        of_step = [what for number, what in said if int(number) == step]
        assert (of_step.count("multiplied"), len(of_step)) == (1, 3)


def test_boxes_that_hardware_swizzles_are_drawn():
    """As PTX says: of 128 bytes, piece i of row r lies at i xor r; of 64, at i xor r/2, two rows beside each other."""
    boxes: list[Any] = [
        SimpleNamespace(operand=at, shape=(64, 64), swizzle=size) for at, size in enumerate((128, 64, 128))
    ]
    first, second = gpu_view.boxes_in(boxes, 6)
    assert [first.bank_of(row, 3) for row in range(8)] == [3 ^ row for row in range(8)]
    assert [second.bank_of(row, 3) for row in range(8)] == [row % 2 * 4 + (3 ^ row // 2) for row in range(8)]
    drawn = gpu_view.drawings((256, 256, 256), {"bm": 128, "bn": 64, "bk": 64, "stages": 6, "consumers": 2}, {}, boxes)
    assert len(drawn) == 5
    assert "multiplied by 2 warp groups; another one copies" in drawn[1][0]
    # Rows of a box are its last axis but one: those before are of a batch.
    (batched,) = gpu_view.boxes_in([SimpleNamespace(operand=1, shape=(1, 1, 64, 64), swizzle=128)], 2)  # type: ignore[list-item]
    assert batched == first.__class__(2, 64, 8)


def test_explain_draws_a_kernel(tmp_path):
    shape = ["--shape", "256x384x512", "--dtype", "bf16,bf16,f32", "--target", "sm_80", "--schedule", "mma_sync"]
    assert main(["explain", *shape, "-o", str(tmp_path / "out")]) == 0
    drawn = ElementTree.fromstring((tmp_path / "out" / "tiles.svg").read_text())
    texts = [each.text or "" for each in drawn.iter(f"{SVG}text")]
    assert "the product, 256×384×512" in texts
    assert any(re.fullmatch(r"shared by \d+ warps, \d+×\d+ each", each) for each in texts)
    assert any("slots over steps along K" in each for each in texts)
    assert sum("swizzled: piece 0 of 8 rows is read without a conflict" in each for each in texts) == 2
    shown = data_of((tmp_path / "out" / "index.html").read_text())["answer"]
    assert len(shown["drawings"]) == 5  # the product, a block's tile, the pipeline, and the banks of A and of B
    assert shown["code"] in ("sass", "ptx")
