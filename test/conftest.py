# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of all tests: the same examples of hypothesis in every run, without a deadline; the longest files first; no measured choices.

A long run says at its end which files took longest.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What was measured on this machine is not to decide what is tested.
os.environ["TILEWRIGHT_NO_RECORDS"] = "1"

_SLOW = [HealthCheck.too_slow]  # what is slow is the machine
settings.register_profile("same", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--length", choices=("short", "long"), default="short", help="how much of what is generated runs")
    parser.addoption("--seed", type=int, default=0, help="the first seed of what is generated")


LONGEST = (
    "frameworks",
    "generated",
    "examples",
    "bisect",
    "docs",
    "pack_b",
    "replay",
    "layouts",
    "type_cells",
    "fusion",
    "kernel_types",
)
"""Files that took more than 70 s of a core each, of 3,356 s of all. A worker that came to one last would run it alone."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("randomly"):
        return
    first = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    assert all((Path(__file__).parent / "python" / name).exists() for name in first), "a file of LONGEST is gone"
    items.sort(key=lambda item: first.get(item.path.name, len(first)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says of a long run how long the slowest files took, so that it is known what to make faster, and what `LONGEST` should name."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if (total := sum(seconds.values())) > 600:
        terminalreporter.section(f"seconds of the 40 slowest files, of {total:.0f} of all")
        for name, each in sorted(seconds.items(), key=lambda item: -item[1])[:40]:
            terminalreporter.write_line(f"{each:7.1f} {name}")
