# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the C header of a compiled kernel."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tilewright.payload.abi import (
    OK,
    OUT_OF_MEMORY,
    PACK_PROTOTYPES,
    WRONG_EXTENTS,
    WRONG_INDEX,
    WRONG_OPERAND,
    WRONG_PACKING,
    function_prototype,
    packers,
    prototype,
    require_name,
)
from tilewright.payload.complex_products import computed
from tilewright.payload.signature import Parameter, Signature
from tilewright.scaling import ARG
from tilewright.spec import MatmulSpec
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target

_AMX = """
   Linux lets a process use AMX when it asks: an object that does asks as it is loaded (arch_prctl(ARCH_REQ_XCOMP_PERM, 18)), and
   the processor raises SIGILL in the first call where that was refused, as some sandboxes do."""


OPENMP = """
   Uses up to {threads} threads of LLVM's OpenMP runtime, and no more than omp_get_max_threads() says: link the object with
   libomp (clang: -fopenmp). From inside a parallel region of the caller it uses the calling thread only."""


_MATRIX_ARGUMENTS = "lda, ldb and ldc are the distances between rows, in elements. The extents must be those above."
_PARTS = "\n   A complex number is two numbers side by side, the real part first."
_TENSOR_ARGUMENTS = """The elements of a row are adjacent, and rows any distance apart; without strides, rows follow one another.
   The extents must be those above. The object needs the C library's math functions (-lm) when it computes them in f64."""

FUNCTIONS = f"""\
Each function takes its arguments, and after them its results. Elements of a row are adjacent; rows of a matrix are any
   distance apart; what has more dimensions has no gaps, unless a memref's type says so. Without strides, elements follow one
   another. What is written overlaps nothing else.
   Returns {OK}; {WRONG_EXTENTS} when an extent is another; {OUT_OF_MEMORY} when there is no memory for what is computed on the way;
   {WRONG_OPERAND} when a tensor is of another type, rank or device, or has other strides; {WRONG_INDEX} when a table of attention
   names a row, a key or a page that there is not. The object needs the C library's math functions (-lm)."""
"""What a C header says of functions that take DLTensors."""

DLTENSOR = """
/* DLPack's DLTensor, for those who do not include its dlpack.h first. */
#if !defined(DLPACK_DLPACK_H_) && !defined(TILEWRIGHT_DLTENSOR)
#define TILEWRIGHT_DLTENSOR
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;
#endif
"""
"""What C headers declare of DLPack."""


def header(spec: MatmulSpec, target: Target, name: str, *, threads: int = 1) -> str:
    """The text of a header that declares the C entry `name` of a kernel for `spec`, which uses `threads` threads at most.

    Raises:
        SpecError: `name` is no C identifier.
    """
    require_name(name, "header")
    shared = OPENMP.format(threads=threads) if threads > 1 else ""
    made = computed(spec)
    tiles = _AMX if target.dot(*made.multiplied).is_tile else ""
    declarations = product(spec, name, f"{_needs(target)}{tiles}{shared}")
    return guarded(name, f"{spec}, for {target.name}", DLTENSOR if spec.takes_tensors else "", declarations)


def _needs(target: Target) -> str:
    return f"\n   The processor must have: {', '.join(sorted(target.features))}."


def product(spec: MatmulSpec, name: str, notes: str = "") -> str:
    """The declarations of the C entries of a product, with a comment that says what it computes, and ends with `notes`."""
    sum_ = _sum(spec)
    stored = f"{_stored(spec)}{_batch(spec)}{_open(spec)}{_PARTS if spec.a_stored.part else ''}"
    for operand, entries in (("A", spec.prologue_a), ("B", spec.prologue_b)):
        if entries:
            sum_ = f"{sum_}, {operand} made by {', '.join(map(str, entries))} first"
    if spec.epilogue:
        sum_ = f"{sum_}, finished by {', '.join(map(str, spec.epilogue))}"
    wrong = (
        f"; {WRONG_OPERAND} when a\n   tensor is of another type, rank or device, or has other strides"
        if spec.takes_tensors
        else ""
    )
    wrong += f"; {WRONG_INDEX} when an index is\n   out of range" if spec.gathers else ""
    return f"""\
/* {sum_}, with A of {spec.m} x {spec.k} {spec.a}, B of {spec.k} x {spec.n} {spec.b} and C of {spec.m} x {spec.n} {spec.c} elements.{stored}
   {_TENSOR_ARGUMENTS if spec.takes_tensors else _MATRIX_ARGUMENTS}
   Returns {OK}; {WRONG_EXTENTS} when they are not; {OUT_OF_MEMORY} when there is no memory for the packed panels{wrong}.{notes} */
{prototype(spec, name)};
{_packing(name) if spec.b_packed else ""}"""


