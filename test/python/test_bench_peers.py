# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peers: who is there, what their processes do, and how their failures look."""

import importlib.metadata
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from tilewright import targets
from tilewright.bench import libraries, peers
from tilewright.bench.operands import operands
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.suites import Shape
from tilewright.errors import TilewrightError

HERE = (max(os.sched_getaffinity(0)),)
SHAPE = Shape(5, 7, 11)


@pytest.mark.parametrize("name", ["numpy", "mkl", "libxsmm"])
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


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("f32", 1e-5), ("f64", 1e-13), ("bf16", 1e-5), ("f16", 1e-5), ("u8,i8,i32", 0)]
)
def test_mkl_multiplies_every_type_also_with_b_packed_ahead(dtype, rtol):
    if missing := peers.PEERS["mkl"].missing():
        pytest.skip(missing)
    with PeerProcess(peers.PEERS["mkl"], 1, HERE) as peer:
        data = operands(SHAPE, dtype, 1)
        expected = data.a.astype(np.float64) @ data.b.astype(np.float64)
        types = ",".join(peers.PEERS["mkl"].types(dtype, packed=True) or ())
        for packed in (False, True):
            peer.load(SHAPE, types, 1, 0, packed)
            np.testing.assert_allclose(peer.result(), expected, rtol=rtol, atol=rtol)
            peer.unload()


def test_libxsmm_multiplies_batches_and_pairs_of_rows_of_b():
    if missing := peers.PEERS["libxsmm"].missing():
        pytest.skip(missing)
    with PeerProcess(peers.PEERS["libxsmm"], 1, HERE) as peer:
        for shape, dtype, packed in (
            (Shape(5, 7, 11, (2, 3)), "f64", False),
            # The largest cubes that its own call for batches compiles, and beyond.
            *(
                (Shape(side, side, side + more, (2, 2)), dtype, False)
                for side, dtype in ((32, "f32"), (64, "f64"))
                for more in (0, 1)
            ),
            (Shape(5, 7, 12), "bf16,bf16,f32", True),
        ):
            if packed and "avx512f" not in targets.resolve("host").features:
                with pytest.raises(TilewrightError, match="compiles no kernel"):  # of bf16, without AVX-512
                    peer.load(shape, dtype, 1, 0, packed)
                continue
            expected = operands(shape, dtype, 1)
            peer.load(shape, dtype, 1, 0, packed)
            product = expected.a.astype(np.float64) @ expected.b.astype(np.float64)
            np.testing.assert_allclose(peer.result(), product, rtol=1e-5, atol=1e-5)
            peer.unload()


def test_what_a_peer_needs_of_the_system_is_named_first(monkeypatch, tmp_path):
    monkeypatch.setenv("LIBXSMMROOT", str(tmp_path))
    assert "install Debian's libxsmm-dev" in (peers.PEERS["libxsmm"].missing() or "")


@pytest.mark.parametrize("name", ["numpy", "mkl"])
def test_batches_and_operands_that_are_stored_transposed(name):
    if missing := peers.PEERS[name].missing():
        pytest.skip(missing)
    with PeerProcess(peers.PEERS[name], 1, HERE) as peer:
        for shape, layout in (
            (Shape(5, 7, 11, (3,)), "nn"),
            (Shape(5, 7, 11, (2, 3)), "tt"),
            (SHAPE, "nt"),
            (SHAPE, "tn"),
        ):
            expected = operands(shape, "f32", 1, layout=layout)
            peer.load(shape, "f32", 1, 0, layout=layout)
            np.testing.assert_allclose(peer.result(), expected.a @ expected.b, rtol=1e-5, atol=1e-6)
            peer.unload()


