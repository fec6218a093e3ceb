# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Emission: makes text or bytes of every stage, with one file a format."""
