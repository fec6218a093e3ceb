# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of tensors for another architecture, run by an emulator behind the interface of every such function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.dtypes import dtype
from tilewright.payload.abi import PACK_SUFFIX, TENSORS_SUFFIX
from tilewright.payload.signature import Parameter, Signature
from tilewright.runtime.emulated import INT, POINTER, Stubs
from tilewright.runtime.emulated_call import Operand, Program, Tensor
from tilewright.standalone.packing import PackedFormat


class FunctionStubs(Stubs):
    """The entries of functions of tensors: one that takes each tensor, one that takes an array of pointers to them, and packers."""

    def __init__(self, program: Program, signatures: Sequence[Signature]) -> None:
        """Makes the callbacks for all entries of functions."""
        """Makes the callbacks for all entries of functions."""
        functions: dict[str, tuple[tuple[type[Any], ...], Callable[..., int]]] = {}
        for each in signatures:
            functions[each.name] = (POINTER,) * len(each.parameters), partial(self._compute_each, each)
            functions[f"{each.name}{TENSORS_SUFFIX}"] = (POINTER,), partial(self._compute, each)
            for argument in each.arguments:
                if argument.packed:
                    name = f"{each.name}_{argument.name}{PACK_SUFFIX}"
                    functions[name] = (INT, INT, POINTER, INT, POINTER), partial(self._pack, name, argument)
        super().__init__(program, functions)

    def _compute(self, signature: Signature, pointers: int) -> int:
        return self._compute_each(signature, *(POINTER * len(signature.parameters)).from_address(pointers))

    def _compute_each(self, signature: Signature, *addresses: int) -> int:
        each = [
            Tensor(address, written=parameter.written, opaque_bytes=_packed_bytes(parameter))
            for address, parameter in zip(addresses, signature.parameters, strict=True)
        ]
        return self.call(f"{signature.name}{TENSORS_SUFFIX}", (each,))

    def _pack(self, name: str, parameter: Parameter, k: int, n: int, b: int, ldb: int, packed: int) -> int:
        form = PackedFormat.from_header(bytes.fromhex(parameter.format))
        size = dtype(form.element).bytes
        rows, columns = (n, k) if parameter.transposed else (k, n)
        source = Operand(b, (rows, columns * size), (ldb * size,))
        return self.call(name, (k, n, source, ldb, Operand(packed, (form.nbytes,), written=True)))


def _packed_bytes(parameter: Parameter) -> int:
    """Bytes of what comes packed, with its header; 0 for other tensors."""
    return PackedFormat.from_header(bytes.fromhex(parameter.format)).nbytes if parameter.packed else 0
