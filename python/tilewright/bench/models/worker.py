# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that runs a whole model by one compiler; see `bench.peer_worker`."""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
import torch._inductor.config  # pyright: ignore[reportMissingImports]

from tilewright.bench.models.cases import made
from tilewright.bench.models.parts import by_op
from tilewright.bench.peer_worker import serve
from tilewright.bench.timing import Loop

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_WARM_UP = 3

Compiled = Callable[..., Any]


def _eager(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401 - a module and its inputs, here and below
    return module


def _inductor(module: Any, inputs: Any, **how: Any) -> Compiled:  # noqa: ANN401
    return torch.compile(module, dynamic=False, **how)


def _ours(module: Any, inputs: Any, **how: Any) -> Compiled:  # noqa: ANN401
    from tilewright.torch.inductor import backend

    return torch.compile(module, backend=backend.tilewright, dynamic=False, **how)


def _onnxruntime(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401
    import onnxruntime  # pyright: ignore[reportMissingImports]

    file = io.BytesIO()
    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda given: torch.from_numpy(session.run(None, {name: given.numpy()})[0])


def _onnxruntime_with_kernels(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401
    import onnxruntime  # pyright: ignore[reportMissingImports]

    import tilewright.onnx

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"  # With weights beside it: together they may be too many for one message.
        torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(str(file), external_data=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        kernels = tilewright.onnx.build(file, folder, threads=torch.get_num_threads())
        session = tilewright.onnx.session(file, kernels, options)
    name = session.get_inputs()[0].name
    return lambda given: torch.from_numpy(session.run(None, {name: given.numpy()})[0])


FROZEN: Mapping[str, Any] = MappingProxyType({"options": {"freezing": True}})
COMPILERS: Mapping[str, Callable[[Any, Any], Compiled]] = MappingProxyType(
    {
        "tilewright": _ours,
        "tilewright-frozen": lambda module, inputs: _ours(module, inputs, **FROZEN),
        "eager": _eager,
        "inductor": _inductor,
        "inductor-frozen": lambda module, inputs: _inductor(module, inputs, **FROZEN),
        "max-autotune": lambda module, inputs: _inductor(module, inputs, mode="max-autotune-no-cudagraphs"),
        "onnxruntime": _onnxruntime,
        "onnxruntime-tilewright": _onnxruntime_with_kernels,
    }
)
"""By the name of a contender, what makes a function of a model."""


class Contender:
    """A model by one compiler."""

    def __init__(self, name: str) -> None:
        """Takes the name in `COMPILERS`."""
        self._name = name
        self.version = str(torch.__version__)
        if name.startswith("onnxruntime"):
            import onnxruntime  # pyright: ignore[reportMissingImports]

            self.version = onnxruntime.__version__

    def load(self, model: str, size: int, element: str) -> tuple[float, float]:
        """Compiles the model, and runs it.

        Returns:
            Seconds of the first call, and how far its result is from eager's in double precision, relative in the Frobenius norm.
        """
        with torch.inference_mode(False), torch.no_grad():
            exact_module, exact_inputs = made(model, size, torch.float64)
            exact = exact_module(*exact_inputs)
            del exact_module
            module, self._inputs = made(model, size, TYPES[element])
            torch._inductor.config.cpp.enable_kernel_profile = True
            start = time.perf_counter()
            self._call = COMPILERS[self._name](module, self._inputs)
            got = self._call(*self._inputs)
            seconds = time.perf_counter() - start
            for _ in range(_WARM_UP):
                self._call(*self._inputs)
        # Of one thread processor time, which other load on the machine leaves alone.
        clock = time.process_time_ns if torch.get_num_threads() == 1 else time.perf_counter_ns
        self._loop = Loop([self._timed], clock)
        return seconds, float((got.double() - exact).norm() / exact.norm())

    def _timed(self) -> object:
        with torch.no_grad():
            return self._call(*self._inputs)

    def calibrate(self, min_seconds: float) -> int:
        """See `Calls.calibrate`."""
        return self._loop.calibrate(min_seconds)

    def sample(self, count: int) -> float:
        """See `Calls.sample`."""
        return self._loop.sample(count)

    def parts(self) -> list[tuple[str, float, int]]:
        """The time of a call by op: its name, milliseconds and calls, the largest first."""
        with torch.no_grad():
            return by_op(self._timed)

    def flops(self) -> int:
        """The operations of a call's products."""
        from torch.utils.flop_counter import FlopCounterMode  # pyright: ignore[reportMissingImports]

        with FlopCounterMode(display=False) as counter:
            self._timed()
        return counter.get_total_flops()


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], Contender))
