# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules: (spec, target, sizes) to a transform-dialect module.

`steps` has the helpers on handles, each other module one strategy, `blocking` the model that gives a strategy its sizes,
and `select` the choice of strategy. A strategy runs inside an active `ir.Context`.
"""
