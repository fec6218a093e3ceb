# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peer process that runs torch's attention; see `bench.peer_worker`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from tilewright.bench.attention.cases import Case
from tilewright.bench.libraries.torch_cpu import TorchMm
from tilewright.bench.operators.contender import Arrays, Caller
from tilewright.bench.peer_worker import serve


class TorchAttention(TorchMm):
    """torch.nn.functional.scaled_dot_product_attention, which on the CPU is its flash attention."""

    def contender(self) -> Caller:
        """As a contender."""
        return Caller("torch", self.version, self._bind_case, lambda returned, _: self._array(returned[0]))

    def _bind_case(self, case: Case, asked: str, operands: Arrays) -> Callable[[], object]:
        given = [self._tensor(each).unsqueeze(0) for each in operands.inputs]
        product = self._torch.nn.functional.scaled_dot_product_attention
        return partial(product, *given, is_causal=case.causal, enable_gqa=case.heads != case.kv_heads)


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], lambda _: TorchAttention().contender()))
