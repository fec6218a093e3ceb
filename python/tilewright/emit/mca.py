# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs llvm-mca on a hot loop: cycles, port pressure, and the distance from the FMA bound.

llvm-mca simulates a core from LLVM's scheduling model, with every load hitting L1 and every branch predicted. A target's row
names the model (`Target.model_cpu`): its core's own, or, where that does not start as many multiply-adds in a cycle as the core
does, the model of another core. A test compares every row with the models.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright.emit import tile_model
from tilewright.emit.assembly import Instruction
from tilewright.emit.hotloop import HotLoop
from tilewright.errors import TargetError
from tilewright.targets import dots
from tilewright.targets.base import Target

_LLVM_MAJOR = 22
_SIMULATED_INSTRUCTIONS = 10_000
_LEAST_ITERATIONS = 12
"""Of the longer one of two simulations. The shorter one has half as many, so that what fills the pipeline is in both and drops out."""
_TOTALS = ("-instruction-info=false", "-resource-pressure=false")
"""What has llvm-mca print the totals alone."""
_TIMEOUT_S = 120
_SCALABLE = "z"
"""What the names of AArch64's scalable registers begin with."""
# LLVM 22 writes the number of a unit ("Zn3FP45.1") as the character of that code.
_UNIT = re.compile(r"[\0-\x1f]")
_FMA, _LOAD = "vfmadd231ps", "vmovups"
# Instructions that a model has slower than the core, to one with the same operands that it has right. The README's figures of Zen 4 show
# it: peaks of vdpbf16ps and vpdpbusd as often as of multiply-adds, one a cycle, where LLVM 22 has one in three and in two; and 99 % of the
# peak by tiles with six broadcasts from memory for 24 multiply-adds, which LLVM has on the units of arithmetic.
_STAND_INS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "znver4": MappingProxyType(
            {
                "vpdpbusd": _FMA,
                "vdpbf16ps": _FMA,
                **dict.fromkeys(("vbroadcastss", "vbroadcastsd", "vpbroadcastd", "vpbroadcastq"), _LOAD),
            }
        )
    }
)

# Multiply-adds that start in a cycle for each one of floats that does. Half of the vector units multiply integers: Arm's
# Software Optimization Guides of Neoverse V1, N2 and V2, "ASIMD integer instructions".
_RATES: Mapping[str, float] = MappingProxyType({"mla": 0.5})


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """What the model says of one instruction of the loop.

    Attributes:
        latency: Cycles until its result can be used.
        throughput: Cycles between two of its kind in the long run.
        uops: Micro-operations.
    """

    latency: int
    throughput: float
    uops: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of a loop.

    Attributes:
        cpu: LLVM's name of the scheduling model.
        cycles: Cycles of an iteration in the long run.
        block_throughput: Cycles of an iteration as the resources alone allow, dependencies left out.
        ipc: Instructions a cycle.
        dispatch_width: Micro-operations that the core can dispatch in a cycle.
        pressure: Cycles of an iteration in which each resource (a port) is busy; those that are never busy are left out.
        bound: Cycles of an iteration if nothing but multiply-adds cost time, at the target's rate; 0 when there is none.
            Multiply-adds are dot products too, and products of tiles, as `tile_model` has them.
        costs: One entry an instruction.
        json: llvm-mca's JSON report of the shorter of two simulations.
        text: llvm-mca's report for people, with its analysis of the bottleneck; empty where nobody wants it.
        notes: What the model has otherwise than the core.
    """

    cpu: str
    cycles: float
    block_throughput: float
    ipc: float
    dispatch_width: int
    pressure: Mapping[str, float]
    bound: float
    costs: tuple[InstructionCost, ...]
    json: str
    text: str
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model in words: "znver4 model of LLVM 22"."""
        return f"{self.cpu} model of LLVM {_LLVM_MAJOR}"

    @property
    def percent_of_bound(self) -> float:
        """Percent of the multiply-add bound that the loop reaches."""
        return 100.0 * self.bound / self.cycles if self.cycles else 0.0


