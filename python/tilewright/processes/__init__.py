# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Child processes: starts them, talks to them and ends them; a leaf that every stage may import."""
