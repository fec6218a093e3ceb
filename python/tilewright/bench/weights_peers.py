# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The libraries that products by quantized weights are measured beside, and the operands that all get; run as a module, a peer's process.

Each library gets the same numbers in its own format, put in its own order ahead of time. What it computes is compared with the exact
product before it is timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.contender import Calls
from tilewright.bench.libraries.ggml import Ggml
from tilewright.bench.libraries.onnx_runtime import OnnxRuntime, serialized
from tilewright.bench.libraries.torch_cpu import Torch
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.peer_worker import serve
from tilewright.bench.peers import PEERS
from tilewright.dtypes import dtype, to_numpy
from tilewright.errors import TilewrightError
from tilewright.nibbles import unpack_nibbles
from tilewright.quantized import Quantized, quantize_weights

if TYPE_CHECKING:
    from tilewright.spec import MatmulSpec

WORKER = "tilewright.bench.weights_peers"
_GGML_BLOCK = 32
_MATMULNBITS = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Operands:
    """What is multiplied, and room for the result.

    Attributes:
        x: Activations, M × K of f32.
        weights: N × K, symmetric.
        codes: Theirs, one in a byte, as i8.
        out: M × N of f32.
    """

    x: np.ndarray
    weights: Quantized
    codes: np.ndarray
    out: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """The product in double precision."""
        return self.x.astype(np.float64) @ self.weights.floats().astype(np.float64).T


def operands(m: int, n: int, k: int, element: str, group: int) -> Operands:
    """The same numbers in every process: activations that bf16 holds, and weights with scales that f16 holds."""
    random = np.random.default_rng(0)
    x = random.standard_normal((m, k)).astype(to_numpy(dtype("bf16"))).astype(np.float32)
    w = random.standard_normal((n, k), np.float32)
    made = quantize_weights(w, element, group, scale_type="f16")
    codes = unpack_nibbles(made.codes, "i4", k) if element == "i4" else made.codes
    return Operands(x, made, codes.astype(np.int8), np.zeros((m, n), np.float32))


Bind = Callable[[Operands, str], Callable[[], object]]
"""Makes the timed call, of activations of a type."""


class _OnnxRuntime(OnnxRuntime):
    """MatMulNBits, with weights as a constant of the model; its `accuracy_level` is 4 where it may round activations to 8 bits."""

    def __init__(self) -> None:
        """Loads onnxruntime."""
        super().__init__()
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def bind_weights(self, given: Operands, activations: str, level: int) -> Callable[[], object]:
        """A run of a session, which uses its operands where they are."""
        from onnx import helper  # type: ignore[import-not-found]

        kind = np.float16 if activations == "f16" else np.float32
        (n, k), bits = given.weights.shape, 4 if given.weights.type == "i4" else 8
        group = given.weights.group
        codes = (given.codes.astype(np.int16) + (1 << bits - 1)).astype(np.uint8).reshape(n, k // group, group)
        if bits == 4:
            codes = codes[..., ::2] | codes[..., 1::2] << 4
        scales = given.weights.scales.astype(kind).reshape(n, k // group)
        x, out = given.x.astype(kind), np.zeros(given.out.shape, kind)
        self._kept[id(given)] = x, out

        def info(name: str, array: np.ndarray) -> Any:  # noqa: ANN401
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))

        attributes = {"K": k, "N": n, "bits": bits, "block_size": group, "accuracy_level": level}
        node = helper.make_node("MatMulNBits", ["a", "b", "s"], ["c"], domain=_MATMULNBITS, **attributes)
        made = serialized(node, [info("a", x)], info("c", out), {"b": codes, "s": scales}, domains=(_MATMULNBITS,))
        return self._run(made, {"a": x}, "c", out)

    def fetch_weights(self, _returned: object, given: Operands) -> np.ndarray:
        """The result."""
        return self._kept[id(given)][1].astype(np.float32)


class _Torch(Torch):
    """aten::_weight_int4pack_mm_for_cpu and aten::_weight_int8pack_mm, which give the type of A."""

    def bind_weights(self, given: Operands, activations: str) -> Callable[[], object]:
        """A call of the op."""
        torch, ops = self._torch, self._torch.ops.aten
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[activations]
        x = self._tensor(given.x).to(kind)
        scales = self._tensor(given.weights.scales.astype(np.float32))
        if given.weights.type == "i8":
            return partial(ops._weight_int8pack_mm, x, self._tensor(given.codes), scales.reshape(-1).to(kind))
        codes = self._tensor((given.codes + 8).astype(np.int32))
        packed = ops._convert_weight_to_int4pack_for_cpu(codes, 1)
        both = torch.stack([scales.t(), torch.zeros_like(scales.t())], -1).contiguous().to(kind)
        return partial(ops._weight_int4pack_mm_for_cpu, x, packed, given.weights.group, both)

    def fetch_weights(self, returned: Any, _given: Operands) -> np.ndarray:  # noqa: ANN401
        """The result."""
        return returned.float().numpy()


@dataclass(frozen=True, slots=True)
class Row:
    """A library.

    Attributes:
        peer: The row of `bench.peers` with its environment.
        tolerance: The relative error, in the Frobenius norm, that it stays below.
        make: Its version, and the functions for a timed call and for its result.
        cannot: Why it has no such product; empty where it has one.
    """

    peer: str
    tolerance: float
    make: Callable[[], tuple[str, Bind, Callable[[Any, Operands], np.ndarray]]]
    cannot: Callable[[MatmulSpec], str]


