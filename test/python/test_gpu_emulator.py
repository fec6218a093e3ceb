# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulator of NVVM kernels, on kernels written by hand: what no strategy uses yet, and what each wait is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import _runtime
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.passmanager import PassManager
from tilewright.payload.patch_windows import Window
from tilewright.runtime import emulated_gpu, gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError, Launch, TensorMap
from tilewright.targets import nvidia

ONE_WARP = Launch((1, 1, 1), (32, 1, 1))


_BOX = "box[%zero] multicast_mask = %both : !llvm.ptr<7>, !llvm.ptr"
_PATCHES = """box[%channel, %column, %row, %image] im2col[%right, %down] {mode = #nvvm.tma_load_mode<im2col>}
    : !llvm.ptr<7>, !llvm.ptr"""


def patches(first: dict[str, int], offsets: dict[str, int], **of_map: Any) -> np.ndarray:
    """Eight pixels of four channels, by a copy of patches of two images of 5 x 6 pixels and 8 channels, which are numbered from 1 on."""
    source, out = np.arange(1, 481, dtype=np.int32).reshape(2, 5, 6, 8), np.zeros((8, 4), np.int32)
    numbers = [f"  %{name} = llvm.mlir.constant({each} : i32) : i32" for name, each in first.items()]
    numbers += [f"  %{name} = llvm.mlir.constant({each} : i16) : i16" for name, each in offsets.items()]
    text = MULTICAST.replace("AWAIT", AWAIT).replace("MEET", "nvvm.barrier0").replace(_BOX, _PATCHES)
    made = kernel(text.replace("  %zero =", "\n".join([*numbers, "  %zero ="]), 1))
    made(ONE_WARP, TensorMap(source, **of_map), out)
    return out


@pytest.mark.parametrize(("down", "right"), [(0, 0), (2, 1), (1, 0)])
def test_patches_are_copied_over_the_ends_of_rows_and_images(down: int, right: int):
    """A filter of 3 x 2 elements, steps of two rows and one column, a zero above and two to the left: 3 x 7 results an image."""
    window = Window((5, 6, 8), (240, 48, 8), lower=(-1, -2), upper=(-1, -1), steps=(2, 1))
    whole = np.pad(np.arange(1, 481).reshape(2, 5, 6, 8), ((0, 1), (1, 9), (2, 9), (0, 0)))
    place = {"channel": 4, "column": 2, "row": 3, "image": 0}
    # Results from (0, 2, 4) on: three to the end of the row and of the image, then those of the next one.
    rows = [(0, 2, column) for column in (4, 5, 6)] + [(1, 0, column) for column in range(5)]
    got = patches(place, {"right": right, "down": down}, box=(8, 4), window=window)
    expected = [whole[image, 2 * row + down, column + right, 4:] for image, row, column in rows]
    np.testing.assert_array_equal(got, expected)


def test_a_copy_of_patches_wants_a_map_of_images():
    nothing = {"right": 0, "down": 0}
    with pytest.raises(EmulationError, match=r"a copy of patches \(im2col\) by the map of a tensor"):
        patches({"channel": 0, "column": 0, "row": 0, "image": 0}, nothing, box=(1, 1, 8, 4))
    window = Window((5, 6, 8), (240, 48, 8), lower=(0, 0), upper=(0, 0), steps=(1, 1))
    with pytest.raises(EmulationError, match="a box of 4 axes; expected 2"):
        TensorMap(np.zeros((2, 5, 6, 8), np.int32), (1, 1, 8, 4), window=window)
    for wrong in ({"lower": (3, 0), "upper": (-2, 0)}, {"steps": (1, 9)}, {"upper": (0, 128)}):
        with pytest.raises(EmulationError, match="with a pixel between them, and steps from 1 to 8"):
            TensorMap(np.zeros((2, 5, 6, 8), np.int32), (8, 4), window=window._replace(**wrong))
    with pytest.raises(EmulationError, match="extents from 1 to 1024"):
        TensorMap(np.zeros((2, 5, 6, 8), np.int32), (1025, 4), window=window)
    text = (
        MULTICAST.replace("AWAIT", AWAIT)
        .replace("MEET", "nvvm.barrier0")
        .replace("box[%zero]", "box[%zero, %zero, %zero, %zero]")
    )
    with pytest.raises(EmulationError, match=r"a box copy of a tensor by a map of images \(im2col\)"):
        kernel(text)(
            ONE_WARP, TensorMap(np.zeros((2, 5, 6, 8), np.int32), (8, 4), window=window), np.zeros(32, np.int32)
        )


