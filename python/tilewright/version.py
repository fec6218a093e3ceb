# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The version, which is that of the wheel of calls too."""

from tilewright.standalone.version import VERSION as VERSION
