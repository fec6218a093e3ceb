# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records of measured choices: what was tried for a spec on a machine, how long it took, and which choice won."""
