# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 2. Tiles for the caches
# group: lessons
# shape: 512x480x512
# Lesson 2. Loops around the loops: a block of B is used for 32 rows of A before the next one is loaded.
# Compare the table in Memory with that of lesson 1: less comes from beyond L1. Nothing is said of vectors yet: those in the
# assembly are what LLVM finds by itself, and their products and sums are not fused.
from tilewright.schedules import steps


def schedule(spec, target, sizes):
    with steps.script() as script:
        matmul = steps.match(script.root, "linalg.matmul")
        tile, *_loops = steps.tile(matmul, [32, 48, 32])
        steps.tile(tile, [1, 1, 1])
    return script.module
