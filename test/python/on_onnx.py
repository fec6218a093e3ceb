# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models in ONNX Runtime with kernels of ours: a program for the environment that has it. `test_frameworks` runs it.

Results are compared with those of ONNX Runtime's own provider for processors. Both are within a bound of the exact ones that follows from
how many numbers are summed, so they differ by twice that at most.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tilewright.onnx as two
from framework_cases import case, run
from tilewright.onnx.build import PROVIDER
from tilewright.onnx.graph import Value
from tilewright.onnx.views import View

ort: Any = import_module("onnxruntime")
helper: Any = import_module("onnx.helper")
numpy_helper: Any = import_module("onnx.numpy_helper")
ort.set_default_logger_severity(4)  # Refusals are tested below.
FOLDER = tempfile.TemporaryDirectory()
RNG = np.random.default_rng(0)
UNIT = 2.0**-24
MICROSOFT = "com.microsoft"
node = helper.make_node


def real(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    weights: Mapping[str, Any],
    opset: int = 23,
) -> bytes:
    """A model of nodes; an input has a shape, or a type and a shape."""
    given = [(name, *(each if isinstance(each, tuple) else (1, each))) for name, each in inputs.items()]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(*each) for each in given],
        [helper.make_tensor_value_info(each, 1, None) for each in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


@cache
def built(made: bytes, name: str, **how: Any) -> two.ModelKernels:
    return two.build(made, Path(FOLDER.name) / name, name=name, **how)


def compare(
    made: bytes,
    kernels: two.ModelKernels,
    given: Sequence[Mapping[str, np.ndarray]],
    bound: float,
    *,
    options: Any = None,
    runs: bool = True,
) -> None:
    """Compares a model's results with kernels with those of ONNX Runtime's own, and checks that kernels run for each input, or never."""
    options = options or ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(Path(FOLDER.name) / "profile")
    session = two.session(made, kernels, options)
    own = ort.InferenceSession(made, providers=["CPUExecutionProvider"])
    for feeds in given:
        for ours, theirs in zip(session.run(None, feeds), own.run(None, feeds), strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            assert (np.abs(ours - theirs) <= 2 * bound).all(), np.abs(ours - theirs).max()
    events = json.loads(Path(session.end_profiling()).read_text())
    calls = sum(each.get("args", {}).get("provider") == PROVIDER for each in events)
    assert calls >= len(given) if runs else calls == 0, calls


WEIGHTS = {
    "w": real(33, 9),
    "b": real(9),
    "bt": real(11, 33),
    "c": real(11),
    "half": np.float32(0.5),
    "low": np.float32(-0.1),
}
PRODUCTS = model(
    [
        node("MatMul", ["x", "w"], ["t"]),
        node("Add", ["b", "t"], ["u"]),
        node("Gelu", ["u"], ["v"]),
        node("Add", ["v", "r"], ["y"]),
        node("Gemm", ["rows", "bt", "c"], ["s"], transB=1),
        node("Sigmoid", ["s"], ["gate"]),
        node("Mul", ["gate", "s"], ["z"]),
        node("Gemm", ["left", "right"], ["p"], transA=1, alpha=0.5),
        node("Clip", ["p", "low"], ["q"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]),
        node("MatMul", ["heads", "kt"], ["scores"]),
        node("Mul", ["scores", "half"], ["o"]),
        node("Softmax", ["o"], ["weights"]),
    ],
    {
        "x": ["batch", 5, 33],
        "r": ["batch", 5, 9],
        "rows": ["batch", 33],
        "left": [6, "batch"],
        "right": [6, 7],
        "heads": ["batch", 3, 4, 8],
        "k": ["batch", "keys", 3, 8],
    },
    ["y", "z", "q", "weights"],
    WEIGHTS,
)


def product_feeds(batch: int, keys: int) -> dict[str, np.ndarray]:
    shapes = {"x": (batch, 5, 33), "r": (batch, 5, 9), "rows": (batch, 33), "left": (6, batch), "right": (6, 7)}
    return {
        name: real(*shape) for name, shape in (shapes | {"heads": (batch, 3, 4, 8), "k": (batch, keys, 3, 8)}).items()
    }


# Sums of 33 products of numbers below 1, with a bias, and gelu or silu, whose slope is below 1.2.
PRODUCT_BOUND = 1.2 * 34 * 36 * UNIT


@case
def products_with_what_follows_at_any_batch() -> None:
    kernels = built(PRODUCTS, "products")
    assert kernels.left == {"Softmax": 1}
    assert sum(kernels.taken.values()) == 12
    names = sorted(str(each).split()[0] for each in kernels.kernels.values())
    assert names == ["?x11x33", "?x3*4x?x8", "?x7x6", "?x9x33"]
    compare(PRODUCTS, kernels, [product_feeds(*each) for each in ((1, 1), (3, 7), (0, 2))], PRODUCT_BOUND)


@case
def threads_of_the_session() -> None:
    # The extents are known and large enough to be shared; sums of 512 products.
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": [256, 512]}, ["y"], {"w": real(512, 192)})
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    kernels = built(made, "threads", threads=2)
    compare(made, kernels, [{"x": real(256, 512)}], 512 * 514 * UNIT, options=options)


@case
def operands_that_break_a_promise_are_refused() -> None:
    session = two.session(PRODUCTS, built(PRODUCTS, "products"))
    feeds = product_feeds(3, 2) | {"r": real(1, 5, 9)}
    refused(lambda: session.run(None, feeds), '"r" has an extent of 5; expected 15')


@case
def another_model_runs_without_kernels() -> None:
    kernels = built(PRODUCTS, "products")
    other = model([node("MatMul", ["x", "w"], ["y"])], {"x": ["batch", 33]}, ["y"], {"w": WEIGHTS["w"]})
    compare(other, kernels, [{"x": real(4, 33)}], PRODUCT_BOUND, runs=False)


@case
def values_that_others_read_stay() -> None:
    nodes = [node("MatMul", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])]
    made = model(nodes, {"x": ["batch", 33]}, ["t", "y"], {"w": WEIGHTS["w"]})
    kernels = built(made, "read")
    assert kernels.left == {"Relu": 1}
    compare(made, kernels, [{"x": real(4, 33)}], PRODUCT_BOUND)


@case
def texts_and_long_attributes_are_left_alone() -> None:
    numbers = list(range(1000))
    fields = {"domain": "ai.onnx.ml", "keys_int64s": numbers, "values_floats": list(map(float, numbers))}
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("LabelEncoder", ["l"], ["e"], **fields)]
    nodes.append(node("StringConcat", ["s", "end"], ["joined"]))
    texts = numpy_helper.from_array(np.array(["end"], object), "end")
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(*each) for each in (("x", 1, ["batch", 33]), ("l", 7, [2]), ("s", 8, [1]))],
        [helper.make_tensor_value_info(*each, None) for each in (("y", 1), ("e", 1), ("joined", 8))],
        [numpy_helper.from_array(WEIGHTS["w"], "w"), texts],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    kernels = built(made, "texts")
    assert kernels.left == {"ml.LabelEncoder": 1, "StringConcat": 1}
    feeds = {"x": real(2, 33), "l": np.array([3, 7]), "s": np.array(["at "], object)}
    got, expected = (
        each.run(None, feeds)
        for each in (two.session(made, kernels), ort.InferenceSession(made, providers=["CPUExecutionProvider"]))
    )
    assert (np.abs(got[0] - expected[0]) <= 2 * PRODUCT_BOUND).all()
    assert (got[1].tolist(), got[2].tolist()) == ([3.0, 7.0], ["at end"])


