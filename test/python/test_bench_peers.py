# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peers: who is there, what their processes do, and how their failures look."""

import importlib.metadata
import os
from dataclasses import replace

import numpy as np
import pytest
from tilewright.bench import libraries, peers
from tilewright.bench.operands import operands
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError

HERE = (max(os.sched_getaffinity(0)),)
SHAPE = Shape(5, 7, 11)


@pytest.mark.parametrize("name", ["numpy", "mkl"])
def test_a_peer_multiplies_the_same_operands_in_its_own_process(name):
    if missing := peers.PEERS[name].missing():
        pytest.skip(missing)
    with PeerProcess(peers.PEERS[name], 1, HERE) as peer:
        assert peer.version[0].isdigit()
        for dtype in ("f32", "f64"):
            expected = operands(SHAPE, dtype, 1)
            peer.load(SHAPE, dtype, 1, 3000)
            np.testing.assert_allclose(peer.result(), expected.a @ expected.b, rtol=1e-5, atol=1e-6)
            assert peer.sample(peer.calibrate(1e-4)) > 0
            peer.unload()


def test_an_error_in_the_peer_is_ours_and_the_peer_goes_on():
    with PeerProcess(peers.PEERS["numpy"], 1, HERE) as peer:
        with pytest.raises(TilewrightError, match=r"^peer numpy: ValueError: .*load\(\) comes before"):
            peer.sample(1)
        peer.load(SHAPE, "f32", 0, 0)
        assert peer.result().shape == (5, 7)


WORKERS = {
    "dies": "import sys; sys.exit('libfoo.so.1: cannot open shared object file')",
    "hangs": "import time; time.sleep(60)",
    "shouts": """
import os, sys
from multiprocessing.connection import Connection
print("noise on stdout")
parent = Connection(int(sys.argv[1]))
parent.send((True, ",".join([*sys.argv[2:], os.environ["OMP_NUM_THREADS"], os.environ["MKL_THREADING_LAYER"]])))
parent.recv()
os.abort()
""",
}


@pytest.fixture(autouse=True)
def no_environments(tmp_path, monkeypatch):
    """The peers of the running environment, whatever else somebody has set up."""
    monkeypatch.setenv("TILEWRIGHT_PEERS_DIR", str(tmp_path / "peers"))


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Makes a module that stands in for the peer's process."""

    def make(name):
        (tmp_path / f"worker_{name}.py").write_text(WORKERS[name])
        monkeypatch.syspath_prepend(tmp_path)
        return f"worker_{name}"

    return make


def test_a_peer_that_cannot_start_says_why(worker):
    with pytest.raises(TilewrightError, match="peer mkl: its process ended with status 1: libfoo") as caught:
        PeerProcess(peers.PEERS["mkl"], 1, HERE, worker=worker("dies"))
    assert caught.value.remedy


def test_a_peer_that_hangs_is_ended(worker):
    with pytest.raises(TilewrightError, match=r"peer mkl: no answer in 0\.2 s"):
        PeerProcess(peers.PEERS["mkl"], 1, HERE, worker=worker("hangs"), timeout=0.2)


def test_a_peer_gets_its_threads_and_cores_and_may_print_and_crash(worker):
    with PeerProcess(peers.PEERS["mkl"], 3, (4, 5, 6), worker=worker("shouts")) as peer:
        assert peer.version == "mkl,4,5,6,3,INTEL"
        with pytest.raises(TilewrightError, match="ended with status -6"):
            peer.sample(1)
        with pytest.raises(TilewrightError, match="ended with status -6"):
            peer.sample(1)


def test_absent_peers_are_told_not_raised_unless_demanded(monkeypatch):
    gone = replace(peers.PEERS["mkl"], here=lambda: "no MKL; install it")
    other = replace(peers.PEERS["numpy-avx512"], applies=lambda: False)
    monkeypatch.setattr(peers, "PEERS", {**peers.PEERS, "mkl": gone, "numpy-avx512": other})
    present, absent = peers.choose(None, "f32")
    assert [peer.name for peer in present] == ["numpy"]
    assert absent == {"mkl": "no MKL; install it"}
    assert [each.name for each in peers.known()] == ["numpy", "mkl"]
    with pytest.raises(TilewrightError, match="peer mkl: no MKL; install it"):
        peers.choose(["mkl"], "f32")


def test_demanded_peers_come_in_their_order_and_once():
    present, absent = peers.choose(["numpy-avx512", "numpy", "numpy"], "f64")
    assert [peer.name for peer in present] == ["numpy-avx512", "numpy"]
    assert absent == {}
    assert peers.choose([], "f32") == ([], {})


def test_unknown_peers_and_element_types():
    with pytest.raises(TilewrightError, match="unknown peer 'mlk'; expected some of numpy, numpy-avx512, mkl"):
        peers.choose(["mlk"], "f32")
    with pytest.raises(TilewrightError, match="no product of i8 and i8"):
        peers.choose(["numpy"], "i8")


def test_mkl_is_found_in_its_wheel_below_mklroot_or_not_at_all(tmp_path, monkeypatch):
    def no_wheel(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", no_wheel)
    monkeypatch.setattr(libraries.sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.delenv("MKLROOT", raising=False)
    assert libraries.mkl_path() is None
    assert "pip install 'tilewright[bench]'" in (peers.PEERS["mkl"].missing() or "")
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    library = root / "lib" / "libmkl_rt.so.2"
    library.touch()
    monkeypatch.setenv("MKLROOT", str(root))
    assert libraries.mkl_path() == library
    assert peers.PEERS["mkl"].missing() is None


def test_openblas_is_looked_for_where_processes_list_their_libraries(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 42   /usr/lib/libc.so.6\n")
    assert libraries.openblas_core(maps) is None
    assert libraries.openblas_core(tmp_path / "absent") is None
