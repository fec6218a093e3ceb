# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the lab's examples, every strategy and target among them: lines known, seconds from an edit to the code, and size of the export.

Writes docs/reference/results/lab.csv. Attribution and sizes are the same on every machine with the same version of LLVM; times are of a
machine that does nothing else.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tilewright.bench import machine
from tilewright.emit.child import Limits
from tilewright.lab import page, samples, sandbox
from tilewright.lab.compiler import Compiler
from tilewright.lab.problem import read
from tilewright.lab.samples import Sample

FILE = Path(__file__).parents[2] / "docs/reference/results/lab.csv"
GROUPS = ("strategies", "gpus", "operators", "targets")
COLUMNS = ("group", "example", "target", "hot loop's instructions with a line, %", "edit to code, s", "page, KiB")
_RUNS = int(os.environ.get("RUNS", "3"))
_LIMITS = Limits(120, 4096)
_PAGE = "a page"


def main(wanted: list[str]) -> int:
    """Measures the examples whose names are given, or all; writes the file where all were."""
    chosen = [each for each in samples.all() if each.group in GROUPS and (not wanted or each.name in wanted)]
    rows = []
    with Compiler(sandbox.find(), _LIMITS) as compiler:
        for sample in chosen:
            row = _row(compiler, sample)
            print(*row, sep=", ", flush=True)
            rows.append(row)
    if not wanted:
        _write(rows)
        print(f"wrote {FILE}")
    return 0


def _row(compiler: Compiler, sample: Sample) -> tuple[object, ...]:
    """What is measured of one example."""
    asked: dict[str, Any] = {**sample.product, "language": sample.language, "text": sample.text}
    if sample.strategy:
        strategy = "" if sample.strategy == "chosen" else sample.strategy
        asked |= {"text": _answer(compiler, "text", asked | {"strategy": strategy})["text"], "language": "mlir"}
    answers = [_answer(compiler, "compile", asked) for _ in range(_RUNS)]
    answer, trace = answers[0], _answer(compiler, "trace", asked)
    file = page.fitting({"problem": asked, "answer": answer, "trace": trace, "ran": None})
    seconds = statistics.median(each["took"] for each in answers)
    target = sample.product.get("target", "host")
    return sample.group, sample.name, target, _attributed(answer), f"{seconds:.2f}", round(len(file.encode()) / 1024)


def _attributed(answer: Mapping[str, Any]) -> str:
    """The share of a hot loop's instructions that know a line of a schedule; empty where there is no hot loop."""
    hot = answer["hot"]
    if hot is None:
        return ""
    known = sum(bool(each["origin"]) for each in hot["instructions"])
    return f"{100 * known / len(hot['instructions']):.0f}"


def _answer(compiler: Compiler, kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    answer = compiler.answer(kind, read(dict(asked)), _PAGE)
    if answer.get("error"):
        raise SystemExit(
            f"{asked.get('target', 'host')} {asked.get('shape') or asked['fields']}: {answer['error']['text']}"
        )
    return answer


def _write(rows: list[tuple[object, ...]]) -> None:
    """The file: when and where, then a row for each example."""
    load = f"load average {os.getloadavg()[1]:.1f}, this program's own included"
    lines: Iterator[tuple[object, ...]] = iter(
        [
            ("measured", datetime.now(timezone.utc).strftime("%Y-%m-%d"), machine.describe(), machine.version(), load),
            COLUMNS,
            *rows,
        ]
    )
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
