# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peer: onnxruntime on the CPU, with a model of one product."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tilewright.bench.libraries.base import Call, Library
from tilewright.bench.operands import Operands

OPSET, IR_VERSION = 21, 10  # onnx 1.16, which every onnxruntime from 1.18 on reads


class OnnxRuntime(Library):
    """MatMul with floats, MatMulInteger with 8-bit integers, operands and result bound ahead of time.

    What is timed includes a run of onnxruntime's session, some microseconds. B packed ahead of time is a constant of the model.
    """

    def __init__(self) -> None:
        """Loads onnxruntime."""
        import onnxruntime  # type: ignore[import-not-found]

        onnxruntime.set_default_logger_severity(3)
        self._runtime: Any = onnxruntime

    @property
    def version(self) -> str:
        """Onnxruntime's version."""
        return str(self._runtime.__version__)

    def bind(self, operands: Operands) -> Call:
        """See `Library.bind`."""
        return self._bind(operands, constant=False)

    def bind_packed(self, operands: Operands) -> Call:
        """See `Library.bind_packed`."""
        return self._bind(operands, constant=True)

    def _bind(self, operands: Operands, *, constant: bool) -> Call:
        inputs = {"a": operands.a} if constant else {"a": operands.a, "b": operands.b}
        return self._run(model(operands, constant), inputs, "c", operands.c)

    def _run(self, model: bytes, inputs: Mapping[str, np.ndarray], output: str, result: np.ndarray) -> Call:
        """A run of a serialized model, its inputs and its result bound ahead of time."""
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        options.inter_op_num_threads = 1
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, runtime.OrtValue.ortvalue_from_numpy(array))
        binding.bind_output(output, "cpu", 0, result.dtype, list(result.shape), result.ctypes.data)
        return partial(session.run_with_iobinding, binding)


def model(operands: Operands, constant: bool) -> bytes:
    """A serialized model of ``c = a·b``, with B as an input or as a constant."""
    from onnx import helper  # type: ignore[import-not-found]

    def info(name: str, array: np.ndarray) -> Any:  # noqa: ANN401
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, list(array.shape))

    operation = "MatMulInteger" if operands.a.dtype.kind in "iu" else "MatMul"
    inputs = [info("a", operands.a)] + ([] if constant else [info("b", operands.b)])
    node = helper.make_node(operation, ["a", "b"], ["c"])
    return serialized(node, inputs, info("c", operands.c), {"b": operands.b} if constant else {})


def serialized(
    node: Any,  # noqa: ANN401
    inputs: list[Any],
    output: Any,  # noqa: ANN401
    constants: Mapping[str, np.ndarray],
    domains: Iterable[str] = (),
) -> bytes:
    """A serialized model of one node, of ops of ONNX and of `domains`."""
    from onnx import helper, numpy_helper  # type: ignore[import-not-found]

    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "one", inputs, [output], weights)
    opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(each, 1) for each in domains)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return made.SerializeToString()
