# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A schedule of attention of one's own: a few drafted tokens at a time, with vectors along the head and blocks of 32 keys."""

from dataclasses import replace

import numpy as np
import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.decisions import OnlineSoftmax


def drafted(spec: tw.AttentionSpec, target: tw.Target, sizes: OnlineSoftmax) -> ir.Module:
    """Takes the heads that share keys together, so that each key is read once for all of their queries."""
    along_head = replace(sizes, kc=32, mr=1, nr=1, columns=1, merged=True, vectorize="head")
    with steps.script() as script:
        steps.decide(steps.match(script.functions, "linalg.softmax"), along_head)
    return script.module


spec = tw.AttentionSpec(queries=5, keys=None, head=64, heads=8, kv_heads=2, causal="lower_right")
rng = np.random.default_rng(0)
q, k, v = (rng.normal(size=(heads, rows, 64)).astype(np.float32) for heads, rows in ((8, 5), (2, 300), (2, 300)))
exact, bound = tw.reference(spec, q, k, v), tw.error_bound(spec, q, k, v)
for name, kernel in (("chosen", tw.compile(spec)), ("own", tw.compile(spec, schedule=drafted))):
    right = (np.abs(kernel(q, k, v) - exact) <= bound).all()
    print(f"{name}: {kernel.metadata.parameters['products'][0]}, {'right' if right else 'wrong'}")
