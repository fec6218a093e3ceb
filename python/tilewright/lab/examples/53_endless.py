# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: A schedule without an end
# group: broken
# shape: 64x64x64
def schedule(spec, target, sizes):
    while True:
        pass
