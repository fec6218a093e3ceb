# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that threads tell each other by: fences and operations of scopes that have both, and of narrower ones."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import ptx
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError
from tilewright.runtime.launches import Launch

WARP = 32
HEAD = """.version 8.3
.target sm_90a
.address_size 64
.shared .align 16 .b8 data[256];
.shared .align 4 .b32 flag;
.shared .align 8 .b64 bar;
.entry k(.param .u64 out, .param .u64 told) {
  .reg .pred %p, %first, %writes;
  .reg .b32 %l, %a, %d, %r, %far;
  .reg .b64 %out, %told, %at;
  ld.param.u64 %out, [out];
  ld.param.u64 %told, [told];
  mov.u32 %l, %tid.x;
  mad.wide.u32 %at, %l, 4, %out;
  setp.eq.u32 %first, %l, 0;
"""
# Block 0 writes to global memory, and says so by a value; another block waits for that, and reads.
ACROSS = (
    HEAD
    + """
  mov.u32 %r, %ctaid.x;
  setp.eq.u32 %writes, %r, 0;
  @!%writes bra reads;
  st.global.b32 [%at], %l;
  bar.sync 0;
  @!%first bra done;
  TELL
  bra done;
reads:
  @!%first bra told_by_first;
spin:
  HEAR
  setp.ne.u32 %p, %d, 1;
  @%p bra spin;
  HEARD
told_by_first:
  bar.sync 0;
  ld.global.b32 %d, [%at];
  st.global.b32 [%at+256], %d;
done:
  ret;
}
"""
)
TELLS = {
    "st.release.gpu.global.b32 [%told], 1;": "gpu",
    "st.release.sys.global.b32 [%told], 1;": "gpu",
    "st.release.cluster.global.b32 [%told], 1;": "cluster",
    "st.release.cta.global.b32 [%told], 1;": "cta",
    "fence.acq_rel.gpu; st.relaxed.gpu.global.b32 [%told], 1;": "gpu",
    "fence.sc.cta; st.relaxed.gpu.global.b32 [%told], 1;": "cta",
    "membar.gl; st.volatile.global.b32 [%told], 1;": "gpu",
    "membar.cta; st.volatile.global.b32 [%told], 1;": "cta",
    "membar.gl; atom.global.add.u32 %d, [%told], 1;": "gpu",
    "fence.acq_rel.cta; red.release.gpu.global.add.u32 [%told], 1;": "gpu",
    "atom.release.cta.global.add.u32 %d, [%told], 1;": "cta",
    "mov.b32 %d, 0; st.release.gpu.global.v2.b32 [%told], {1, %d};": "gpu",
}
HEARS = {
    "ld.acquire.gpu.global.b32 %d, [%told];": "gpu",
    "ld.acquire.cta.global.b32 %d, [%told];": "cta",
    "ld.acquire.cluster.global.b32 %d, [%told];": "cluster",
    "atom.acquire.gpu.global.or.b32 %d, [%told], 0;": "gpu",
    "ld.relaxed.gpu.global.b32 %d, [%told]; HEARD fence.acq_rel.gpu;": "gpu",
    "ld.volatile.global.b32 %d, [%told]; HEARD membar.cta;": "cta",
    "ld.volatile.global.b32 %d, [%told]; HEARD membar.gl;": "gpu",
}
WIDTHS = ("cta", "cluster", "gpu")


def run(text: str, blocks: int, cluster: int = 1, threads: int = WARP) -> np.ndarray:
    """What a kernel leaves in its output: what was told in the first half, and what was read in the second one."""
    out, told = np.zeros(2 * 64, np.uint32), np.zeros(4, np.uint32)
    kernel = EmulatedGpuKernel(ptx.translated(text).llvmir, "k")
    kernel(Launch((blocks, 1, 1), (threads, 1, 1), (cluster, 1, 1)), out, told)
    return out[64:]


def across(tell: str, hear: str) -> str:
    """The kernel with a way to tell and a way to hear."""
    heard = hear.partition("HEARD")[2]
    return ACROSS.replace("TELL", tell).replace("HEARD", heard).replace("HEAR", hear.partition("HEARD")[0])


@pytest.mark.parametrize("cluster", [1, 2])
def test_scopes_have_both_blocks_or_are_found(cluster: int) -> None:
    needed = WIDTHS.index("cluster" if cluster == 2 else "gpu")
    for tell, told_by in TELLS.items():
        for hear, heard_by in HEARS.items():
            fits = min(WIDTHS.index(told_by), WIDTHS.index(heard_by)) >= needed
            text = across(tell, hear)
            if fits:
                assert (run(text, 2, cluster)[:WARP] == np.arange(WARP)).all(), (tell, hear)
            else:
                with pytest.raises(EmulationError, match=r"scope: .* loading at line \d+, touches"):
                    run(text, 2, cluster)


