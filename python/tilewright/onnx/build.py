# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the kernels of an ONNX model, and runs the model with them in ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright.errors import SpecError, TilewrightError
from tilewright.libraries.build import library
from tilewright.onnx import graph
from tilewright.onnx.attention import attention
from tilewright.onnx.cached import CachedAttention, cached_attention
from tilewright.onnx.convolutions import convolution
from tilewright.onnx.graph import Graph, Node
from tilewright.onnx.groups import Group, Grouping
from tilewright.onnx.products import product
from tilewright.onnx.weights import quantized_product
from tilewright.payload.abi import require_name
from tilewright.runtime import files
from tilewright.targets import Target

PROVIDER = "TilewrightExecutionProvider"
"""What the provider is called in ONNX Runtime."""
_BINARY = "libtilewright_onnx.so"
_REGISTERED = "tilewright"
_FORMAT = 1
_SUFFIX = ".onnx.json"

_Group = Group | CachedAttention
_FINDERS: Mapping[str, Callable[[Grouping, Node], _Group | None]] = MappingProxyType(
    {
        "attention": lambda grouping, node: attention(grouping, node) or cached_attention(grouping, node),
        "conv": convolution,
        "weights": quantized_product,
        "matmul": product,
    }
)
OPERATORS = tuple(_FINDERS)
"""What kernels can be built for: attention, convolutions, products by quantized weights, products. The first comes first."""
DEFAULT_OPERATORS = ("attention", "weights", "matmul")
"""What they are built for where nothing is said. ONNX Runtime keeps images in blocks of channels between its convolutions, which
kernels of ours between them do not take: ResNet-18 has 0.6 of its speed with them."""


@dataclass(frozen=True, slots=True)
class ModelKernels:
    """The kernels of a model.

    Attributes:
        path: The file that says which nodes each computes; the library is beside it.
        kernels: What they compute, by name.
        taken: How many nodes of the model they compute, by operator.
        left: How many nodes are left to ONNX Runtime, by operator.
    """

    path: Path
    kernels: Mapping[str, Any]
    taken: Mapping[str, int]
    left: Mapping[str, int]

    def __repr__(self) -> str:
        """How many kernels and nodes there are."""
        count, all_ = sum(self.taken.values()), sum(self.taken.values()) + sum(self.left.values())
        return f"<tilewright.onnx.ModelKernels: {len(self.kernels)} kernels for {count} of {all_} nodes>"


def build(
    model: str | PathLike[str] | bytes,
    out: str | PathLike[str],
    *,
    name: str = "model",
    targets: Sequence[str | Target] = ("host",),
    threads: int = 1,
    operators: Sequence[str] = DEFAULT_OPERATORS,
) -> ModelKernels:
    """Compiles kernels for the products, convolutions and attention of an ONNX model, with what comes after them.

    ONNX Runtime optimizes the model as it does for itself, and shows its nodes to our provider; the kernels become a shared library as
    `tilewright.library` makes it. Weights are not in it: a session packs those that it has.

    Args:
        model: The model's file, or its bytes.
        out: The folder for ``NAME.onnx.json`` and the library, which is made where it is absent.
        name: What the files are called, a C identifier.
        targets: For which processors.
        threads: Most threads that a call uses, of the pool that the session has.
        operators: For which of `OPERATORS`.

    Raises:
        SpecError: An argument is none of those, or no node of the model is one that a kernel computes.
        TilewrightError: ONNX Runtime is not installed, or refuses the model; or a file cannot be written.
        LoweringError: A kernel cannot be compiled.
    """
    require_name(name, "tilewright.onnx.build")
    if unknown := sorted(set(operators) - set(OPERATORS)):
        raise SpecError(
            f"operator {unknown[0]!r}", where="tilewright.onnx.build", expected=f"some of {', '.join(OPERATORS)}"
        )
    graphs = _described(model)
    groups = [group for each in graphs for group in _groups(each, operators)]
    if not groups:
        raise SpecError(
            "no node of the model is one that a kernel computes",
            where="tilewright.onnx.build",
            expected="MatMul, Gemm, Conv, Attention or MatMulNBits of floats, with weights of known extents",
        )
    specs = list(dict.fromkeys(spec for each in groups for spec in each.specs))
    # A process that has loaded a library gets that one again under its name, whatever has become of the file.
    digest = hashlib.sha256(repr((specs, targets, threads)).encode()).hexdigest()[:8]
    names = {spec: f"{name}_{digest}_{number}" for number, spec in enumerate(specs)}
    library_name = f"{name}_kernels_{digest}"
    kernels = {names[spec]: spec for spec in names}
    folder = Path(out)
    library(kernels, targets, library_name, folder, threads=threads, own_pool=True, tvm_ffi=False)
    plan = {
        "format": _FORMAT,
        "library": library_name,
        "threads": threads,
        "groups": [each.json(names) for each in groups],
    }
    path = folder / f"{name}{_SUFFIX}"
    text = json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
    files.write_together({path.name: (path, text.encode())})
    taken = [node for group in groups for node in group.nodes]
    left = [node for each in graphs for node in each.nodes if all(node is not one for one in taken)]
    return ModelKernels(path, MappingProxyType(kernels), _counted(taken), _counted(left))