def kernel(text: str) -> EmulatedGpuKernel:
    """The kernel @k of a module in the dialects of LLVM and NVVM."""
    with ir.Context():
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(convert-nvvm-to-llvm)").run(module.operation)
        return EmulatedGpuKernel(_tilewright.translate_to_llvmir(module.operation), "k")


SHUFFLE = """
llvm.func @k(%out: !llvm.ptr) attributes {nvvm.kernel} {
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %all = llvm.mlir.constant(-1 : i32) : i32
  %bounds = llvm.mlir.constant(31 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %two = llvm.mlir.constant(16 : i32) : i32
  %a = nvvm.shfl.sync bfly %all, %lane, %two, %bounds : i32 -> i32
  %b = llvm.add %a, %lane : i32
  %c = nvvm.shfl.sync bfly %all, %b, %one, %bounds : i32 -> i32
  %d = llvm.add %b, %c : i32
  %at = llvm.getelementptr %out[%lane] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  llvm.store %d, %at : i32, !llvm.ptr
  llvm.return
}
"""


def test_shuffles():
    out = np.zeros(32, np.int32)
    kernel(SHUFFLE)(ONE_WARP, out)
    lane = np.arange(32)
    pair = lane + (lane ^ 16)
    np.testing.assert_array_equal(out, pair + pair[lane ^ 1])


# A warp puts four 8x8 matrices side by side into shared memory, and has them stored as a box of 8 x 32.
STORE = """
llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<512 x i8>
llvm.func @k(%map: !llvm.ptr) attributes {nvvm.kernel} {
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %zero = llvm.mlir.constant(0 : i32) : i32
  %eight = llvm.mlir.constant(8 : i32) : i32
  %sixteen = llvm.mlir.constant(16 : i32) : i32
  %pitch = llvm.mlir.constant(64 : i32) : i32
  %row = llvm.urem %lane, %eight : i32
  %matrix = llvm.udiv %lane, %eight : i32
  %down = llvm.mul %row, %pitch : i32
  %right = llvm.mul %matrix, %sixteen : i32
  %offset = llvm.add %down, %right : i32
  %place = llvm.getelementptr %tile[%offset] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  nvvm.stmatrix %place, %lane, %lane, %lane, %lane {
    layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>,
    eltType = #nvvm.ld_st_matrix_elt_type<b16>
  } : !llvm.ptr<3>, i32, i32, i32, i32
  FENCE
  nvvm.barrier0
  %first = llvm.icmp "eq" %lane, %zero : i32
  llvm.cond_br %first, ^store, ^end
^store:
  nvvm.cp.async.bulk.tensor.global.shared.cta %map, %tile, box[%zero, %zero] : !llvm.ptr, !llvm.ptr<3>
  nvvm.cp.async.bulk.commit.group
  WAIT
  llvm.br ^end
^end:
  llvm.return
}
"""
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
WAIT = "nvvm.cp.async.bulk.wait_group 0"


def stored(fence: str = FENCE, wait: str = WAIT, columns: int = 24) -> np.ndarray:
    """What a tensor of 10 rows is after the store."""
    out = np.full((10, 32), 99, np.int16)
    tensor = out[:, :columns]
    made = kernel(STORE.replace("FENCE", fence).replace("WAIT", wait))
    made(ONE_WARP, TensorMap(tensor, (8, 32), writable=True))
    return out


def test_matrices_are_stored_and_what_is_outside_is_not():
    out = stored()
    expected = np.zeros((8, 8), np.int16)
    expected[:, ::2] = np.arange(32).reshape(8, 4)  # The lower half of a register; the upper one is 0.
    np.testing.assert_array_equal(out[:8, :24], np.tile(expected, (1, 3)))
    assert (out[8:] == 99).all()
    assert (out[:, 24:] == 99).all()


def test_rows_that_a_card_would_write_behind_are_refused():
    with pytest.raises(EmulationError, match="a bulk store of rows of 60 bytes, which are no pieces of 16"):
        stored(columns=30)


