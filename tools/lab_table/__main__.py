# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the lab's examples, every strategy and target among them: lines known, seconds from an edit to the code, and size of the export.

Writes docs/reference/results/lab.csv and, where there is a browser, the pictures of the lab in docs. Lines are of the hot loop's
instructions, on GPUs of all that a kernel has. Attribution and sizes are the same on every machine with the same version of LLVM;
times are the least of five, of a machine that does nothing else.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pictures
from tilewright import targets
from tilewright.bench import machine
from tilewright.emit.child import Limits
from tilewright.lab import analysis, page, samples, sandbox
from tilewright.lab.compiler import Compiler
from tilewright.lab.problem import read
from tilewright.lab.samples import Sample

FILE = Path(__file__).parents[2] / "docs/reference/results/lab.csv"
_KEPT = Path(__file__).parents[2] / "build/bench/lab.json"
"""What is measured so far."""
Row = tuple[object, ...]
GROUPS = ("strategies", "gpus", "operators", "targets")
COLUMNS = ("group", "example", "target", "instructions with a line, %", "edit to code, s", "page, KiB")
_RUNS = 5
_INSTRUCTION = {
    "sass": re.compile(r"\s+/\*[0-9a-f]{4,}\*/"),
    "asm": re.compile(r"\t[a-z]"),
    "spirv": re.compile(r".*\bspirv\.(?!module|func)"),
}
"""By stage, the lines that are instructions."""
_LIMITS = Limits(120, 4096)
_REST = 2.0
"""Seconds in which children start."""
_PAGE = "a page"


def main(wanted: list[str]) -> int:
    """Measures the examples, or groups of them, whose names are given, or all; writes the file as soon as each was measured.

    What was measured of the same sources on the same machine is not measured again: an interrupted run continues.
    """
    every = [each for each in samples.all() if each.group in GROUPS]
    rows = _measured()
    with Compiler(sandbox.find(), _LIMITS) as compiler:
        for sample in every:
            if sample.name in rows or (wanted and sample.name not in wanted and sample.group not in wanted):
                continue
            rows[sample.name] = _row(compiler, sample)
            print(*rows[sample.name], sep=", ", flush=True)
            _keep(rows)
    if len(rows) == len(every):
        _write([rows[each.name] for each in every])
        _KEPT.unlink()
        print("wrote", FILE, *pictures.take())
    return 0


def _measured() -> dict[str, Row]:
    """By example, what an interrupted run measured."""
    try:
        kept = json.loads(_KEPT.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: tuple(row) for name, row in kept["rows"].items()} if kept["of"] == _what() else {}


def _keep(rows: Mapping[str, Row]) -> None:
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    _KEPT.write_text(json.dumps({"of": _what(), "rows": rows}), encoding="utf-8")


def _what() -> list[str]:
    """Of which sources, on which machine."""
    return [machine.version(), machine.describe()]


def _row(compiler: Compiler, sample: Sample) -> Row:
    """What is measured of one example."""
    asked: dict[str, Any] = {**sample.product, "language": sample.language, "text": sample.text}
    if sample.strategy:
        strategy = "" if sample.strategy == "chosen" else sample.strategy
        asked |= {"text": _answer(compiler, "text", asked | {"strategy": strategy})["text"], "language": "mlir"}
    answers = [_rested(compiler, asked) for _ in range(_RUNS)]
    answer = answers[0]
    if "cubin" in answer:
        card = targets.gpu(sample.product["target"])
        assert card is not None
        analysis.add_machine(answer, analysis.machine(answer["cubin"], card))
    trace = _answer(compiler, "trace", asked)
    file = page.fitting({"problem": asked, "answer": answer, "trace": trace, "ran": None})
    seconds = min(each["took"] for each in answers)
    target = sample.product.get("target", "host")
    return sample.group, sample.name, target, _attributed(answer), f"{seconds:.2f}", round(len(file.encode()) / 1024)


def _rested(compiler: Compiler, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is compiled after an edit that comes when children that wait for the next ones have started, on a machine that is awake.

    A virtual machine that slept runs at half of its speed for half a second.
    """
    end = time.perf_counter() + _REST
    while time.perf_counter() < end:
        pass
    return _answer(compiler, "compile", asked)


def _attributed(answer: Mapping[str, Any]) -> str:
    """The share of instructions that know a line of a schedule: a hot loop's, on GPUs all; empty where there are none."""
    hot = answer["hot"]
    known = [each["origin"] for each in hot["instructions"]] if hot else list(_places(answer))
    return f"{100 * sum(map(bool, known)) / len(known):.0f}" if known else ""


def _places(answer: Mapping[str, Any]) -> Iterator[str]:
    """The places of the instructions of a GPU's kernel."""
    packed, code = answer["texts"], answer["code"]
    for number in packed["texts"][answer["stages"][code]]:
        text, place = packed["lines"][number]
        if code in _INSTRUCTION and _INSTRUCTION[code].match(text):
            yield packed["sources"][place]


def _answer(compiler: Compiler, kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    answer = compiler.answer(kind, read(dict(asked)), _PAGE)
    if answer.get("error"):
        raise SystemExit(
            f"{asked.get('target', 'host')} {asked.get('shape') or asked['fields']}: {answer['error']['text']}"
        )
    return answer


def _write(rows: list[Row]) -> None:
    """The file: when and where, then a row for each example."""
    load = f"load average {os.getloadavg()[1]:.1f}, this program's own included"
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = [("measured", when, machine.describe(), machine.version(), load), COLUMNS, *rows]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