@case
def names_of_more_than_one_line() -> None:
    nodes = [node("MatMul", ["x", "w"], ['t\n"'], name="a\nb"), node("Relu", ['t\n"'], ["y\noutput"])]
    made = model(nodes, {"x": ["batch", 33]}, ["y\noutput", 't\n"'], {"w": WEIGHTS["w"]})
    kernels = built(made, "lines")
    assert kernels.left == {"Relu": 1}  # The product is a result too.
    compare(made, kernels, [{"x": real(4, 33)}], PRODUCT_BOUND)


@case
def attributes_that_are_no_text() -> None:
    label = node("LabelEncoder", ["l"], ["e"], domain="ai.onnx.ml", keys_int64s=[3], values_int64s=[4])
    label.attribute.append(helper.make_attribute("default_string", b"\xff\xfe("))
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"]), label],
        "model",
        [helper.make_tensor_value_info("x", 1, ["batch", 33]), helper.make_tensor_value_info("l", 7, [2])],
        [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("e", 7, None)],
        [numpy_helper.from_array(WEIGHTS["w"], "w")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    compare(made, built(made, "bytes"), [{"x": real(4, 33), "l": np.array([3, 5])}], PRODUCT_BOUND)


@case
def operators_as_they_were() -> None:
    # Clip with its bounds as attributes, and Softmax over all axes from the second one on, which no attention has.
    nodes = [
        node("MatMul", ["x", "w"], ["t"]),
        node("Clip", ["t"], ["y"], min=-0.25, max=0.5),
        node("MatMul", ["q", "k"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "v"], ["o"]),
    ]
    shapes = {"q": [2, 3, 5, 8], "k": [2, 3, 8, 7], "v": [2, 3, 7, 8]}
    made = model(nodes, {"x": ["batch", 33], **shapes}, ["y", "o"], {"w": WEIGHTS["w"]}, opset=10)
    kernels = built(made, "older")
    assert kernels.left == {"Softmax": 1}
    feeds = {"x": real(4, 33)} | {name: real(*shape) for name, shape in shapes.items()}
    compare(made, kernels, [feeds], PRODUCT_BOUND)


@case
def a_gemm_whose_addend_has_no_known_shape() -> None:
    nodes = [
        node("Reshape", ["c", "to"], ["d"]),
        node("Gemm", ["x", "w", "d"], ["y"]),
        node("MatMul", ["x", "w"], ["z"]),
    ]
    made = model(nodes, {"x": ["batch", 33], "c": ["size"], "to": (7, ["rank"])}, ["y", "z"], {"w": WEIGHTS["w"]})
    kernels = built(made, "addend")
    assert kernels.left == {"Reshape": 1, "Gemm": 1}
    compare(made, kernels, [{"x": real(4, 33), "c": real(9), "to": np.array([1, 9])}], PRODUCT_BOUND)


@case
def axes_that_are_no_neighbors() -> None:
    view = View.of(Value("x", "f32", (2, 3, 5, 7)))
    joined = view.joined(((0, 1), (2,), (3,)))
    assert joined is not None
    assert joined.axes == ((0, 1), (2,), (3,))
    assert view.joined(((0, 2), (1,), (3,))) is None
    assert view.joined(((1, 0), (2,), (3,))) is None


@case
def products_inside_of_branches() -> None:
    def branch(name: str, bias: str) -> Any:
        nodes = [node("MatMul", ["x", "w"], [f"{name}t"]), node("Add", [f"{name}t", bias], [f"{name}y"])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}y", 1, ["batch", 9])])

    nodes = [node("If", ["c"], ["y"], then_branch=branch("then", "b"), else_branch=branch("else", "d"))]
    weights = {"w": WEIGHTS["w"], "b": WEIGHTS["b"], "d": real(9)}
    made = model(nodes, {"x": ["batch", 33], "c": (9, [])}, ["y"], weights)
    kernels = built(made, "branches")
    assert kernels.left == {"If": 1}
    compare(made, kernels, [{"x": real(3, 33), "c": np.array(each)} for each in (True, False)], PRODUCT_BOUND)


@case
def attention_operators() -> None:
    made = model(
        [
            node("MultiHeadAttention", ["q", "k", "v", "", "", "mask"], ["y"], domain=MICROSOFT, num_heads=3),
            node("Attention", ["q4", "k4", "k4", "seen"], ["z"], scale=0.3),
            node("Attention", ["q3", "k3", "k3"], ["o"], is_causal=1, q_num_heads=4, kv_num_heads=2),
        ],
        {
            "q": ["batch", 7, 24],
            "k": ["batch", "keys", 24],
            "v": ["batch", "keys", 24],
            "mask": [1, 1, 7, "keys"],
            "q4": [2, 4, 7, 16],
            "k4": [2, 2, 9, 16],
            "seen": (9, [7, 9]),
            "q3": [1, 7, 32],
            "k3": [1, 7, 16],
        },
        ["y", "z", "o"],
        {},
    )
    kernels = built(made, "attention")
    assert not kernels.left
    given = []
    for batch, keys in ((1, 5), (2, 33)):
        shapes = {"q": (batch, 7, 24), "k": (batch, keys, 24), "v": (batch, keys, 24), "mask": (1, 1, 7, keys)}
        shapes |= {"q4": (2, 4, 7, 16), "k4": (2, 2, 9, 16), "q3": (1, 7, 32), "k3": (1, 7, 16)}
        feeds = {name: real(*shape) for name, shape in shapes.items()}
        seen = RNG.random((7, 9)) > 0.4
        seen[:, 3] = True
        given.append(feeds | {"seen": seen})
    # Scores are sums of 16 products, whose error the softmax passes on twice; then a weighted mean of 33 values.
    compare(made, kernels, given, (2 * 16 * 18 + 40) * UNIT)


def grouped_queries(heads: int, kv_heads: int, head: int, *, turned: str = "", packed: bool = False) -> bytes:
    """A GroupQueryAttention; `turned` is "", "halves" or "neighbors": 16 elements of each head are turned."""
    fields = {"num_heads": heads, "kv_num_heads": kv_heads, "scale": 0.3, "do_rotary": int(bool(turned))}
    fields["rotary_interleaved"] = int(turned == "neighbors")
    width = (heads + 2 * kv_heads) * head if packed else heads * head
    rest = ["", ""] if packed else ["k", "v"]
    caches = ["cos", "sin"] if turned else []
    names = ["q", *rest, "pk", "pv", "ends", "total", *caches]
    of_past = ["batch", kv_heads, "past", head]
    inputs: dict[str, Any] = {"q": ["batch", "rows", width], "pk": of_past, "pv": of_past}
    inputs |= {} if packed else {each: ["batch", "rows", kv_heads * head] for each in "kv"}
    inputs |= {"ends": (6, ["batch"]), "total": (6, [1])}
    angles = RNG.uniform(-3, 3, (40, 8)).astype(np.float32)
    weights = {"cos": np.cos(angles), "sin": np.sin(angles)} if turned else {}
    made = node("GroupQueryAttention", names, ["y", "nk", "nv"], domain=MICROSOFT, **fields)
    return model([made], inputs, ["y", "nk", "nv"], weights)


@case
def attention_with_a_cache() -> None:
    for number, (turned, packed) in enumerate((("", False), ("halves", True), ("neighbors", False))):
        made = grouped_queries(6, 2, 32, turned=turned, packed=packed)
        kernels = built(made, f"cache{number}")
        assert not kernels.left
        given = []
        for batch, rows, past in ((2, 7, 0), (2, 1, 5), (1, 3, 9)):
            shapes = {
                "q": (batch, rows, 320 if packed else 192),
                "pk": (batch, 2, past, 32),
                "pv": (batch, 2, past, 32),
            }
            shapes |= {} if packed else dict.fromkeys("kv", (batch, rows, 64))
            feeds = {name: real(*shape) for name, shape in shapes.items()}
            ends = np.full(batch, past + rows - 1, np.int32)
            given.append(feeds | {"ends": ends, "total": np.array([past + rows], np.int32)})
        # Scores are sums of 32 products of turned numbers, whose error the softmax passes on twice; then a mean of 16 values.
        compare(made, kernels, given, (2 * 2 * 32 * 38 + 40) * UNIT)


@case
def a_cache_that_is_where_it_was() -> None:
    made = grouped_queries(4, 2, 32, turned="halves")
    session = two.session(made, built(made, "shared"))
    own = ort.InferenceSession(made, providers=["CPUExecutionProvider"])
    start = {name: real(1, 2, 12, 32) for name in ("pk", "pv")}
    feeds = {"q": real(1, 1, 128), "k": real(1, 1, 64), "v": real(1, 1, 64)}
    feeds |= {"ends": np.array([4], np.int32), "total": np.array([5], np.int32)}
    results = []
    for each in (session, own):
        binding, caches = each.io_binding(), {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in start.items()}
        for name, x in feeds.items():
            binding.bind_cpu_input(name, x)
        for name, given, made_ in (("k", "pk", "nk"), ("v", "pv", "nv")):
            binding.bind_ortvalue_input(given, caches[f"p{name}"])
            binding.bind_ortvalue_output(made_, caches[f"p{name}"])
        binding.bind_output("y")
        each.run_with_iobinding(binding)
        results.append([binding.copy_outputs_to_cpu()[-1], *(each.numpy()[:, :, :5] for each in caches.values())])
    for ours, theirs in zip(*results, strict=True):
        assert (np.abs(ours - theirs) <= 2 * (2 * 2 * 32 * 38 + 40) * UNIT).all()
    refused(lambda: session.run(None, feeds | start | {"ends": np.array([14], np.int32)}), "more keys than the cache")


@case
def attention_with_a_cache_that_is_left() -> None:
    fields = {"num_heads": 2, "kv_num_heads": 1, "local_window_size": 3, "domain": MICROSOFT}
    nodes = [node("GroupQueryAttention", ["q", "k", "k", "", "", "ends", "total"], ["y", "nk", "nv"], **fields)]
    nodes.append(node("MatMul", ["y", "w"], ["z"]))
    inputs = {"q": [1, 4, 16], "k": [1, 4, 8], "ends": (6, [1]), "total": (6, [1])}
    made = model(nodes, inputs, ["z", "nk", "nv"], {"w": real(16, 4)})
    assert built(made, "window").left == {"com.microsoft.GroupQueryAttention": 1}


@case
def attention_of_single_nodes() -> None:
    nodes = [
        node("Reshape", ["q", "split"], ["qs"]),
        node("Transpose", ["qs"], ["qh"], perm=[0, 2, 1, 3]),
        node("Mul", ["qh", "root"], ["qm"]),
        node("Reshape", ["k", "split"], ["ks"]),
        node("Transpose", ["ks"], ["kt"], perm=[0, 2, 3, 1]),
        node("Mul", ["kt", "root"], ["km"]),
        node("MatMul", ["qm", "km"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("IsNaN", ["p"], ["n"]),
        node("Where", ["n", "zero", "p"], ["pz"]),
        node("Reshape", ["v", "split"], ["vs"]),
        node("Transpose", ["vs"], ["vh"], perm=[0, 2, 1, 3]),
        node("MatMul", ["pz", "vh"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "whole"], ["y"]),
    ]
    mask = real(1, 1, 9, 9)
    mask[0, 0, 2] = -np.inf
    split, whole = np.array([2, 9, 3, 8]), np.array([2, 9, 24])
    weights = {"split": split, "whole": whole, "root": np.float32(0.6), "zero": np.float32(0), "mask": mask}
    made = model(nodes, {each: [2, 9, 24] for each in "qkv"}, ["y"], weights)
    kernels = built(made, "single")
    assert not kernels.left
    assert [str(each) for each in kernels.kernels.values()] == ["attention 2 times 3 heads of 9x9x8 f32, mask f32 mn"]
    compare(made, kernels, [{each: real(2, 9, 24) for each in "qkv"}], (2 * 8 * 12 + 16) * UNIT)


@case
def convolutions() -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["t"], pads=[1, 0, 1, 2], strides=[2, 1]),
        node("Add", ["t", "r"], ["u"]),
        node("Relu", ["u"], ["v"]),
        node("Conv", ["v", "grouped"], ["y"], group=2, auto_pad="SAME_UPPER"),
        node("Conv", ["s", "row"], ["z"], dilations=[2], pads=[2, 3]),
    ]
    inputs = {"x": ["batch", 3, 9, 11], "r": ["batch", 4, 5, 11], "s": [2, 5, 31]}
    weights = {"w": real(4, 3, 3, 3), "b": real(4), "grouped": real(4, 2, 3, 3), "row": real(7, 5, 4)}
    made = model(nodes, inputs, ["y", "z"], weights)
    kernels = built(made, "convolutions", operators=two.OPERATORS)
    assert not kernels.left
    given = [{"x": real(each, 3, 9, 11), "r": real(each, 4, 5, 11), "s": real(2, 5, 31)} for each in (1, 3)]
    # Sums of 27 products, a bias and a residual; then of 18 products of these.
    compare(made, kernels, given, 18 * 29 * (31 + 20) * UNIT)


@case
def quantized_weights() -> None:
    k, n, block = 96, 24, 32
    fields = {"domain": MICROSOFT, "K": k, "N": n, "block_size": block, "accuracy_level": 0}
    nodes = [
        node("MatMulNBits", ["x", "four", "scales"], ["t"], bits=4, **fields),
        node("Relu", ["t"], ["y"]),
        node("MatMulNBits", ["x", "eight", "scales", "zeros"], ["z"], bits=8, **fields),
        node("MatMulNBits", ["x", "four", "scales", "pairs"], ["p"], bits=4, **fields),
    ]
    codes = {
        name: RNG.integers(0, 256, (n, k // block, bytes_), np.uint8) for name, bytes_ in (("four", 16), ("eight", 32))
    }
    zeros = {"zeros": RNG.integers(0, 256, n * 3, np.uint8), "pairs": RNG.integers(0, 256, n * 2, np.uint8)}
    made = model(nodes, {"x": ["batch", "rows", k]}, ["y", "z", "p"], codes | zeros | {"scales": real(n, 3)})
    kernels = built(made, "weights")
    assert not kernels.left
    rounding = model(
        [node("MatMulNBits", ["x", "four", "scales"], ["y"], bits=4, **{**fields, "accuracy_level": 4})],
        {"x": [2, k]},
        ["y"],
        {"four": codes["four"], "scales": real(n, 3)},
    )
    # Elements of at most 1, off by 1/254 of it; weights of at most 8.
    compare(rounding, built(rounding, "rounding"), [{"x": real(2, k)}], k * 8 / 254)
    # Weights up to 255 in size; sums of 96 products of these, each rounded three times before.
    compare(made, kernels, [{"x": real(2, rows, k)} for rows in (1, 5)], 255 * k * (k + 5) * UNIT)


@case
def types_of_half_the_size() -> None:
    weights = [
        numpy_helper.from_array(real(*each).astype(np.float16), name) for name, each in (("w", (33, 9)), ("b", (9,)))
    ]
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["t"]), node("Add", ["t", "b"], ["y"])],
        "model",
        [helper.make_tensor_value_info("x", 10, ["batch", 33])],
        [helper.make_tensor_value_info("y", 10, None)],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    kernels = built(made, "halves")
    assert not kernels.left
    # ONNX Runtime rounds the sum and the result, below 16 in size, to f16; ours rounds once.
    compare(made, kernels, [{"x": real(4, 33).astype(np.float16)}], 2 * 34 * 2.0**-11)


@case
def broken_plans_are_refused() -> None:
    made = model([node("MatMul", ["x", "w"], ["y"])], {"x": [2, 33]}, ["y"], {"w": WEIGHTS["w"]})
    kernels = built(made, "broken")
    text = kernels.path.read_text()
    for changed, words in (
        (text[: len(text) // 2], "no JSON"),
        (json.dumps({**json.loads(text), "format": 99}), "another format"),
        (text.replace("broken_kernels", "missing_kernels"), "missing_kernels"),
    ):
        kernels.path.write_text(changed)
        refused(lambda: two.session(made, kernels), words)
    kernels.path.unlink()
    refused(lambda: two.session(made, kernels), "cannot read")


def refused(call: Any, words: str) -> None:
    said = ""
    try:
        call()
    except Exception as error:  # Those of ONNX Runtime have no class in common.
        said = str(error)
    assert words in said, said or "nothing was raised"


@case
def models_without_products_are_refused() -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], {})
    refused(lambda: built(made, "nothing"), "no node of the model")
    refused(lambda: two.build(b"no model", FOLDER.name), "ONNX Runtime refuses the model")
    refused(lambda: built(PRODUCTS, "unknown", operators=("softmax",)), "operator 'softmax'")


if __name__ == "__main__":
    run()
