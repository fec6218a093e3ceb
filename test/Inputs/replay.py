# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles specs under schedules that are given as text: a line of JSON each on standard input, a line of digest or error each out."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import sys

from tilewright import targets
from tilewright.emit import gpu, operators, stages
from tilewright.errors import TilewrightError
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules.plan import Plan


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        spec = pickle.loads(base64.b64decode(request["spec"]))
        plan = Plan("replayed.mlir", None, text=request["schedule"], trusted=False, threads=request["threads"])
        card = targets.gpu(request["target"])
        try:
            if card is not None:
                built = gpu.build(spec, card, plan, {}, aligned=request["aligned"], boxed=request["boxed"])
                made = b"".join(each.object for each in built.passes)
            elif isinstance(spec, OperatorSpec):
                made = operators.compiled(spec, targets.get(request["target"]), plan).object
            else:
                made = stages.build(spec, targets.get(request["target"]), plan).object
            answer = hashlib.sha256(made).hexdigest()
        except TilewrightError as error:
            answer = f"error: {error}"
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
