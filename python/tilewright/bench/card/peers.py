# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peers on a card (cuBLASLt, torch and Triton), each with its variants, of which the fastest counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tilewright.bench.card import triton_peer
from tilewright.bench.card.cublaslt import CublasLt, Matrix

Run = Callable[[], object]
Bind = Callable[["Operands"], Run]
"""Binds a peer's variant to a set of operands, and returns a function that runs it on torch's current stream."""
_WORKSPACE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Operands:
    """What a product takes, torch's tensors on the card. A and B are matrices as they are multiplied.

    Attributes:
        a: M x K elements; a transposed view where it is stored so.
        b: K x N elements, likewise.
        c: M x N elements.
        bias: N elements, of the type that the peer wants; None without an epilogue.
        between: M x N elements for what a product gives to a kernel of its own; None without an epilogue.
    """

    a: Any
    b: Any
    c: Any
    bias: Any = None
    between: Any = None


class Peers:
    """The peers, with what they keep on the card."""

    def __init__(self, torch: Any, processors: int) -> None:  # noqa: ANN401 - the library
        """Loads nothing yet.

        Args:
            torch: The library.
            processors: The card's multiprocessors.
        """
        self._torch, self._processors = torch, processors
        self._library: CublasLt | None = None
        self._workspace: Any = None

    def choices(self, name: str, types: str, first: Operands) -> Mapping[str, Bind]:
        """The variants of a peer, by name, for operands like these.

        Raises:
            Exception: Whatever its library raises where it does not do this.
        """
        ways = {"cuBLASLt": self._cublaslt, "torch": self._of_torch, "Triton": self._triton}
        ways |= {"cuBLASLt, fused": self._fused, "cuBLASLt, sums in f32": self._in_f32}
        return ways[name](types, first)

    def _of_torch(self, types: str, first: Operands) -> Mapping[str, Bind]:
        """As torch calls cuBLAS, cuBLASLt or kernels of its own: by its first choice."""
        torch = self._torch
        if types.startswith("f8"):
            one = torch.ones((), device=first.a.device)
            # With fast sums, the faster of its two ways.
            scaled = {"scale_a": one, "scale_b": one, "use_fast_accum": True, "out_dtype": first.c.dtype}
            return {"": lambda given: partial(torch._scaled_mm, given.a, given.b, **scaled, out=given.c)}
        if types == "i8":
            return {"": lambda given: partial(torch._int_mm, given.a, given.b, out=given.c)}
        if first.bias is None:
            return {"": lambda given: partial(torch.mm, given.a, given.b, out=given.c)}
        linear, gelu = torch.addmm, torch.ops.aten.gelu.out

        def bind(given: Operands) -> Run:
            def run() -> None:
                linear(given.bias, given.a, given.b, out=given.between)
                gelu(given.between, out=given.c)

            return run

        return {"": bind}

    def _cublaslt(self, types: str, first: Operands) -> Mapping[str, Bind]:
        """Every algorithm that its heuristic proposes; with a bias, fused with that, and GELU in a kernel of its own."""
        if first.bias is None:
            return self._products(first, first.c, "")
        gelu = self._torch.ops.aten.gelu.out

        def behind(product: Bind) -> Bind:
            def bind(given: Operands) -> Run:
                multiply = product(given)

                def run() -> None:
                    multiply()
                    gelu(given.between, out=given.c)

                return run

            return bind

        return {name: behind(each) for name, each in self._products(first, first.between, "bias").items()}

    def _fused(self, types: str, first: Operands) -> Mapping[str, Bind]:
        """Bias and GELU, by its approximation, in cuBLASLt's own kernel."""
        return self._products(first, first.c, "bias, gelu")

    def _in_f32(self, types: str, first: Operands) -> Mapping[str, Bind]:
        """8-bit floats as ours are summed, and not with fewer bits."""
        return self._products(first, first.c, "", fast=False)

    def _products(self, first: Operands, to: Any, epilogue: str, *, fast: bool = True) -> dict[str, Bind]:  # noqa: ANN401 - torch's tensor
        torch = self._torch
        if self._library is None:
            major = str(torch.version.cuda).partition(".")[0]
            self._workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=first.a.device)
            self._library = CublasLt(f"libcublasLt.so.{major}", self._workspace.data_ptr())
        bias = first.bias
        about = {"bias": bias.data_ptr(), "bias_type": _name(bias)} if epilogue else {}
        products = self._library.products(_matrix(first.a), _matrix(first.b), _matrix(to), epilogue, **about, fast=fast)

        def bound(product: Callable[..., None]) -> Bind:
            def bind(given: Operands) -> Run:
                result = given.between if epilogue == "bias" else given.c
                matrices = _matrix(given.a), _matrix(given.b), _matrix(result)
                bias = given.bias.data_ptr() if epilogue else 0
                return lambda: product(*matrices, bias, int(torch.cuda.current_stream().cuda_stream))

            return bind

        return {f"algorithm {number}": bound(each) for number, each in enumerate(products)}

    def _triton(self, types: str, first: Operands) -> Mapping[str, Bind]:
        import_module("triton")
        if first.a.stride(1) != 1:
            raise ValueError("the kernel takes A by rows")

        def bound(sizes: triton_peer.Sizes) -> Bind:
            return lambda given: triton_peer.launcher(given.a, given.b, given.c, sizes, self._processors)

        return {str(sizes): bound(sizes) for sizes in triton_peer.tried(first.a.shape[0])}

    def versions(self) -> dict[str, str]:
        """What the peers are."""
        torch = self._torch
        found = {"torch": f"{torch.__version__}, CUDA {torch.version.cuda}"}
        if self._library is not None:
            found["cuBLASLt"] = self._library.version
        with suppress(ImportError):
            found["Triton"] = str(import_module("triton").__version__)
        return found


def names(types: str, epilogue: str) -> tuple[str, ...]:
    """The peers of a product."""
    if epilogue:
        return ("cuBLASLt", "torch", "cuBLASLt, fused")
    return ("cuBLASLt", "torch", "Triton", *(["cuBLASLt, sums in f32"] if types.startswith("f8") else []))


ALL = ("cuBLASLt", "torch", "Triton", "cuBLASLt, fused", "cuBLASLt, sums in f32")
COMPILED = "Triton"
"""The peer whose kernels are compiled first, which takes as long as many measurements."""
VENDORS = ("cuBLASLt", "torch")
"""Those that call the vendor's library without fusing: the better of them is what the bars are about."""


def _name(tensor: Any) -> str:  # noqa: ANN401 - torch's
    return str(tensor.dtype).removeprefix("torch.")


def _matrix(tensor: Any) -> Matrix:  # noqa: ANN401 - torch's
    (rows, columns), (down, right) = tensor.shape, tensor.stride()
    return Matrix(tensor.data_ptr(), rows, columns, (down, right), _name(tensor))