def function(signature: Signature) -> str:
    """The declarations of the C entries of a module's function: its own, and those that pack what it takes packed."""
    packing = "".join(_packing(name, each) for name, each in packers(signature).items())
    return f"/* {signature} */\n{function_prototype(signature)};\n{packing}"


def guarded(name: str, title: str, types: str, declarations: str, cplusplus: str = "") -> str:
    """A header of declarations, which may be included twice, but not beside that of another kernel called `name`.

    Args:
        name: What tells the header from others.
        title: What its first line says of it.
        types: What comes before the declarations.
        declarations: Those of C.
        cplusplus: What follows them in C++.
    """
    guard, number = f"TILEWRIGHT_{name}_H", f"0x{zlib.crc32(f'{title}{declarations}'.encode()):08x}"
    return f"""/* Generated by tilewright: {title}. */
#ifndef {guard}
#define {guard} {number}

#include <stdint.h>
{types}
#ifdef __cplusplus
extern "C" {{
#endif

{declarations}
#ifdef __cplusplus
}}
#endif
{cplusplus}
#elif {guard} != {number}
#error "two kernels are called {name}: compile one of them under another name, with --name or write(..., name=)"
#endif
"""


def _sum(spec: MatmulSpec) -> str:
    """What is computed, before anything is said of prologues and an epilogue: "C = alpha * A * B + 0.5 * C"."""
    alpha, beta = (f"*{name}" if each == ARG else each for name, each in (("alpha", spec.alpha), ("beta", spec.beta)))
    product = "A * B" if alpha == 1 else f"{alpha} * A * B"
    if not spec.beta:
        return f"C = {product}"
    return f"C += {product}" if beta == 1 else f"C = {product} + {beta} * C"


def _stored(spec: MatmulSpec) -> str:
    """A comment that names the operands that are stored transposed; empty without any."""
    operands = (("A", spec.a_transposed, spec.a_shape), ("B", spec.b_transposed, spec.b_shape))
    which = [f"{name} as {shape[-2]} x {shape[-1]}" for name, transposed, shape in operands if transposed]
    conjugated = [name for name, how in zip("AB", spec.layout, strict=True) if how == "c"]
    also = f" Conjugated: {' and '.join(conjugated)}." if conjugated else ""
    return f"\n   Stored transposed: {' and '.join(which)} elements.{also}" if which else ""


def _open(spec: MatmulSpec) -> str:
    """A comment with the limits of dynamic extents; empty without any."""
    said = [
        f"{name if name in spec.dynamic else f'extent {name[1:]} of the batch'} is {size.words}"
        for name, size in spec.open.items()
    ]
    return f"\n   Of what is written ?, {', '.join(said)}." if said else ""


def _batch(spec: MatmulSpec) -> str:
    """The extents that come before a matrix's, and how far apart matrices may be; nothing without a batch."""
    if not spec.batch:
        return ""
    operands = (("A", spec.a_batch), ("B", spec.b_batch), ("C", spec.batch))
    leading = (f"{name} [{', '.join(map(str, extents or ()))}]" for name, extents in operands)
    return f"""
   A batch of {"x".join(map(str, spec.batch))}: leading extents {", ".join(leading)}. Strides along them may be any, those of
   C such that its matrices share no element, and 0 where matrices of A or B are the same."""


def _packing(name: str, argument: Parameter | None = None) -> str:
    """The declarations of what packs B, or an argument of a function."""
    pack, size = (each.format(name=name) for each in PACK_PROTOTYPES)
    what, means, extents = (
        "B",
        "b is what the first function below wrote to packed, and ldb means nothing",
        "those above",
    )
    if argument is not None:
        form = PackedFormat.from_header(bytes.fromhex(argument.format))
        what, extents = argument.name, f"k = {form.k} and n = {form.n}"
        means = f"of the tensor {argument.name}_, only the data is read, which the first function below wrote to packed"
    rows = "rows, of k elements," if argument is not None and argument.transposed else "rows"
    return f"""
/* {what} comes packed: {means}. The function above returns
   {WRONG_PACKING} when it was packed in another format. */

/* Packs {what}, a matrix whose {rows} lie ldb elements apart. packed has as many bytes as the second function says, best at a
   multiple of 64. Returns {OK}; {WRONG_EXTENTS} when the extents are not {extents}. */
{pack};

/* The bytes that a packed B takes; -1 when the extents are not those above. */
{size};
"""


def module_header(functions: Sequence[Signature], target: Target, *, threads: int = 1) -> str:
    """The text of a header that declares the C entries of a module's functions, which use `threads` threads at most."""
    names = [each.name for each in functions]
    shared = OPENMP.format(threads=threads) if threads > 1 else ""
    declared = "\n".join(map(function, functions))
    tiles = _AMX if "amx-tile" in target.features else ""
    declarations = f"/* {FUNCTIONS}{_needs(target)}{tiles}{shared} */\n\n{declared}"
    return guarded("_".join(names), f"{', '.join(names)}, for {target.name}", DLTENSOR, declarations)
