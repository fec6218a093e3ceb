# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that runs a whole model by one compiler; see `bench.peer_worker`."""

from __future__ import annotations

import logging
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
from tilewright.errors import TilewrightError

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i4": torch.float32}
_WARM_UP = 3
_GROUP = 32
"""Weights of four bits that share a scale, as in ggml's Q4_0."""
_ROUNDED = 4
"""The accuracy level of ONNX Runtime's products by such weights that it is fastest at: activations are rounded to 8 bits."""

Compiled = Callable[..., Any]


def _eager(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401 - a module and its inputs, here and below
    return module


def _inductor(module: Any, inputs: Any, **how: Any) -> Compiled:  # noqa: ANN401
    return torch.compile(module, dynamic=False, **how)


def _ours(module: Any, inputs: Any, **how: Any) -> Compiled:  # noqa: ANN401
    from tilewright.torch.inductor import backend

    return torch.compile(module, backend=backend.tilewright, dynamic=False, **how)


def _ours_of_four_bits(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401
    from tilewright.torch import optimize

    return _ours(optimize(module, "i4", group=_GROUP, precision="i8", attention=False), inputs)


def _exported(module: Any, inputs: Any, folder: Path) -> Path:  # noqa: ANN401
    """The model as a file of ONNX, with weights beside it: together they may be too many for one message."""
    file = folder / "model.onnx"
    torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(str(file), external_data=True)
    return file


def _exported_of_four_bits(module: Any, inputs: Any, folder: Path) -> Path:  # noqa: ANN401
    """The same with weights of four bits, by ONNX Runtime's own tool."""
    from onnxruntime.quantization.matmul_nbits_quantizer import (  # pyright: ignore[reportMissingImports]
        MatMulNBitsQuantizer,
    )

    logging.getLogger(MatMulNBitsQuantizer.__module__).setLevel(logging.WARNING)
    made = str(_exported(module, inputs, folder))
    quantizer = MatMulNBitsQuantizer(made, 4, _GROUP, is_symmetric=True, accuracy_level=_ROUNDED)
    quantizer.process()
    file = folder / "quantized.onnx"
    quantizer.model.save_model_to_file(str(file), use_external_data_format=True)
    return file


def _onnxruntime(module: Any, inputs: Any, exported: Callable[..., Path] = _exported) -> Compiled:  # noqa: ANN401
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        file = exported(module, inputs, Path(folder))
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return _called(session)


def _onnxruntime_with_kernels(module: Any, inputs: Any) -> Compiled:  # noqa: ANN401
    import onnxruntime  # pyright: ignore[reportMissingImports]

    import tilewright.onnx

    with tempfile.TemporaryDirectory() as folder:
        file = _exported(module, inputs, Path(folder))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        kernels = tilewright.onnx.build(file, folder, threads=torch.get_num_threads())
        session = tilewright.onnx.session(file, kernels, options)
    return _called(session)


def _called(session: Any) -> Compiled:  # noqa: ANN401
    """A session of ONNX Runtime as a function of a tensor."""
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
OF_FOUR_BITS: Mapping[str, Callable[[Any, Any], Compiled]] = MappingProxyType(
    {
        "tilewright": _ours_of_four_bits,
        "eager": _eager,
        "onnxruntime": lambda module, inputs: _onnxruntime(module, inputs, _exported_of_four_bits),
    }
)
"""The same where weights of linear layers have four bits; eager has none such, and computes with those that there were."""


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

        Raises:
            TilewrightError: It cannot have weights of this type.
        """
        compilers = OF_FOUR_BITS if element == "i4" else COMPILERS
        if self._name not in compilers:
            raise TilewrightError(f"{self._name} has no weights of four bits here", where="bench model")
        with torch.inference_mode(False), torch.no_grad():
            exact_module, exact_inputs = made(model, size, torch.float64)
            exact = exact_module(*exact_inputs)
            del exact_module
            module, self._inputs = made(model, size, TYPES[element])
            torch._inductor.config.cpp.enable_kernel_profile = True
            start = time.perf_counter()
            self._call = compilers[self._name](module, self._inputs)
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
