# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedules of what is more than one product: attention, convolutions, chains, and the ops between products."""