def test_a_store_without_a_fence_or_a_wait_is_reported():
    with pytest.raises(EmulationError, match=r"race: .* a bulk copy, .* writes at a time that nothing orders"):
        stored(fence="")
    with pytest.raises(EmulationError, match="a bulk store is not waited for before the kernel ends"):
        stored(wait="")


# The first of two blocks has a box copied to both; each waits for its own barrier object, and writes what came.
MULTICAST = """
llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<128 x i8>
llvm.mlir.global internal @bar() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<8 x i8>
llvm.func @k(%map: !llvm.ptr, %out: !llvm.ptr) attributes {nvvm.kernel} {
  %thread = nvvm.read.ptx.sreg.tid.x : i32
  %block = nvvm.read.ptx.sreg.cluster.ctaid.x : i32
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %bar = llvm.mlir.addressof @bar : !llvm.ptr<3>
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %bytes = llvm.mlir.constant(128 : i32) : i32
  %both = llvm.mlir.constant(3 : i16) : i16
  %ticks = llvm.mlir.constant(1000 : i32) : i32
  %first = llvm.icmp "eq" %thread, %zero : i32
  llvm.cond_br %first, ^init, ^ready
^init:
  nvvm.mbarrier.init %bar, %one : !llvm.ptr<3>, i32
  nvvm.fence.mbarrier.init
  %state = nvvm.mbarrier.arrive.expect_tx %bar, %bytes : !llvm.ptr<3>, i32 -> i64
  llvm.br ^ready
^ready:
  MEET
  %lead = llvm.icmp "eq" %block, %zero : i32
  %copies = llvm.and %lead, %first : i1
  llvm.cond_br %copies, ^copy, ^wait
^copy:
  %cluster = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>
  nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %bar, box[%zero] multicast_mask = %both : !llvm.ptr<7>, !llvm.ptr
  llvm.br ^wait
^wait:
  AWAIT
  %mine = llvm.getelementptr %tile[%thread] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
  %value = llvm.load %mine : !llvm.ptr<3> -> i32
  %threads = llvm.mlir.constant(32 : i32) : i32
  %base = llvm.mul %block, %threads : i32
  %index = llvm.add %base, %thread : i32
  %at = llvm.getelementptr %out[%index] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  llvm.store %value, %at : i32, !llvm.ptr
  llvm.return
}
"""
MEET = "nvvm.cluster.arrive {aligned}\n  nvvm.cluster.wait {aligned}"
AWAIT = "nvvm.mbarrier.try_wait.parity %bar, %zero, %ticks : !llvm.ptr<3>, i32, i32"


def copied(meet: str = MEET, wait: str = AWAIT) -> np.ndarray:
    """What two blocks of a cluster have written of a tensor of 32 numbers."""
    source, out = np.arange(100, 132, dtype=np.int32), np.zeros((2, 32), np.int32)
    made = kernel(MULTICAST.replace("AWAIT", wait).replace("MEET", meet))
    made(Launch((2, 1, 1), (32, 1, 1), (2, 1, 1)), TensorMap(source, (32,)), out)
    return out


def test_a_box_is_copied_to_several_blocks():
    np.testing.assert_array_equal(copied(), np.tile(np.arange(100, 132), (2, 1)))


def test_a_cluster_that_does_not_meet_or_wait_is_reported():
    with pytest.raises(EmulationError, match="initialized"):
        copied(meet="")
    with pytest.raises(EmulationError, match="which nobody has written"):
        copied(wait="")


DEADLOCK = """
llvm.func @k() attributes {nvvm.kernel} {
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %first = llvm.icmp "eq" %lane, %zero : i32
  llvm.cond_br %first, ^meet, ^end
^meet:
  nvvm.barrier0
  llvm.br ^end
^end:
  llvm.return
}
"""


def test_a_barrier_that_not_all_reach_is_a_deadlock():
    with pytest.raises(EmulationError, match="deadlock: 1 threads wait; block 0: thread 0 for the others at a barrier"):
        kernel(DEADLOCK)(ONE_WARP)


