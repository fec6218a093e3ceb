# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of a library that convolves: as `bench.peer_worker`, for layers."""

from __future__ import annotations

import sys

from tilewright.bench.convolution.contender import Convolver
from tilewright.bench.peer_worker import serve


def _convolver(name: str) -> Convolver:
    from tilewright.bench.convolution.libraries import LIBRARIES

    return LIBRARIES[name]().convolver()


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], _convolver))
