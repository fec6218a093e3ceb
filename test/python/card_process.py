# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stands in for the processes of ``bench card``: the one with a card and those that compile, which fail as tests ask."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tilewright.bench.card.plan import Kernel
from tilewright.bench.card.plan_operators import Operator
from tilewright.bench.card.worker import Broken


def serve(folder: Path, tell: Connection) -> None:
    if (folder / "refused").exists():
        tell.send(("refused", "there is no card"))
        return
    tell.send(("ready", None))
    while True:
        _, (what,) = tell.recv()
        tell.send(("at", f"ours {what}"))
        if what == "hang":
            time.sleep(60)
        if what == "die":
            print("its last words", flush=True)  # noqa: T201 - what a process says when it ends
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "lose":
            tell.send(("broken", Broken(f"ours {what}", "an error of the card")))
            return
        tell.send(("done", {"right": True}))


def compiled(folder: Path, kernel: Kernel | Operator, exact: bool) -> str:
    """Two of the types end their process, one is refused."""
    if kernel.types in ("f16", "i8"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "refused" if kernel.types == "bf16" else ""


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as connection:
        serve(Path(sys.argv[2]), connection)
