# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled module: what `tilewright.compile_module` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import notebook
from tilewright._runtime import Code
from tilewright.dtypes import dtype, to_numpy
from tilewright.errors import SpecError
from tilewright.payload import call_forms
from tilewright.payload.abi import PACK_SUFFIX, TENSORS_SUFFIX, function_prototype, packers
from tilewright.payload.signature import Parameter, Signature
from tilewright.runtime.kernel import About, CFunction, Kernel
from tilewright.standalone import _native, forms
from tilewright.standalone.native_class import native
from tilewright.standalone.packed_b import PackedB, Packing
from tilewright.standalone.packing import PackedFormat

if TYPE_CHECKING:

    class _Call(_native.FunctionCall, Kernel): ...
else:
    _Call = native(_native.FunctionCall, Kernel)


class Function(_Call):
    """A function of a compiled module.

    ``function(*arguments, out=None)`` takes the function's tensors as arrays, in its order or by their names, and returns
    its result: a new array, or `out`; a tuple of several ones, for which `out` is a tuple too; None where it has none. Memrefs
    that the function writes to are changed in place. Arrays are used where they lie and never copied: they need the types and
    shapes of the function; those of up to two dimensions have adjacent elements in a row, and rows any distance apart, others no
    gaps at all. What is written shares no element with anything else.
    """

    __slots__ = ("_code", "_packings", "_signature")

    def __init__(self, code: Code, signature: Signature, about: About) -> None:
        """Makes the function of linked code, whose entries take and give what the signature says."""
        self._packings = {each.name: _packing(code, signature, each) for each in signature.arguments if each.packed}
        entry = f"{signature.name}{TENSORS_SUFFIX}"
        super().__init__(code, **forms.function(call_forms.function(signature), entry, self._packings))
        self._about, self._code, self._signature = about, code, signature

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs `b` for the argument `name`, a B that comes packed.

        Raises:
            SpecError: That argument is taken as it is.
            OperandError: `b` does not fit; the error says why, and what to do.
            MemoryError: There is no memory for it.
        """
        if name not in self._packings:
            raise SpecError(
                f"{self!r} takes no argument {name!r} packed",
                where="pack",
                expected=f"one of {', '.join(self._packings) or 'none'}",
                remedy="Pass it as it is, or compile with b_packed=True",
            )
        return self._packings[name].pack(b)

    @property
    def signature(self) -> Signature:
        """What the function takes and gives."""
        return self._signature

    @property
    def c_function(self) -> CFunction:
        """The entry itself, for callers in C: takes the DLTensors of the arguments, and after them those of the results."""
        name = self._signature.name
        tensors = self._code.address_of(f"{name}{TENSORS_SUFFIX}")
        return CFunction(self._code.address_of(name), function_prototype(self._signature), self._code, tensors)

    def __repr__(self) -> str:
        """What it takes and gives."""
        return f"<tilewright.Function {self._signature}>"


class Module(Mapping[str, Kernel], Kernel):
    """A module compiled for one target: its functions by name.

    ``module(*arguments, out=None)`` calls the only function of a module that has one.
    """

    def __init__(self, functions: Mapping[str, Kernel], about: About) -> None:
        """Makes a module of its functions, in their order."""
        self._functions, self._about = functions, about

    def __getitem__(self, name: str) -> Kernel:
        """The function of that name.

        Raises:
            KeyError: There is none.
        """
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        """The functions' names."""
        return iter(self._functions)

    def __len__(self) -> int:
        """How many functions there are."""
        return len(self._functions)

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:  # noqa: ANN401 - as of Function
        """Calls the only function, as `Function` says.

        Raises:
            SpecError: There are several.
        """
        results: dict[str, Any] = {} if out is None else {"out": out}
        return self._only()(*arguments, **results, **named)

    def pack(self, name: str, b: Any) -> PackedB:  # noqa: ANN401 - an array of any library
        """Packs an argument of the only function, as `Function.pack` says.

        Raises:
            SpecError: There are several functions.
        """
        return self._only().pack(name, b)

    @property
    def c_function(self) -> CFunction:
        """The entry of the only function, for callers in C.

        Raises:
            SpecError: There are several.
        """
        return self._only().c_function

    def count_instructions(self, *arguments: Any, out: Any = None, **named: Any) -> int:  # noqa: ANN401 - as of Function
        """Counts the instructions of a call of the only function.

        Raises:
            SpecError: There are several.
            TargetError: No emulator that can count runs it.
        """
        return self._only().count_instructions(*arguments, out=out, **named)

    def _only(self) -> Kernel:
        if len(self._functions) != 1:
            raise SpecError(
                f"the module has {len(self._functions)} functions",
                where="module",
                expected=f"module[name], with one of {', '.join(self._functions)}",
            )
        return next(iter(self._functions.values()))

    def _repr_html_(self) -> str:
        """For notebooks: its functions."""
        facts = {"target": self.target.name, "code": f"{self.metadata.object_bytes:,} bytes"}
        rows = [
            (name, ", ".join(map(str, known.arguments)), ", ".join(map(str, known.results)), "; ".join(known.products))
            for name, each in self.items()
            if (known := each.signature) is not None
        ]
        return notebook.card("Module", facts, ("function", "takes", "gives", "products"), rows)

    def __repr__(self) -> str:
        """Its functions and target."""
        return f"<tilewright.Module {', '.join(self._functions)} for {self.target.name}>"


def _packing(code: Code, signature: Signature, parameter: Parameter) -> Packing:
    """How an argument comes packed."""
    form = PackedFormat.from_header(bytes.fromhex(parameter.format))
    entry = f"{signature.name}_{parameter.name}{PACK_SUFFIX}"
    element = to_numpy(dtype(form.element))
    return Packing(form, _native.PackCall(code, entry, form.n, form.k, b=element, b_transposed=parameter.transposed))


def entries(functions: Sequence[Signature]) -> list[str]:
    """The names of all entries of an object with these functions."""
    names = [each.name for each in functions]
    packing = [f"{name}{PACK_SUFFIX}" for each in functions for name in packers(each)]
    return [*names, *(f"{name}{TENSORS_SUFFIX}" for name in names), *packing]