# The second warp of a block writes to shared memory; the first one waits for a value there.
WITHIN = (
    HEAD
    + """
  @%first st.shared.b32 [flag], 0;
  bar.sync 0;
  mov.u32 %a, data;
  and.b32 %r, %l, 31;
  mad.lo.u32 %a, %r, 4, %a;
  setp.ge.u32 %writes, %l, 32;
  @!%writes bra reads;
  st.shared.b32 [%a], %r;
  bar.warp.sync -1;
  setp.eq.u32 %p, %l, 32;
  TELL
  bra done;
reads:
  ld.acquire.cta.shared.b32 %d, [flag];
  setp.ne.u32 %p, %d, 1;
  @%p bra reads;
  ld.shared.b32 %d, [%a];
  st.global.b32 [%at+256], %d;
done:
  ret;
}
"""
)


def test_a_value_in_shared_memory_orders_what_was_released_before() -> None:
    out = run(WITHIN.replace("TELL", "@%p st.release.cta.shared.b32 [flag], 1;"), 1, threads=2 * WARP)
    assert (out[:WARP] == np.arange(WARP)).all()
    with pytest.raises(EmulationError, match=r"race: .* writes at line \d+ at a time that nothing orders"):
        run(WITHIN.replace("TELL", "@%p st.relaxed.cta.shared.b32 [flag], 1;"), 1, threads=2 * WARP)
    with pytest.raises(EmulationError, match=r"deadlock: .* loading at line \d+, for a value that no thread"):
        run(WITHIN.replace("TELL", ""), 1, threads=2 * WARP)


# Block 1 of a cluster writes to the shared memory of block 0, and arrives at a barrier object there.
FAR = (
    HEAD
    + """
  mov.u32 %r, %cluster_ctarank;
  setp.eq.u32 %writes, %r, 1;
  @%first mbarrier.init.shared.b64 [bar], 1;
  @%first fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %a, data;
  mad.lo.u32 %a, %l, 4, %a;
  @!%writes bra reads;
  mapa.shared::cluster.u32 %far, %a, 0;
  st.shared::cluster.b32 [%far], %l;
  bar.sync 0;
  mov.u32 %a, bar;
  mapa.shared::cluster.u32 %far, %a, 0;
  @%first mbarrier.arriveTELL.shared::cluster.b64 _, [%far];
  bra done;
reads:
  mbarrier.try_wait.parityHEAR.shared.b64 %p, [bar], 0;
  @!%p bra reads;
  ld.shared.b32 %d, [%a];
  st.global.b32 [%at+256], %d;
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
"""
)


@pytest.mark.parametrize(
    ("tell", "hear", "fits"),
    [
        (".release.cluster", ".acquire.cluster", True),
        (".release.cluster", "", False),
        ("", ".acquire.cluster", False),
        (".release.cta", ".acquire.cta", False),
    ],
)
def test_barrier_objects_of_other_blocks(tell: str, hear: str, fits: bool) -> None:
    text = FAR.replace("TELL", tell).replace("HEAR", hear)
    if fits:
        assert (run(text, 2, 2)[:WARP] == np.arange(WARP)).all()
    else:
        with pytest.raises(EmulationError, match=r"scope: .* whose scope does not have both"):
            run(text, 2, 2)


# The last block to come adds up what all have written: the example of threadFenceReduction in NVIDIA's samples, anew.
LAST = (
    HEAD
    + """
  mov.u32 %r, %ctaid.x;
  mad.wide.u32 %at, %r, 4, %out;
  @%first st.global.b32 [%at], %r;
  FENCE
  @%first atom.global.inc.u32 %d, [%told], 3;
  @%first st.shared.b32 [flag], %d;
  bar.sync 0;
  ld.shared.b32 %d, [flag];
  setp.ne.u32 %p, %d, 3;
  @%p bra done;
  FENCE
  setp.ge.u32 %p, %l, 4;
  @%p bra done;
  mad.wide.u32 %at, %l, 4, %out;
  ld.global.b32 %d, [%at];
  st.global.b32 [%at+256], %d;
done:
  ret;
}
"""
)


def test_the_last_block_sees_what_all_wrote() -> None:
    assert (run(LAST.replace("FENCE", "membar.gl;"), 4)[:4] == np.arange(4)).all()
    with pytest.raises(EmulationError, match=r"scope: .* thread 0 of block 0 of cluster"):
        run(LAST.replace("FENCE", "membar.cta;"), 4)
