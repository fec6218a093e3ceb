# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of operators that are compared, and how the results of each are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilewright.bench.attention import COMPARISON as ATTENTION
from tilewright.bench.attention.page import PAGE as ATTENTION_PAGE
from tilewright.bench.blas import NAME as BLAS
from tilewright.bench.blas.page import PAGE as BLAS_PAGE
from tilewright.bench.blas.page import PROGRAMS as PROGRAMS_PAGE
from tilewright.bench.blas.programs import NAME as PROGRAMS
from tilewright.bench.convolution import COMPARISON as CONVOLUTION
from tilewright.bench.convolution.page import PAGE as CONVOLUTION_PAGE
from tilewright.bench.models.measuring import NAME as MODELS
from tilewright.bench.models.page import PAGE as MODELS_PAGE
from tilewright.bench.operators.page import Page

PAGES: Mapping[str, Page] = MappingProxyType(
    {
        ATTENTION.name: ATTENTION_PAGE,
        CONVOLUTION.name: CONVOLUTION_PAGE,
        BLAS: BLAS_PAGE,
        PROGRAMS: PROGRAMS_PAGE,
        MODELS: MODELS_PAGE,
    }
)
"""By what results call the operator."""
