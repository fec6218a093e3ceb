# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a product stops scaling, predicted: SUMMA on 16 to 4096 nodes of two networks, by a simulation of its messages.

    python examples/32_scaling.py                     # a table
    python examples/32_scaling.py --svg scaling.svg   # and a picture

A node multiplies 2 TFLOP/s here: 16 cores at what one core of Zen 4 was measured at. Say what yours does with --flops.
"""

import argparse
import math
from pathlib import Path

import tilewright as tw
from tilewright import distributed
from tilewright.bench import plot

WHOLE, BLOCK = 32768, 8192
NODES = [4**each for each in range(2, 7)]
CASES = {
    f"{WHOLE}³ in all": lambda side: WHOLE,
    f"{BLOCK}² of C a node": lambda side: BLOCK * side,
}


def main() -> None:
    """Prints the table, and draws it where a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--flops", type=float, default=2e12, help="operations that a node's kernel does in a second (2e12)"
    )
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    found = {}
    for network, figures in distributed.NETWORKS.items():
        for case, size in CASES.items():
            line = found[network, case] = []
            for nodes in NODES:
                side = math.isqrt(nodes)
                spec = tw.MatmulSpec(m=size(side), n=size(side), k=size(side))
                line.append(distributed.simulate(spec, (side, side), figures, flops=given.flops))
            parts = "  ".join(f"{each.nodes}: {each.efficiency:.2f}" for each in line)
            stops = next((each.nodes for each in line if each.efficiency < 0.5), None)
            print(f"{network:9} {case:19} {parts}  under half from {stops or 'nowhere here'}")
    if given.svg:
        drawn = plot.figure(7, 4)
        axes = drawn.add_subplot()
        for (network, case), line in found.items():
            style = "-" if case == next(iter(CASES)) else "--"
            color = plot.AHEAD if network == "aries" else plot.BEHIND
            axes.plot(
                NODES, [each.efficiency for each in line], style, color=color, marker="o", label=f"{network}, {case}"
            )
        axes.set_xscale("log", base=2, nonpositive="clip")
        axes.set_xticks(NODES, [str(each) for each in NODES])
        axes.set(xlabel="nodes", ylabel="part of the nodes' speed", ylim=(0, 1.02))
        axes.grid(color=plot.GRID)
        axes.legend(frameon=False, fontsize="small")
        plot.save(drawn, given.svg, f"simulated, {given.flops:g} FLOP/s a node")


if __name__ == "__main__":
    main()