def test_tensor_maps_are_checked():
    for strides in ((-32, 4), (0, 4)):
        rows = np.lib.stride_tricks.as_strided(np.zeros((4, 8), np.float32)[-1:], (4, 8), strides, writeable=False)
        with pytest.raises(EmulationError, match="rows 16 bytes apart"):
            TensorMap(rows, (4, 8))
    with pytest.raises(EmulationError, match="rows 16 bytes apart"):
        TensorMap(np.zeros((4, 5), np.float32), (4, 4))
    with pytest.raises(EmulationError, match="256 bytes wide"):
        TensorMap(np.zeros((4, 64), np.float32), (4, 64), swizzle=128)
    with pytest.raises(EmulationError, match="extents from 1 to 256"):
        TensorMap(np.zeros((4, 512), np.float32), (4, 512))


# A thread copies pieces of 16 bytes from one place of the operand into shared memory, and loads one from another.
PIECES = """
llvm.mlir.global internal @tile() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<64 x i8>
llvm.func @k(%in: !llvm.ptr, %out: !llvm.ptr) attributes {{nvvm.kernel}} {{
  %lane = nvvm.read.ptx.sreg.laneid : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %first = llvm.icmp "eq" %lane, %zero : i32
  llvm.cond_br %first, ^copy, ^end
^copy:
  %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
  %to = llvm.getelementptr %tile[{to}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  %from = llvm.getelementptr %in[{source}] : (!llvm.ptr) -> !llvm.ptr, i8
  %source = llvm.addrspacecast %from : !llvm.ptr to !llvm.ptr<1>
  %some = llvm.mlir.constant({some} : i32) : i32
  nvvm.cp.async.shared.global %to, %source, 16, cache = cg, %some : !llvm.ptr<3>, !llvm.ptr<1>, i32
  nvvm.cp.async.commit.group
  nvvm.cp.async.wait.group 0
  %at = llvm.getelementptr %in[{load}] : (!llvm.ptr) -> !llvm.ptr, i8
  %value = llvm.load %at {{alignment = 8 : i64}} : !llvm.ptr -> vector<2xf32>
  %place = llvm.getelementptr %out[{store}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %value, %place {{alignment = 4 : i64}} : vector<2xf32>, !llvm.ptr
  llvm.br ^end
^end:
  llvm.return
}}
"""


def pieces(to: int = 16, source: int = 16, some: int = 16, load: int = 8, store: int = 4) -> np.ndarray:
    """What comes of it, of places that are so many bytes from a multiple of 16."""
    text = PIECES.format(to=to, source=source, some=some, load=load, store=store)
    memory, out = np.zeros(128, np.uint8), np.zeros(4, np.float32)
    start = -memory.ctypes.data % 16
    given = memory[start : start + 96].view(np.float32)
    given[:] = np.arange(24)
    kernel(text)(ONE_WARP, given, out)
    return out


def test_pieces_at_multiples_of_their_bytes_are_moved():
    assert pieces().tolist() == [0, 2, 3, 0]


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ({"source": 8}, "a cp.async at an address that is no multiple of 16 bytes"),
        ({"to": 8}, "a cp.async at an address that is no multiple of 16 bytes"),
        ({"source": 4, "some": 0}, "a cp.async at an address that is no multiple of 16 bytes"),
        ({"load": 4}, "a load at an address that is no multiple of 8 bytes"),
        ({"store": 2}, "a store at an address that is no multiple of 4 bytes"),
    ],
)
def test_what_a_card_refuses_to_move_is_reported(place, what):
    with pytest.raises(EmulationError, match=f"misaligned: {what}"):
        pieces(**place)


def test_the_form_for_aligned_rows_is_not_run_on_others():
    spec = tw.MatmulSpec(40, 24, 16, a="f16")
    made = gpu.compile(spec, nvidia.ROWS[0].emulated(), "mma_sync")
    made._form = lambda key: made._forms[True, True]  # whatever rows need
    wide, b = np.ones((40, 24), np.float16), np.ones((16, 24), np.float16)
    assert (made(wide[:, :16], b) == 16).all()
    with pytest.raises(EmulationError, match="misaligned"):
        made(wide[:, 1:17], b)


@pytest.mark.parametrize(
    ("name", "value", "found"), [("_VERSION", 1000, 2), ("_LIBRARY", Path(_runtime.__file__).name, 0)]
)
def test_an_emulator_of_another_version_is_refused(
    name: str, value: object, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a later build has, and one from before there were versions."""
    monkeypatch.setattr(emulated_gpu, name, value)
    with pytest.raises(tw.TilewrightError, match=f"version {found}; .*make setup"):
        emulated_gpu._library.__wrapped__()
