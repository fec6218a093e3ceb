# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Emission: text or bytes of every stage, one file a format."""
