# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lab: a local web page to edit a schedule, step through what it does, and see the code, its cost and its numbers."""
