# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model in ONNX Runtime on kernels of ours: built once for the model, then used by sessions, which need no compiler.

Run it with a Python that has onnxruntime and onnx, such as that of `make setup-frameworks`.
"""
# pyright: reportMissingImports=false

import tempfile

import numpy as np
import onnxruntime
import tilewright.onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, INNER = 192, 768
rng = np.random.default_rng(0)
weights = {
    name: rng.uniform(-0.05, 0.05, shape).astype(np.float32)
    for name, shape in {"up": (HIDDEN, INNER), "b1": (INNER,), "down": (INNER, HIDDEN), "b2": (HIDDEN,)}.items()
}
nodes = [  # x + down(gelu(up(x))), of any number of rows
    helper.make_node("MatMul", ["x", "up"], ["t"]),
    helper.make_node("Add", ["t", "b1"], ["u"]),
    helper.make_node("Gelu", ["u"], ["v"]),
    helper.make_node("Gemm", ["v", "down", "b2"], ["w"]),
    helper.make_node("Add", ["w", "x"], ["y"]),
    helper.make_node("Softmax", ["y"], ["p"]),
]
graph = helper.make_graph(
    nodes,
    "mlp",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", HIDDEN])],
    [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["rows", HIDDEN])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()

with tempfile.TemporaryDirectory() as folder:
    kernels = tilewright.onnx.build(model, folder, name="mlp")
    print(kernels)
    onnxruntime.set_default_logger_severity(3)
    session = tilewright.onnx.session(model, kernels)
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    # Sums of 192 products below 0.05, then of 768 of these sums by weights below 0.05; the softmax of it is below 1.
    bound = 2 * INNER * (INNER + HIDDEN) * 0.05 * HIDDEN * 0.05 * 2.0**-24
    for rows in (1, 17):
        x = rng.uniform(-1, 1, (rows, HIDDEN)).astype(np.float32)
        (got,), (expected,) = (each.run(None, {"x": x}) for each in (session, theirs))
        print(f"rows: {rows}, within the bound: {(np.abs(got - expected) <= bound).all()}")
    del session  # The library is loaded from the folder.
