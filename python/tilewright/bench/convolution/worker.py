# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peer process of a convolution library; see `bench.peer_worker`."""

from __future__ import annotations

import sys

from tilewright.bench.operators.contender import Caller
from tilewright.bench.peer_worker import serve


def _contender(name: str) -> Caller:
    from tilewright.bench.convolution.libraries import LIBRARIES

    return LIBRARIES[name]().contender()


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], _contender))
