# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The libraries that convolutions are compared with; all pack filters ahead of time.

As a program it is the process of one of them; see `bench.peer_worker`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.bench.convolution.layers import ZERO_POINT, Layer
from tilewright.bench.libraries.onnx_runtime import OnnxRuntime, serialized
from tilewright.bench.libraries.torch_cpu import OneDnn
from tilewright.bench.operators.contender import Arrays, Caller
from tilewright.bench.peer_worker import serve
from tilewright.errors import TilewrightError


class OneDnnConvolution(OneDnn):
    """oneDNN through torch, images with their channels last, filters in the order that oneDNN chose for them."""

    def contender(self) -> Caller:
        """As a contender."""
        return Caller("onednn", self.version, self._bind_layer, self._fetched)

    def _bind_layer(self, layer: Layer, asked: str, operands: Arrays) -> Callable[[], object]:
        torch = self._torch
        x = self._tensor(operands.inputs[0]).permute(0, 3, 1, 2)
        w = self._tensor(np.ascontiguousarray(operands.inputs[1].transpose(3, 2, 0, 1)))
        shape = [layer.images, layer.channels, layer.size, layer.size]
        stride, padding, dilation = [layer.stride] * 2, [layer.padding] * 2, [1, 1]
        if asked == "i8":
            scales, zeros = torch.ones(layer.filters), torch.zeros(layer.filters, dtype=torch.int32)
            packed = torch.ops.onednn.qconv_prepack(w, scales, 1.0, 0, stride, padding, dilation, layer.groups, shape)
            how = (stride, padding, dilation, layer.groups, layer.scale, ZERO_POINT, torch.uint8, "none", [], "")
            return partial(torch.ops.onednn.qconv_pointwise, x, 1.0, 0, packed, scales, zeros, None, *how)
        packed = torch.ops.mkldnn._reorder_convolution_weight(w, padding, stride, dilation, layer.groups, shape)
        how = (padding, stride, dilation, layer.groups, "none", [], "")
        return partial(torch.ops.mkldnn._convolution_pointwise, x, packed, None, *how)

    def _fetched(self, returned: Any, operands: Arrays) -> np.ndarray:  # noqa: ANN401 - a tensor
        return np.ascontiguousarray(self._array(returned.permute(0, 2, 3, 1)))


class OnnxRuntimeConvolution(OnnxRuntime):
    """onnxruntime's Conv and QLinearConv, which take the channels before rows and columns; filters are constants."""

    def contender(self) -> Caller:
        """As a contender."""
        return Caller(
            "onnxruntime",
            self.version,
            self._bind_layer,
            lambda *_: np.ascontiguousarray(self._y.transpose(0, 2, 3, 1)),
        )

    def _bind_layer(self, layer: Layer, asked: str, operands: Arrays) -> Callable[[], object]:
        if asked == "bf16":
            raise TilewrightError("it has no convolution of bf16 on the CPU")
        x = np.ascontiguousarray(operands.inputs[0].transpose(0, 3, 1, 2))
        self._y = np.empty((layer.images, layer.filters, layer.result, layer.result), operands.result.dtype)
        return self._run(_model(layer, asked, operands), {"x": x}, "y", self._y)


def _model(layer: Layer, asked: str, operands: Arrays) -> bytes:
    """A serialized model of the layer."""
    from onnx import helper  # type: ignore[import-not-found]

    kind = helper.np_dtype_to_tensor_dtype(operands.inputs[0].dtype)
    x = helper.make_tensor_value_info("x", kind, [layer.images, layer.channels, layer.size, layer.size])
    y = helper.make_tensor_value_info("y", kind, [layer.images, layer.filters, layer.result, layer.result])
    constants = {"w": np.ascontiguousarray(operands.inputs[1].transpose(3, 2, 0, 1))}
    inputs = ["x", "w"]
    if asked == "i8":
        constants |= {
            "one": np.float32(1),
            "none": np.uint8(0),
            "nothing": np.int8(0),
            "scale": np.float32(layer.scale),
            "middle": np.uint8(ZERO_POINT),
        }
        inputs = ["x", "one", "none", "w", "one", "nothing", "scale", "middle"]
    node = helper.make_node(
        "QLinearConv" if asked == "i8" else "Conv",
        inputs,
        ["y"],
        strides=[layer.stride] * 2,
        pads=[layer.padding] * 4,
        kernel_shape=[layer.reach] * 2,
        group=layer.groups,
    )
    return serialized(node, [x], y, {name: np.asarray(value) for name, value in constants.items()})


LIBRARIES: Mapping[str, Callable[[], OneDnnConvolution | OnnxRuntimeConvolution]] = MappingProxyType(
    {"onednn": OneDnnConvolution, "onnxruntime": OnnxRuntimeConvolution}
)
"""Each library by the name of its row in `bench.peers`."""

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], lambda name: LIBRARIES[name]().contender()))
