# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by outer products in SME's streaming mode."""
