# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of all tests: hypothesis draws the same examples in every run, without a deadline."""

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow]  # what is slow is the machine
settings.register_profile("same", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--length", choices=("short", "long"), default="short", help="how much of what is generated runs")
    parser.addoption("--seed", type=int, default=0, help="the first seed of what is generated")