def _counted(nodes: Sequence[Node]) -> Mapping[str, int]:
    ops = [each.op for each in nodes]
    return MappingProxyType({op: ops.count(op) for op in dict.fromkeys(ops)})


def _groups(of: Graph, operators: Sequence[str]) -> list[_Group]:
    """The groups of a graph."""
    found = Grouping(of)
    for operator in OPERATORS:
        for node in of.nodes if operator in operators else ():
            try:
                group = _FINDERS[operator](found, node) if found.is_free(node) else None
            except SpecError:  # No kernel computes it: it is left to ONNX Runtime.
                continue
            if group is not None:
                found.found.append(group)
    return found.found


def _described(model: str | PathLike[str] | bytes) -> list[Graph]:
    """The graphs of a model as ONNX Runtime optimizes them.

    Raises:
        TilewrightError: ONNX Runtime is not there, or refuses the model.
    """
    runtime = _runtime()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes"
        options = runtime.SessionOptions()
        options.add_provider_for_devices(register(), {"describe": str(file)})
        _session(model, options)
        return graph.read(file.read_text(encoding="utf-8", errors="replace").split("\n") if file.exists() else [])


def _session(model: str | PathLike[str] | bytes, options: Any) -> Any:  # noqa: ANN401 - of ONNX Runtime
    runtime = _runtime()
    try:
        return runtime.InferenceSession(model if isinstance(model, bytes) else fspath(model), options)
    except Exception as error:  # Its errors have no class in common.
        raise TilewrightError(f"ONNX Runtime refuses the model: {error}", where="tilewright.onnx") from None


def session(
    model: str | PathLike[str] | bytes,
    kernels: ModelKernels | str | PathLike[str],
    options: Any = None,  # noqa: ANN401 - of ONNX Runtime
) -> Any:  # noqa: ANN401
    """A session of ONNX Runtime that runs a model with its kernels.

    Nodes for which there is no kernel, since the model is another one or was optimized in another way, run as without them, and a
    warning of ONNX Runtime says how many kernels serve.

    Args:
        model: The model's file, or its bytes.
        kernels: What `build` returned, or the file ``NAME.onnx.json``.
        options: Its `onnxruntime.SessionOptions`, to which the provider is added; None: new ones.

    Raises:
        TilewrightError: ONNX Runtime is not there, or refuses the model or the kernels.
    """
    path = kernels.path if isinstance(kernels, ModelKernels) else kernels
    own = _runtime().SessionOptions() if options is None else options
    own.add_provider_for_devices(register(), {"kernels": str(Path(fspath(path)).resolve())})
    return _session(model, own)


def binary() -> Path:
    """The provider's file, which programs in C and C++ register by `RegisterExecutionProviderLibrary`."""
    return Path(__file__).parents[1] / _BINARY


def _runtime() -> Any:  # noqa: ANN401 - a module
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise TilewrightError(
            "onnxruntime is not installed", where="tilewright.onnx", remedy="pip install 'onnxruntime>=1.23'"
        ) from None


def register() -> list[Any]:
    """Registers the provider with ONNX Runtime, once, and returns its devices, which `SessionOptions.add_provider_for_devices` takes.

    Raises:
        TilewrightError: ONNX Runtime is not installed or too old, or the provider is not built.
    """
    runtime = _runtime()
    if not hasattr(runtime, "get_ep_devices"):
        raise TilewrightError(
            f"onnxruntime {runtime.__version__} takes no providers", where="tilewright.onnx", expected="1.23 or later"
        )
    found = [each for each in runtime.get_ep_devices() if each.ep_name == PROVIDER]
    if found:
        return found
    try:
        runtime.register_execution_provider_library(_REGISTERED, str(binary()))
    except Exception as error:  # Its errors have no class in common.
        raise TilewrightError(
            f"onnxruntime {runtime.__version__} does not take the provider: {error}",
            where="tilewright.onnx",
            remedy="Install onnxruntime 1.23 or later, and build the provider with `make setup`",
        ) from None
    return [each for each in runtime.get_ep_devices() if each.ep_name == PROVIDER]
