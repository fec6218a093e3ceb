# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the C header of a library, with what it has more in C++: typed functions, and one that finds the kernel for a product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilewright.dims import Dim
from tilewright.emit import header
from tilewright.libraries.dispatch import CAP
from tilewright.libraries.kernels import Kernel
from tilewright.payload.abi import OK, UNKNOWN_LEVEL, UNSUPPORTED, WRONG_EXTENTS
from tilewright.spec import MatmulSpec

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "f32": "float",
        "f64": "double",
        "i8": "std::int8_t",
        "u8": "std::uint8_t",
        "i32": "std::int32_t",
        "c64": "std::complex<float>",
        "c128": "std::complex<double>",
        "f16": "f16",
        "bf16": "bf16",
    }
)
"""C++'s types of elements; bytes of others."""
_BITS = ("f16", "bf16")
"""Those that C++ has no type for before C++23."""
_PARAMETERS = (
    "std::int64_t m, std::int64_t n, std::int64_t k, const {a} *a, std::int64_t lda, const {b} *b, std::int64_t ldb, "
    "{c} *c, std::int64_t ldc"
)
_ARGUMENTS = "m, n, k, a, lda, b, ldb, c, ldc"

_POOL = """
/* A pool of threads: calls task(data, 0), ... task(data, count - 1), each once, in any order and on any threads, at once or one after
   the other, and returns when all have returned. */
typedef void (*{library}_run)(void *pool, int32_t count, void (*task)(void *data, int32_t index), void *data);

/* From now on, a kernel with work enough splits it into as many tasks as threads says, {threads} at most, which run(pool, ...) runs.
   Before, and with NULL, the calling thread does all. So does a kernel that a thread of the pool calls: run has to
   allow that, or tasks of the program have to call no such kernel. No other thread may call a kernel meanwhile. */
void {library}_set_pool({library}_run run, void *pool, int32_t threads);
"""


def text(
    library: str, kernels: Sequence[Kernel], levels: Sequence[str], *, threads: int, own_pool: bool = False
) -> str:
    """The header of a library.

    Args:
        library: Its name.
        kernels: Its kernels.
        levels: The targets that it has code for, of all architectures.
        threads: Most threads that a call uses.
        own_pool: Whether the program gives a pool for them.
    """
    selected = [f"const char *{kernel.name}_selected(void);" for kernel in kernels]
    declared = [f"{_declaration(kernel)}{chosen}\n" for kernel, chosen in zip(kernels, selected, strict=True)]
    functions = f"/* Functions that take DLTensors: {header.FUNCTIONS[0].lower()}{header.FUNCTIONS[1:]} */\n\n"
    openmp = header.OPENMP.format(threads=threads) if threads > 1 and not own_pool else ""
    pool = _POOL.format(library=library, threads=threads) if threads > 1 and own_pool else ""
    tensors = any(kernel.signatures or _takes_tensors(kernel) for kernel in kernels)
    declarations = f"""\
/* Every kernel has code for some of {", ".join(levels)}, and takes the best that the processor runs, at its first call. It
   returns {UNSUPPORTED} where none does. NAME_selected() names the target of the code that the kernel NAME takes; NULL where there is none.
   The environment variable {CAP} names the highest target whose instructions may be used, and so does the function
   below; where the variable names no target, every kernel returns {UNSUPPORTED}.{openmp} */

/* The best target of this library that the processor runs; NULL where there is none. */
const char *{library}_selected(void);

/* From now on, kernels use no instructions but those of the target of this name; NULL: those that the environment allows.
   Returns {OK}, or {UNKNOWN_LEVEL} when no target is called so. No other thread may call a kernel meanwhile. */
int32_t {library}_isa(const char *level);
{pool}
{functions if any(kernel.signatures for kernel in kernels) else ""}{chr(10).join(declared)}"""
    types = header.DLTENSOR if tensors else ""
    return header.guarded(library, f"the library {library}", types, declarations, _cplusplus(library, kernels))


def _takes_tensors(kernel: Kernel) -> bool:
    return isinstance(kernel.source, MatmulSpec) and kernel.source.takes_tensors


def _declaration(kernel: Kernel) -> str:
    """What C sees of a kernel."""
    if isinstance(kernel.source, MatmulSpec):
        return header.product(kernel.source, kernel.name)
    return "\n".join(map(header.function, kernel.signatures))


def _cplusplus(library: str, kernels: Sequence[Kernel]) -> str:
    """The part of the header for C++; nothing where no kernel takes pointers to elements."""
    plain = {
        each.name: each.source for each in kernels if isinstance(each.source, MatmulSpec) and _is_matrices(each.source)
    }
    if not plain:
        return ""
    structs = "".join(f"struct {each} {{ std::uint16_t bits; }};\n" for each in _BITS)
    typed = "".join(
        f"inline std::int32_t {name}({_parameters(spec)}) {{ return ::{name}({_arguments(spec)}); }}\n"
        for name, spec in plain.items()
    )
    return f"""
#ifdef __cplusplus
#include <complex>
#include <cstdint>

namespace {library} {{
/* Elements of types that C++ does not have. */
{structs}
/* The kernels, with pointers to elements. */
{typed}{_found(plain)}}}
#endif
"""


def _found(plain: Mapping[str, MatmulSpec]) -> str:
    """``matmul`` for each three element types, which calls the kernel of the extents; a static one where there is one."""
    groups: dict[str, list[tuple[str, MatmulSpec]]] = {}
    for name, spec in sorted(plain.items(), key=lambda item: len(item[1].dynamic)):
        if spec == MatmulSpec(spec.m, spec.n, spec.k, a=spec.a, b=spec.b, c=spec.c, acc=spec.acc):
            groups.setdefault(_parameters(spec), []).append((name, spec))
    made = []
    for parameters, found in groups.items():
        cases = "".join(f"  if ({_fits(spec)}) return ::{name}({_ARGUMENTS});\n" for name, spec in found)
        made.append(f"inline std::int32_t matmul({parameters}) {{\n{cases}  return {WRONG_EXTENTS};\n}}\n")
    if not made:
        return ""
    return f"\n/* C = A * B by the kernel for these extents; {WRONG_EXTENTS} where the library has none. */\n{''.join(made)}"


def _is_matrices(spec: MatmulSpec) -> bool:
    """Whether a kernel's entry takes pointers to three matrices, and to factors at most."""
    return not (spec.b_packed or spec.takes_tensors)


def _parameters(spec: MatmulSpec) -> str:
    types = {"a": spec.a_stored, "b": spec.b_stored, "c": spec.c_type}
    matrices = _PARAMETERS.format(**{name: _TYPES.get(each.name, "std::uint8_t") for name, each in types.items()})
    return ", ".join([matrices, *(f"const {_TYPES[each.type.name]} *{each.name}" for each in spec.scalars)])


def _arguments(spec: MatmulSpec) -> str:
    return ", ".join([_ARGUMENTS, *(each.name for each in spec.scalars)])


def _fits(spec: MatmulSpec) -> str:
    """A condition on m, n and k, in C++."""
    conditions = []
    for name in ("m", "n", "k"):
        size = getattr(spec, name)
        if not isinstance(size, Dim):
            conditions.append(f"{name} == {size}")
            continue
        whole = Dim()
        conditions += [f"{name} >= {size.min}"] * (size.min > whole.min) + [f"{name} <= {size.max}"] * (
            size.max < whole.max
        )
        conditions += [f"{name} % {size.multiple} == 0"] * (size.multiple > 1)
    return " && ".join(conditions) or "true"
