# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators and networks through torch.compile with our backend: `python test/outside/compiled [NAME…]`, with a Python that has torch.

Without an option each is compiled once and its results are judged. The exit status is 1 when one is wrong, or with --measure slower than
eager, Inductor and eager through torch.compile. Networks need torchvision and transformers too.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import judged
import operators

torch = judged.torch
_SLOW = 1 / 1.05
"""How fast beside the better of eager and Inductor a program has to be."""
_MEASURED = 4
"""The scale of what is measured: below, torch.compile's own cost of a call is most of it."""


def main(arguments: Sequence[str]) -> int:
    """Judges what is named."""
    parser = argparse.ArgumentParser(
        prog="compiled", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="an operator or a network; a last * stands for any rest"
    )
    parser.add_argument("--kernels", action="store_true", help="take every kernel, and compile nothing else")
    parser.add_argument(
        "--measure", action="store_true", help="time larger operators beside eager and Inductor, on one thread"
    )
    parser.add_argument("--scale", type=int, help="of the extents of operators")
    parser.add_argument("--networks", action="store_true", help="networks, too")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch._dynamo.config.allow_rnn = True
    if options.measure:
        torch.set_num_threads(1)
    wanted = [name.rstrip("*") if name.endswith("*") else f"{name} " for name in options.names]  # a type may follow
    ratios, allowed, failed = [], [], 0
    for name, make in _programs(options.scale or (_MEASURED if options.measure else 1), networks=options.networks):
        if wanted and not any(f"{name} ".startswith(each) for each in wanted):
            continue
        row = _judged(make, kernels=options.kernels, measure=options.measure)
        failed += bool(row["faults"])
        if "ratio" in row:
            ratios.append(row["ratio"])
            allowed.append(row["beside_uncompiled"])
        print(json.dumps({"name": name, **row}), flush=True)  # noqa: T201
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slow, slower = (sum(each < _SLOW for each in every) for every in (ratios, allowed))
        found = {"programs": len(ratios), "wrong": failed, "mean_ratio": round(mean, 3), "worst_ratio": min(ratios)}
        print(json.dumps({**found, "slow": slow, "slower_than_uncompiled": slower}))  # noqa: T201
        return 1 if failed or slower else 0
    return 1 if failed else 0


def _programs(scale: int, *, networks: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of each program, and what makes it."""
    for each in operators.operators(scale):
        for dtype in each.types:
            yield f"{each.name} {str(dtype).removeprefix('torch.')}", lambda each=each, dtype=dtype: each.program(dtype)
    if networks:
        import networks as of_networks

        of_networks.prepare()
        for each in of_networks.NETWORKS:
            yield each.name, each.program


def _judged(make: Callable[[], Any], *, kernels: bool, measure: bool) -> dict[str, Any]:
    """What came of a program."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graphs: list[Any] = []
    try:
        program = make()
        how = judged.by_kernels(graphs) if kernels else judged.backend.tilewright
        ours = torch.compile(program.call, backend=how)
        row: dict[str, Any] = {"faults": judged.faults(program, ours)}
        if kernels:
            nodes = [node for graph in graphs for node in graph.graph.nodes]
            row["kernels"] = sum("tilewright" in str(node.target) for node in nodes)
        row["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
        if measure:
            others = {name: torch.compile(program.call, backend=name) for name in ("inductor", "eager")}
            calls = {"ours": ours, "eager": program.call, "inductor": others["inductor"], "uncompiled": others["eager"]}
            spent = judged.seconds(program, calls)
            row["microseconds"] = {name: round(1e6 * each, 1) for name, each in spent.items()}
            best = min(spent["eager"], spent["inductor"])
            row["ratio"] = round(best / spent["ours"], 3)
            # torch.compile guards each call, which a backend cannot change: it adds that to eager even where nothing is compiled.
            row["beside_uncompiled"] = round(max(best, spent["uncompiled"]) / spent["ours"], 3)
    except Exception:
        return {"faults": [traceback.format_exc()]}
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