def _ggml() -> tuple[str, Bind, Callable[[Any, Operands], np.ndarray]]:
    library = Ggml()

    def bind(given: Operands, _activations: str) -> Callable[[], object]:
        group = given.weights.group or given.x.shape[1]
        scales = given.weights.scales.reshape(given.weights.shape[0], -1)
        return library.product(given.x, given.codes, np.repeat(scales, group // _GGML_BLOCK, 1), given.out)

    return library.version, bind, lambda _, given: library.fetch(given.out)


def _onnxruntime(level: int) -> tuple[str, Bind, Callable[[Any, Operands], np.ndarray]]:
    library = _OnnxRuntime()
    return library.version, partial(library.bind_weights, level=level), library.fetch_weights


def _torch() -> tuple[str, Bind, Callable[[Any, Operands], np.ndarray]]:
    library = _Torch()
    return f"torch {library._torch.__version__}", library.bind_weights, library.fetch_weights


def _not_in_blocks(spec: MatmulSpec) -> str:
    """Why weights have no scale for each group, or not one alone."""
    if len(spec.chain_b.operands) != 1 or spec.b not in ("i4", "i8"):
        return "only symmetric i4 and i8 are measured there"
    return "" if _group(spec) else "it has no scales of columns"


def _group(spec: MatmulSpec) -> int:
    """Elements of a column that share a scale; 0: all."""
    return next(iter(spec.chain_b.operands)).group


def _torch_cannot(spec: MatmulSpec) -> str:
    if spec.b == "i8" and len(spec.chain_b.operands) == 1:
        return "its int8 product has scales of columns only" if _group(spec) else ""
    return _not_in_blocks(spec)


def _onnxruntime_cannot(spec: MatmulSpec) -> str:
    return _not_in_blocks(spec) or ("" if spec.a in ("f32", "f16") else f"it has no MatMulNBits of {spec.a}")


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "ggml": Row("ggml", 0.02, _ggml, _not_in_blocks),
        "onnxruntime": Row("onnxruntime", 0.01, partial(_onnxruntime, 0), _onnxruntime_cannot),
        "onnxruntime-int8": Row("onnxruntime", 0.02, partial(_onnxruntime, 4), _onnxruntime_cannot),
        "torch": Row("torch", 0.01, _torch, _torch_cannot),
    }
)
"""By name. ggml, and onnxruntime-int8, round activations to 8-bit integers, in blocks."""


class _Contender(Calls):
    """A library in this process."""

    def __init__(self, name: str) -> None:
        version, self._bind, fetch = ROWS[name].make()
        super().__init__(name, version, fetch)

    def load(self, problem: tuple[int, int, int, str, int], activations: str, copies: int) -> None:
        """Makes the calls, each of which has weights and a result of its own."""
        one = operands(*problem)
        every = [replace(one, out=one.out.copy()) for _ in range(copies)]
        self.take(every, lambda given: self._bind(given, activations))


@dataclass(frozen=True, slots=True)
class Member:
    """A library in a process of its own.

    Attributes:
        name: Its name in `ROWS`.
        process: It.
    """

    name: str
    process: PeerProcess

    def cannot(self, spec: MatmulSpec) -> str:
        """Why it has no product such as `spec`; empty where it has one."""
        if not spec.b_transposed:
            return "it takes weights of N x K, layout nt"
        return ROWS[self.name].cannot(spec)

    def load(self, spec: MatmulSpec, copies: int) -> None:
        """Gives it a product, of so many copies of the operands, and checks its result.

        Raises:
            TilewrightError: It is wrong.
        """
        problem = (spec.m, spec.n, spec.k, spec.b_stored.name, _group(spec))
        self.process.load(problem, spec.a, copies)
        exact = operands(*problem).exact
        error = float(np.linalg.norm(self.process.result() - exact) / np.linalg.norm(exact))
        if not error <= ROWS[self.name].tolerance:
            raise TilewrightError(
                f"{spec} is wrong",
                where=f"peer {self.name}",
                expected=f"an error of {ROWS[self.name].tolerance}, not {error:.2g}",
            )


def members(
    names: Sequence[str] | None, threads: int, cores: Sequence[int], stack: ExitStack
) -> tuple[list[Member], dict[str, str]]:
    """The libraries, each in a process that ends with `stack`, and why others are missing.

    Args:
        names: Those that must take part; None: all that are installed.
        threads: Of each.
        cores: The processors that they are pinned to.
        stack: What ends the processes.

    Raises:
        TilewrightError: One is unknown, or must take part and is not there.
    """
    found: list[Member] = []
    absent: dict[str, str] = {}
    for name in ROWS if names is None else names:
        if name not in ROWS:
            raise TilewrightError(f"no weights by {name!r}", where="bench", expected=f"some of {', '.join(ROWS)}")
        peer = replace(PEERS[ROWS[name].peer], name=name)
        missing = peer.missing()
        if missing and names is not None:
            raise TilewrightError(missing, where=f"peer {name}")
        if missing:
            absent[name] = missing
        else:
            found.append(Member(name, stack.enter_context(PeerProcess(peer, threads, cores, worker=WORKER))))
    return found, absent


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], _Contender))
