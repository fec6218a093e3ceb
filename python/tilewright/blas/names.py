# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of a BLAS, for Fortran and for C.

Source: netlib's reference BLAS and CBLAS 3.12.
"""

from __future__ import annotations

SONAME = "libblas.so.3"
"""What programs that were linked with a BLAS look for."""

_BOTH = (
    "rotg:sdcz rotmg:sd rot:sd rotm:sd swap:sdcz scal:sdcz copy:sdcz axpy:sdcz dot:sd gbmv:sdcz gemv:sdcz hemv:cz hbmv:cz hpmv:cz "
    "symv:sd sbmv:sd spmv:sd trmv:sdcz tbmv:sdcz tpmv:sdcz trsv:sdcz tbsv:sdcz tpsv:sdcz ger:sd geru:cz gerc:cz her:cz hpr:cz her2:cz "
    "hpr2:cz syr:sd spr:sd syr2:sd spr2:sd gemm:sdcz gemmtr:sdcz symm:sdcz hemm:cz syrk:sdcz herk:cz syr2k:sdcz her2k:cz trmm:sdcz "
    "trsm:sdcz"
)
"""Routines and their letters, called alike from Fortran and from C."""
_BOTH_IN_FULL = (
    "csrot zdrot csscal zdscal sdsdot dsdot snrm2 dnrm2 scnrm2 dznrm2 sasum dasum scasum dzasum "
    "isamax idamax icamax izamax scabs1 dcabs1"
)
_FORTRAN = "cdotu zdotu cdotc zdotc lsame xerbla_array"
_C = "cdotu_sub zdotu_sub cdotc_sub zdotc_sub"


def every() -> list[str]:
    """Every symbol of a BLAS and of its C interface but the handlers of errors."""
    rows = [each.split(":") for each in _BOTH.split()]
    both = [letter + routine for routine, letters in rows for letter in letters] + _BOTH_IN_FULL.split()
    return [
        *(f"{name}_" for name in (*both, *_FORTRAN.split())),
        *(f"cblas_{name}" for name in (*both, *_C.split())),
    ]


def fallbacks(architecture: str) -> list[str]:
    """The files that an installed BLAS may be, the fastest first, as distributions lay them out."""
    folder = f"/usr/lib/{architecture}-linux-gnu"
    return [
        f"{folder}/openblas-pthread/{SONAME}",
        "libopenblas.so.0",
        f"{folder}/blis-pthread/{SONAME}",
        "libblis.so.4",
        f"{folder}/blas/{SONAME}",
        f"/usr/lib64/{SONAME}",
        SONAME,
    ]