def find_tool(
    environ: Mapping[str, str] | None = None, *, name: str = "llvm-mca", package: str = f"llvm-{_LLVM_MAJOR}"
) -> Path:
    """The llvm-mca to use, or another program: that of the LLVM which LLVM_DIR names, or the one on PATH, versioned name first.

    Args:
        environ: The environment variables; None is the process's own.
        name: The program.
        package: The package that has it.

    Raises:
        TargetError: There is none.
    """
    environ = os.environ if environ is None else environ
    path = environ.get("PATH", os.defpath)
    if llvm := environ.get("LLVM_DIR"):
        # LLVM_DIR is the prefix, or the folder of its CMake files, which is three levels below.
        folders = [Path(llvm) / "bin", Path(llvm).absolute().parents[2] / "bin"] if Path(llvm).is_absolute() else []
        path = os.pathsep.join([*map(str, folders), path])
    for each in (f"{name}-{_LLVM_MAJOR}", name):
        if found := shutil.which(each, path=path):
            return Path(found)
    raise TargetError(
        f"{name} is not installed",
        expected=f"{name}-{_LLVM_MAJOR} or {name} on PATH",
        remedy=f"Install the package {package}, or set LLVM_DIR to an LLVM",
    )


def analyze(loop: HotLoop, target: Target, *, cpu: str | None = None, report: bool = True) -> Analysis:
    """Simulates the loop on a core of the target.

    Args:
        loop: The loop; its branches are taken to fall through in the order of the text.
        target: Gives the features and the rate of multiply-adds.
        cpu: The scheduling model, by LLVM's name; None is the target's.
        report: Whether the report for people is wanted, for which llvm-mca runs once more.

    Raises:
        TargetError: llvm-mca is absent, or cannot read the loop or simulate that processor.
    """
    tool = find_tool()
    cpu = cpu or model(target)
    # Instructions of tiles are left out: no model of LLVM's knows them.
    tiles = [tile_model.cost(each) for each in loop.instructions]
    others = [each for each, tile in zip(loop.instructions, tiles, strict=True) if tile is None]
    lines = [each.text.replace(each.mnemonic, _stand_in(each, cpu), 1) for each in others]
    lines[:0] = _settings(loop)
    half = max(_LEAST_ITERATIONS, _SIMULATED_INSTRUCTIONS // max(1, len(lines))) // 2
    command = _command(tool, target, cpu)
    wanted = [[*command, f"-iterations={half}", "-json"], [*command, f"-iterations={2 * half}", "-json", *_TOTALS]]
    if report:
        wanted.append([*command, f"-iterations={2 * half}", "-bottleneck-analysis"])
    with ThreadPoolExecutor() as threads:
        said, longer, *text = threads.map(lambda each: _run(each, lines), wanted)
    data = _parse(said, tool)
    summary = _summary(data)
    details: list[dict[str, Any]] = data["CodeRegions"][0]["InstructionInfoView"]["InstructionList"]
    costs = iter(InstructionCost(row["Latency"], row["RThroughput"], row["NumMicroOpcodes"]) for row in details)
    busy = tile_model.busy(loop)
    steady = (_summary(_parse(longer, tool))["TotalCycles"] - summary["TotalCycles"]) / half
    cycles = max(steady, tile_model.chain(loop), *busy.values())
    return Analysis(
        cpu=cpu,
        cycles=cycles,
        block_throughput=max(summary["BlockRThroughput"], *busy.values(), 0.0),
        ipc=len(loop.instructions) / cycles,
        dispatch_width=summary["DispatchWidth"],
        pressure=_pressure(data, len(details)) | busy,
        bound=_bound(loop, target),
        costs=tuple(next(costs) if tile is None else InstructionCost(*tile, 1) for tile in tiles),
        json=said,
        text="".join(text),
        notes=tuple(_notes(others, target, cpu)),
    )


def _settings(loop: HotLoop) -> list[str]:
    """What llvm-mca has to be told of RISC-V's vectors where an instruction before the loop has set it, as comments that it reads."""
    first = next((each for each in loop.instructions if each.element_bits), None)
    if first is None:
        return []
    group = f"M{int(first.group)}" if first.group >= 1 else f"MF{int(1 / first.group)}"
    return [f"# LLVM-MCA-RISCV-LMUL {group}", f"# LLVM-MCA-RISCV-SEW E{first.element_bits}"]


def _stand_in(instruction: Instruction, cpu: str) -> str:
    """The mnemonic that is analyzed instead of an instruction's; usually the same."""
    found = _STAND_INS.get(cpu, {}).get(instruction.mnemonic, instruction.mnemonic)
    return instruction.mnemonic if found == _LOAD and not instruction.reads_memory else found


def _notes(instructions: Iterable[Instruction], target: Target, cpu: str) -> Iterator[str]:
    """How the model differs from the target's core."""
    if cpu == target.model_cpu and target.model_note:
        yield target.model_note
    others = {each.mnemonic: stand_in for each in instructions if (stand_in := _stand_in(each, cpu)) != each.mnemonic}
    if others:
        named = ", ".join(f"{mnemonic} as {stand_in}" for mnemonic, stand_in in others.items())
        yield f"{cpu} of LLVM {_LLVM_MAJOR} has some instructions slower than the core: analyzed are {named}"


def _bound(loop: HotLoop, target: Target) -> float:
    """Cycles of an iteration in which only multiply-adds cost time, each at the target's rate for its kind."""
    if loop.tile_products:
        return tile_model.bound(loop)
    fused = loop.fma > 0
    counted = [each for each in loop.instructions if (each.fma if fused else each.multiply)]
    rates = {
        **_RATES,
        **{row.name: row.rate(adds_apart=target.adds_apart) for row in dots.FAMILIES.get(target.family, ())},
    }
    # Wider vectors take several of the units that fixed ones take one of.
    fixed, scalable = (
        target.fma_per_cycle,
        target.fma_per_cycle * target.vector_bits / max(target.scalable_bits, target.vector_bits),
    )
    return sum(
        each.group / ((scalable if each.destination.startswith(_SCALABLE) else fixed) * rates.get(each.mnemonic, 1.0))
        for each in counted
    )


def model(target: Target) -> str:
    """LLVM's name of the scheduling model that explains the target's kernels."""
    return target.model_cpu or target.tune_cpu


def _command(tool: Path, target: Target, cpu: str) -> list[str]:
    """llvm-mca with the options that say for what machine."""
    return [str(tool), f"-mtriple={target.triple}", f"-mcpu={cpu}", f"-mattr={target.feature_string}"]


def _run(command: Sequence[str], lines: Sequence[str]) -> str:
    """Gives the lines to llvm-mca, and returns what it prints.

    Raises:
        TargetError: It fails.
    """
    text = "".join(f"{line}\n" for line in lines)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"llvm-mca could not be run: {error}", where=command[0]) from error
    if done.returncode != 0:
        message = next((line for line in done.stderr.splitlines() if "error" in line), f"exit status {done.returncode}")
        raise TargetError(f"llvm-mca failed: {message}", where=command[0], remedy=f"It needs LLVM {_LLVM_MAJOR}")
    return done.stdout


def _parse(report: str, tool: Path) -> dict[str, Any]:
    """The JSON report as data.

    Raises:
        TargetError: It is not JSON.
    """
    try:
        data: dict[str, Any] = json.loads(report)
    except ValueError as error:
        raise TargetError("llvm-mca printed no JSON", where=str(tool), remedy=f"It needs LLVM {_LLVM_MAJOR}") from error
    return data


def _summary(data: Mapping[str, Any]) -> dict[str, Any]:
    return data["CodeRegions"][0]["SummaryView"]


def _pressure(data: Mapping[str, Any], instructions: int) -> dict[str, float]:
    """Busy cycles of an iteration by resource. The report has the totals under the index after the last instruction."""
    names = [_UNIT.sub(lambda found: str(ord(found[0])), name) for name in data["TargetInfo"]["Resources"]]
    rows: list[dict[str, Any]] = data["CodeRegions"][0]["ResourcePressureView"]["ResourcePressureInfo"]
    totals = [row for row in rows if row["InstructionIndex"] == instructions]
    return {names[row["ResourceIndex"]]: row["ResourceUsage"] for row in totals}