def test_why_a_peer_does_not_take_part():
    cannot = peers.PEERS["xla"].cannot
    assert cannot(SHAPE, "f32", "nn", packed=False) is None
    assert cannot(SHAPE, "f32", "nt", packed=False) == "it takes no operands stored nt"
    assert cannot(Shape(5, 7, 11, (3,)), "f32", "nn", packed=False) == "it has no batched product of f32"
    assert peers.PEERS["mkl"].cannot(Shape(5, 7, 11, (3,)), "bf16", "nn", packed=False)
    assert peers.PEERS["mkl"].cannot(Shape(5, 7, 11, (3,)), "f32", "tt", packed=False) is None


def test_b_packed_ahead_is_refused_by_a_library_that_cannot():
    with (
        PeerProcess(peers.PEERS["numpy"], 1, HERE) as peer,
        pytest.raises(TilewrightError, match="does not take B packed ahead of time"),
    ):
        peer.load(SHAPE, "f32", 1, 0, True)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i8", "u8", "u8,i8,i32", "i8,u8,i32"])
def test_the_module_that_iree_gets_is_right(dtype):
    from tilewright.bench.libraries.iree import matmul
    from tilewright.mlir import ir

    text = matmul(operands(SHAPE, dtype))
    with ir.Context():
        assert ir.Module.parse(text).operation.verify()
    for sign, name in (("extui", "u8"), ("extsi", "i8")):
        assert (f"arith.{sign}" in text) == (name in dtype.split(","))


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
    with pytest.raises(TilewrightError, match=r"peer mkl: its process took more than 0\.2 s"):
        PeerProcess(peers.PEERS["mkl"], 1, HERE, worker=worker("hangs"), timeout=0.2)


def test_a_peer_gets_its_threads_and_cores_and_may_print_and_crash(worker):
    with PeerProcess(peers.PEERS["mkl"], 3, (4, 5, 6), worker=worker("shouts")) as peer:
        assert peer.version == "mkl,4,5,6,3,INTEL"
        with pytest.raises(TilewrightError, match="its process crashed with SIGABRT"):
            peer.sample(1)
        with pytest.raises(TilewrightError, match="its process crashed with SIGABRT"):
            peer.sample(1)


def test_absent_peers_are_told_not_raised_unless_demanded(monkeypatch):
    gone = replace(peers.PEERS["mkl"], here=lambda: "no MKL; install it")
    other = replace(peers.PEERS["numpy-avx512"], applies=lambda: False)
    monkeypatch.setattr(peers, "PEERS", {**peers.PEERS, "mkl": gone, "numpy-avx512": other})
    present, absent = peers.choose(None, "f32")
    assert [peer.name for peer in present][:1] == ["numpy"]
    assert absent["mkl"] == "no MKL; install it"
    assert [each.name for each in peers.known()] == [name for name in peers.PEERS if name != "numpy-avx512"]
    with pytest.raises(TilewrightError, match="peer mkl: no MKL; install it"):
        peers.choose(["mkl"], "f32")


def test_demanded_peers_come_in_their_order_and_once():
    present, absent = peers.choose(["numpy-avx512", "numpy", "numpy"], "f64")
    assert [peer.name for peer in present] == ["numpy-avx512", "numpy"]
    assert absent == {}
    assert peers.choose([], "f32") == ([], {})


def test_unknown_peers_and_element_types():
    with pytest.raises(
        TilewrightError, match="unknown peer 'mlk'; expected some of numpy, numpy-avx512, mkl, onednn, "
    ):
        peers.choose(["mlk"], "f32")
    with pytest.raises(TilewrightError, match="no product of i8 and i8"):
        peers.choose(["numpy"], "i8")


def test_mkl_is_found_in_its_wheel_below_mklroot_or_not_at_all(tmp_path, monkeypatch):
    def no_wheel(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", no_wheel)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
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


def test_torch_is_told_what_to_do_to_the_sums():
    steps = libraries.TorchCompile._steps("bias:n,relu,residual")
    assert len(steps) == 3
    for unknown in ("bias:m", "quantize:1.0"):
        with pytest.raises(TilewrightError, match="it is not told how to do"):
            libraries.TorchCompile._steps(unknown)
