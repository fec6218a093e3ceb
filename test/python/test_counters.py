# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The processor's counters: what is counted of a call, and what is said where nothing can be."""

from __future__ import annotations

import errno
import os
import time

import pytest
from tilewright.bench import counters
from tilewright.errors import TargetError
from tilewright.lab import verdict
from tilewright.targets import registry

STEPS = {(0, 0): 1000.0, (0, 1): 3000.0, (3, 0x10000): 20.0, (3, 0x10002): 2.0, (0, 3): 5.0}
"""What each event of a made-up processor counts in a call."""
CLOCK = (1, 1)
"""A clock of the kernel's: the only event that a machine without counters has."""


class Fake:
    """A counter of a made-up processor."""

    def __init__(self, kind: int, number: int) -> None:
        self.step = STEPS[kind, number]
        self.running = self.closed = False
        self.calls = 0

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def count(self) -> float:
        assert not self.running
        return self.step * self.calls

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def processor():
    """How its counters are opened, those that are, and what they count."""
    made: list[Fake] = []

    def opened(kind: int, number: int) -> Fake:
        made.append(Fake(kind, number))
        return made[-1]

    def call() -> None:
        for each in made:
            each.calls += each.running

    return opened, made, call


def test_a_call_has_cycles_instructions_and_bytes(processor):
    opened, made, call = processor
    call()  # Before it starts: not counted.
    found = counters.count(call, 5, line=64, last="L3", vendor="GenuineIntel", opened=opened)
    assert (found.cycles, found.instructions) == (1000, 3000)
    assert found.beyond == {"L1": 20 * 64, "L3": 2 * 64}
    assert len(made) == 4
    assert all(each.closed for each in made)


def test_amd_counts_misses_of_l2_and_not_of_l3(processor):
    opened, made, call = processor

    def lacks_the_last(kind: int, number: int) -> Fake:
        if number == 0x10002:
            raise OSError(errno.ENOENT, "")
        return opened(kind, number)

    found = counters.count(call, 1, line=64, last="L3", vendor="AuthenticAMD", opened=lacks_the_last)
    assert found.beyond == {"L1": 20 * 64, "L2": 5 * 64}
    assert all(each.closed for each in made)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "virtual machines"),
        (errno.EACCES, "perf_event_paranoid"),
        (errno.EPERM, "forbids it"),
        (errno.ENOSYS, "no perf_event_open"),
        (errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
)
def test_what_cannot_be_counted_says_why(processor, number, said):
    opened, made, call = processor

    def fails_later(kind: int, event: int) -> Fake:
        if made:
            raise OSError(number, os.strerror(number))
        return opened(kind, event)

    with pytest.raises(TargetError, match=said):
        counters.count(call, 1, line=64, last="L3", vendor="", opened=fails_later)
    assert [each.closed for each in made] == [True]


def test_the_kernel_counts():
    """By the one event that needs no counter of the processor: nanoseconds of this thread."""
    event = counters._Event
    try:
        event(*CLOCK).close()
    except OSError as error:
        pytest.skip(f"perf_event_open: {error}")

    def busy() -> None:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    found = counters.count(busy, 3, line=64, last="L3", vendor="", opened=lambda *_: event(*CLOCK))
    assert 1e6 < found.cycles < 1e8


def test_a_page_gets_what_was_counted_or_why_not(processor, monkeypatch):
    opened, _made, call = processor
    monkeypatch.setattr(verdict, "vendor", lambda: "GenuineIntel")
    target = registry.get("x86-64-v3")
    found = verdict.counted(call, 4, target, threads=1, opened=opened)
    assert found == {"counted": {"cycles": 1000, "instructions": 3000, "beyond": {"L1": 1280, "L3": 128}}}
    assert "one thread" in verdict.counted(call, 4, target, threads=2, opened=opened)["not_counted"]

    def absent(*_: int) -> Fake:
        raise OSError(errno.ENOENT, "")

    assert "virtual machines" in verdict.counted(call, 4, target, threads=1, opened=absent)["not_counted"]
