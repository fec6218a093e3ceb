# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who takes part in a shape, and what happens to a peer that fails."""

import pytest
from tilewright.bench import Rates, Shape, team
from tilewright.bench.peers import PEERS
from tilewright.bench.team import Team
from tilewright.errors import TilewrightError

CUBE = Shape(64, 64, 64)


class Process:
    """Stands in for a peer's process; those named in `broken` do not start."""

    broken = frozenset({"mkl"})
    started: list[str] = []  # noqa: RUF012
    closed: list[str] = []  # noqa: RUF012

    def __init__(self, peer, threads, cores):
        if peer.name in self.broken:
            raise TilewrightError("libfoo is missing", where=f"peer {peer.name}")
        self.name = peer.name
        self.started.append(peer.name)

    def close(self):
        self.closed.append(self.name)


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    monkeypatch.setattr(team, "PeerProcess", Process)
    Process.started.clear()
    Process.closed.clear()


def made(*names, demanded=False):
    return Team([PEERS[name] for name in names], 1, (0,), demanded=demanded)


def test_members_have_their_own_types_and_the_others_a_reason():
    members, absent = made("numpy", "mkl", "onednn", "xla").members(CUBE, "bf16", packed=False)
    assert {name: types for name, (_, types) in members.items()} == {
        "onednn": "bf16,bf16,bf16",
        "xla": "bf16,bf16,f32",
    }
    assert absent == {"numpy": "it has no product of bf16", "mkl": "peer mkl: libfoo is missing"}


def test_only_who_packs_ahead_takes_part_in_that():
    members, absent = made("numpy", "onednn").members(CUBE, "f32", packed=True)
    assert list(members) == ["onednn"]
    assert absent == {"numpy": "it has no product of f32 with B packed ahead of time"}


def test_one_that_fails_is_started_anew_for_the_next_shape():
    some = made("numpy")
    assert some.fail("numpy", TilewrightError("it hung", where="peer numpy")) == "peer numpy: it hung"
    assert Process.closed == ["numpy"]
    assert list(some.members(CUBE, "f32", packed=False)[0]) == ["numpy"]
    assert Process.started == ["numpy", "numpy"]
    some.close()
    assert Process.closed == ["numpy", "numpy"]


def test_one_that_was_demanded_may_not_fail():
    with pytest.raises(TilewrightError, match="libfoo is missing"):
        made("numpy", "mkl", demanded=True)
    assert Process.closed == ["numpy"]
    with pytest.raises(TilewrightError, match="it hung"):
        made("numpy", demanded=True).fail("numpy", TilewrightError("it hung"))


def test_one_that_was_always_far_behind_is_not_waited_for():
    some = made("numpy", "onednn")
    some.remember("numpy", Rates((1.0,)), Rates((100.0,)))
    some.remember("onednn", Rates((50.0,)), Rates((100.0,)))
    large = Shape(4096, 4096, 4096)
    members, absent = some.members(large, "f32", packed=False)
    assert list(members) == ["onednn"]
    assert "too slow: at most 1.0 GFLOP/s" in absent["numpy"]
    assert "numpy" in some.members(CUBE, "f32", packed=False)[0]
