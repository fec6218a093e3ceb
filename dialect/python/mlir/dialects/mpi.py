# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialect mpi: message passing."""

from ._mpi_ops_gen import *  # noqa: F403
