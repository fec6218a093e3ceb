# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: torch.compile on the CPU, with a product and its epilogue compiled together for one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call
from tilewright.bench.libraries.torch_cpu import Torch
from tilewright.bench.operands import Operands
from tilewright.errors import TilewrightError

_WARM_UP = 3

Step = Callable[[Any, Any, Any], Any]
"""From torch, a tensor and an iterator over the further operands to the next tensor."""

_STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "bias": lambda torch, x, further: x + next(further),
        "residual": lambda torch, x, further: x + next(further),
        "relu": lambda torch, x, further: torch.relu(x),
        "gelu": lambda torch, x, further: torch.nn.functional.gelu(x),
        "silu": lambda torch, x, further: torch.nn.functional.silu(x),
        "hardswish": lambda torch, x, further: torch.nn.functional.hardswish(x),
        "sigmoid": lambda torch, x, further: torch.sigmoid(x),
        "tanh": lambda torch, x, further: torch.tanh(x),
    }
)
"""By entry, torch's function for it; the only arguments are the axes of an operand that is added to each row."""


class TorchCompile(Torch):
    """A function of tensors, compiled by torch.compile's inductor for the shapes at hand, the result in the type of A.

    With B packed ahead of time, B is a constant to it, which it may lay out as it likes ("freezing").
    """

    def __init__(self, *, autotune: bool = False) -> None:
        """Loads torch. With `autotune` it measures its own kernels, which take an epilogue along, against the library's."""
        super().__init__()
        self._mode = "max-autotune-no-cudagraphs" if autotune else "default"

    @property
    def version(self) -> str:
        """Torch's version, and the mode."""
        return f"{self._torch.__version__}, mode {self._mode}"

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        a, b, *further = map(self._tensor, (operands.a, operands.b, *operands.further))
        steps = self._steps(operands.epilogue)

        def function(a: Any, b: Any, *further: Any) -> Any:  # noqa: ANN401
            return self._finished(steps, a @ b, further)

        return self._compiled(function, a, b, *further)

    def bind_packed(self, operands: Operands) -> Call:
        """See `Library.bind_packed`."""
        a, b, *further = map(self._tensor, (operands.a, operands.b, *operands.further))
        steps = self._steps(operands.epilogue)
        torch, finished = self._torch, self._finished

        class Layer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(b, requires_grad=False)
                self.further = torch.nn.ParameterList(torch.nn.Parameter(x, requires_grad=False) for x in further)

            def forward(self, a: Any) -> Any:  # noqa: ANN401
                return finished(steps, a @ self.weight, tuple(self.further))

        torch._inductor.config.freezing = True
        return self._compiled(Layer().eval(), a)

    def fetch(self, returned: object, operands: Operands) -> np.ndarray:
        """See `Library.fetch`."""
        return self._array(returned)

    def _compiled(self, function: Any, *arguments: Any) -> Call:  # noqa: ANN401
        self._torch._dynamo.reset()
        compiled = self._torch.compile(function, fullgraph=True, dynamic=False, mode=self._mode)
        for _ in range(_WARM_UP):
            compiled(*arguments)
        return lambda: compiled(*arguments)

    def _finished(self, steps: list[Step], product: Any, further: tuple[Any, ...]) -> Any:  # noqa: ANN401
        rest = iter(further)
        for step in steps:
            product = step(self._torch, product, rest)
        return product

    @staticmethod
    def _steps(epilogue: str) -> list[Step]:
        """The torch functions of an epilogue.

        Raises:
            TilewrightError: It has an entry that is not known here.
        """
        written = epilogue.split(",")
        for each in written:
            name, *arguments = each.split(":")
            if name not in _STEPS or arguments[:1] not in ([], ["n"], ["mn"]):
                raise TilewrightError(f"it is not told how to do {each!r}", expected=f"some of {', '.join(_STEPS)}")
        return [_STEPS[each.split(":")[0]] for each in written]
