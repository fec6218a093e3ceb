# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A .mlir schedule from a user is used as it is; a broken one is an error with its place, and never ends this process."""

import numpy as np
import pytest
import tilewright as tw

SPEC = tw.MatmulSpec(8, 16, 12)


@pytest.fixture(scope="module")
def schedule():
    """The text of the schedule that is chosen for `SPEC`."""
    return tw.compile(SPEC, cache=False).asm["schedule"]


def compiled(text, tmp_path):
    """The kernel of `SPEC` under the schedule `text`."""
    path = tmp_path / "own.mlir"
    path.write_text(text)
    return tw.compile(SPEC, schedule=str(path), cache=False)


def test_a_schedule_that_was_printed_gives_the_same_kernel(schedule, tmp_path):
    kernel = compiled(schedule, tmp_path)
    a, b = (np.ones(shape, np.float32) for shape in (SPEC.a_shape, SPEC.b_shape))
    assert (kernel(a, b) == 12).all()
    assert kernel.metadata.schedule == str(tmp_path / "own.mlir")
    assert kernel.asm["scheduled"] == tw.compile(SPEC, cache=False).asm["scheduled"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: "", r"own\.mlir: no @__transform_main"),
        (lambda text: text[:300], r"own\.mlir:\d+:\d+: not valid MLIR: .*; expected a transform module"),
        (
            lambda text: text.replace("tile_sizes [0, 0, 1]", "tile_sizes [0, 0, 1, 2]"),
            r"own\.mlir:\d+:\d+: not valid MLIR",
        ),
        (
            lambda text: text.replace('"linalg.matmul"', '"linalg.nothing"'),
            r"own\.mlir:\d+: .*transform op transform\.",
        ),
        (lambda text: "module {" * 20_000, r"own\.mlir:1:\d+: more than 256 nested brackets"),
        (lambda text: "\0", r"own\.mlir: no @__transform_main"),
    ],
    ids=["empty", "cut off", "does not verify", "does not match", "deep", "binary"],
)
def test_a_broken_schedule_is_an_error_with_its_place(schedule, tmp_path, change, match):
    with pytest.raises(tw.ScheduleError, match=match):
        compiled(change(schedule), tmp_path)
