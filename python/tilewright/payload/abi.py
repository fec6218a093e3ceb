# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of a kernel, without MLIR, for code that only loads or declares kernels."""

from __future__ import annotations

import re

from tilewright.dtypes import dtype
from tilewright.errors import SpecError
from tilewright.payload.signature import Parameter, Signature
from tilewright.spec import MatmulSpec

ENTRY = "matmul"
"""Name of the payload's function, and of the C entry made from it where no other is asked for."""

OK, WRONG_EXTENTS, OUT_OF_MEMORY, WRONG_PACKING, WRONG_OPERAND, WRONG_INDEX = 0, 1, 2, 3, 4, 5
"""What the entry returns."""
FITS = "tables_fit"
"""The function beside one that takes tables which returns `OK`, or `WRONG_INDEX` where they name what there is not."""
UNSUPPORTED, UNKNOWN_LEVEL = 6, 7
"""What a library's functions return besides: no code of the kernel fits the processor; no level is called so."""

PROTOTYPE = (
    "int32_t {name}(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, "
    "void *c, int64_t ldc{scalars})"
)
"""The C entry: leading dimensions in elements; returns 0, or 1 when the extents are not those compiled for, or 2 when
there is no memory for the workspace. With `b_packed`, `b` is what the entry below packed, `ldb` means nothing, and 3 is
returned when it was packed in another format. The factors that calls tell come last: pointers to one number each, as `scalars` says."""

_C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "c64": "void", "c128": "void"}
"""Of the factors. Complex numbers are two, the real part first; C and C++ have other names for them."""

TENSORS_SUFFIX = "_tensors"
"""Of the entry, beside that of a kernel with further operands or with factors that calls tell, that takes an array of pointers to its
tensors."""

DLPACK_CPU = 1
_DLPACK_KINDS = {"int": 0, "uint": 1, "float": 2, "complex": 5}

PACK_SUFFIX = "_pack_b"
PACKED_BYTES_SUFFIX = "_packed_b_bytes"
PACK_PROTOTYPES = (
    f"int32_t {{name}}{PACK_SUFFIX}(int64_t k, int64_t n, const void *b, int64_t ldb, void *packed)",
    f"int64_t {{name}}{PACKED_BYTES_SUFFIX}(int64_t k, int64_t n)",
)
"""The entries of a kernel with `b_packed`: packs B, a row-major matrix, and returns 0, or 1 when the extents are not those
compiled for; and how many bytes `packed` takes, or -1 when they are not."""


_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval constexpr
    constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator
    or or_eq private protected public register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
    typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905 - a list would take ninety lines
)
"""The keywords of C23 and C++20, and `main`."""


def require_name(name: object, where: str) -> str:
    """`name`, if an entry can be called so in C and C++.

    Raises:
        SpecError: It cannot; `where` is who asked.
    """
    if isinstance(name, str) and _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
        return name
    expected = "a C identifier: a letter, then letters, digits and _; and no keyword of C or C++"
    raise SpecError(f"{name!r} is no name of an entry", where=where, expected=expected)


def dlpack_code(element: str) -> tuple[int, int]:
    """The code and the bits by which DLPack's DLDataType tells an element type."""
    row = dtype(element)
    if row.packed > 1:  # What is taken are bytes.
        return _DLPACK_KINDS["uint"], 8
    return (_DLPACK_KINDS[row.kind] if row.dlpack is None else row.dlpack), row.bits


def dlpack_number(element: str) -> int:
    """DLPack's DLDataType of an element type, of one lane, as the number that its bytes are."""
    code, bits = dlpack_code(element)
    return code | bits << 8 | 1 << 16


def prototype(spec: MatmulSpec, name: str) -> str:
    """The declaration of the C entry `name` of a kernel for `spec`: `PROTOTYPE`, or of DLTensors."""
    if not spec.takes_tensors:
        return PROTOTYPE.format(name=name, scalars="".join(f", {each}" for each in scalars(spec)))
    parameters = [f"const DLTensor *{c_name(spec, index)}" for index in range(len(spec.operands))]
    return f"int32_t {name}({', '.join(parameters)}, DLTensor *c)"


def scalars(spec: MatmulSpec) -> list[str]:
    """The declarations of the factors that calls tell, ``const float *alpha``, in the order of `MatmulSpec.scalars`."""
    return [f"const {_C_TYPES[each.type.name]} *{each.name}" for each in spec.scalars]


def function_prototype(signature: Signature) -> str:
    """The declaration of the C entry of a module's function, of DLTensors: its arguments, and after them its results."""
    parameters = [
        f"{'' if each.written else 'const '}DLTensor *{each.name}_"
        for each in (*signature.arguments, *signature.results)
    ]
    return f"int32_t {signature.name}({', '.join(parameters) or 'void'})"


def packers(signature: Signature) -> dict[str, Parameter]:
    """The arguments of a module's function that come packed, by what the entries that pack them are called after."""
    return {f"{signature.name}_{each.name}": each for each in signature.arguments if each.packed}


def c_name(spec: MatmulSpec, index: int) -> str:
    """The parameter of an operand in C: its name, where that can be one."""
    name = spec.operands[index].name
    return name if index < 2 else (f"{name}_" if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) else f"operand{index}_")
