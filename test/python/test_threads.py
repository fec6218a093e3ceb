# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multithreaded kernels: results, the same bits, how many threads there are, and what the model decides."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from products import check, uniform
from threadpoolctl import threadpool_limits
from tilewright.emit import stages
from tilewright.lowering.passes import privatization
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.schedules import make, select
from tilewright.schedules.cpu.unpacked import unpacked
from tilewright.schedules.models.parts import for_threads
from tilewright.schedules.models.threads import MOST, take_matrices, used
from tilewright.schedules.steps.marked_loops import ENTRIES, attribute
from tilewright.targets import registry

MANY = 5
"""More than most machines that run the tests have, and no divisor of much."""


def kernel_of(m, n, k, threads, strategy=None, dtype="f32", beta=0, **sizes):
    spec = tw.MatmulSpec(m=m, n=n, k=k, a=dtype, beta=beta)
    return tw.compile(spec, threads=threads, schedule=strategy, parameters=sizes)


@pytest.fixture
def many():
    """Lets OpenMP have as many threads as the tests want, whatever the machine."""
    with threadpool_limits(limits=MANY, user_api="openmp"):
        yield


SHAPES = [
    ("packed", 301, 403, 205, {}),
    ("packed", 301, 403, 205, {"mc": 60, "nc": 160, "kc": 64}),
    ("packed", 64, 2000, 64, {}),
    ("packed", 2000, 33, 65, {}),
    ("packed", 5, 3000, 300, {}),
    ("unpacked", 301, 403, 205, {}),
    ("unpacked", 301, 403, 205, {"kc": 100}),
    ("unpacked", 1, 3000, 1000, {}),
    ("inner_product", 3001, 1, 1000, {}),
]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("dtype", "beta"), [("f32", 0), ("f32", 1), ("f64", 1)])
@pytest.mark.parametrize(("strategy", "m", "n", "k", "sizes"), SHAPES)
def test_numbers_and_the_bits_of_one_thread(strategy, m, n, k, sizes, dtype, beta):
    # Several sizes of blocks, and tails everywhere. The sums are those of one thread, in their order.
    one = kernel_of(m, n, k, 1, strategy, dtype, beta, **sizes)
    operands = uniform(one.spec)
    expected = check(one, operands)
    for threads in (2, MANY):
        shared = kernel_of(m, n, k, threads, strategy, dtype, beta, **sizes)
        assert shared.metadata.threads > 1
        assert (check(shared, operands) == expected).all()


def regions(text):
    """The lines of each parallel region, and those outside of them."""
    inside, outside = [], []
    here = outside
    for line in text.splitlines():
        if "omp.parallel" in line:
            inside.append([])
            here = inside[-1]
        elif "omp.terminator" in line:
            here = outside
        here.append(line)
    return inside, outside


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "u8,i8,i32"])
@pytest.mark.parametrize(
    ("strategy", "m", "n", "k", "count"),
    [
        ("packed", 480, 600, 500, 3),
        ("unpacked", 480, 640, 500, 1),
        (None, 1, 4096, 4096, 1),
        (None, 8, 4096, 4096, None),
    ],
)
def test_everything_that_multiplies_is_shared(strategy, m, n, k, count, dtype):
    # With proofs that come to nothing after a change elsewhere, everything would still be right, on one thread.
    spec = tw.MatmulSpec.from_dtypes(m, n, k, dtype)
    plan = make.make(spec, registry.get("x86-64-v4"), strategy, threads=2)
    inside, outside = regions(
        stages.build(spec, plan=plan, target=registry.get("x86-64-v4"), until="bufferized").texts["bufferized"]
    )
    assert count is None or len(inside) == count
    assert any("vector.contract" in line for part in inside for line in part)
    assert not any("vector.contract" in line for line in outside)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize(("dtype", "bits", "zero"), [("f32", "i4", 0), ("bf16", "i4", 0), ("bf16", "u4", "u8")])
@pytest.mark.parametrize("m", [1, 4, 8, 32, 64])
def test_products_by_weights_in_few_bits_are_shared(m, dtype, bits, zero, layout):
    spec = tw.MatmulSpec(
        m, 2048, 2048, a=dtype, b=bits, c=dtype, layout=layout, prologue_b=(tw.dequantize("gn", zero, 128),)
    )
    target = registry.get("znver4")
    built = stages.build(spec, plan=make.make(spec, target, threads=2), target=target, until="bufferized")
    inside, outside = regions(built.texts["bufferized"])
    products = ("vector.contract", "vector.fma", "dpbf16ps")
    assert any(name in line for part in inside for line in part for name in products)
    assert not any(name in line for line in outside for name in products)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8,i8,i32"])
def test_packed_b_serves_any_number_of_threads(dtype):
    one, two = (
        tw.compile(replace(tw.MatmulSpec.from_dtypes(200, 500, 300, dtype), b_packed=True), threads=threads)
        for threads in (1, 2)
    )
    random = np.random.default_rng(0)
    a, b = (
        random.integers(0, 100, shape).astype(element.numpy)
        for shape, element in ((one.spec.a_shape, one.spec.a_type), (one.spec.b_shape, one.spec.b_type))
    )
    assert two.metadata.threads == 2
    packed = one.pack_b(b)
    assert (two(a, packed) == one(a, packed)).all()
    assert (two(a, two.pack_b(b)) == one(a, packed)).all()


def test_the_same_bits_from_run_to_run_whatever_openmp_grants():
    kernel = kernel_of(300, 310, 320, MANY)
    a, b, _ = uniform(kernel.spec)
    first = kernel(a, b)
    for granted in (1, 2, 3, MANY):
        with threadpool_limits(limits=granted, user_api="openmp"):
            for _ in range(20):
                assert (kernel(a, b) == first).all()


@pytest.mark.parametrize("threads", [0, -1, "x", "2", True, 2.0, None, MOST + 1, [2]])
def test_wrong_numbers_of_threads(threads):
    ones = np.ones((3, 3), np.float32)
    with pytest.raises(tw.SpecError, match=f"threads is .* 1 to {MOST}"):
        tw.compile(tw.MatmulSpec(m=3, n=3, k=3, a="f32"), threads=threads)
    with pytest.raises(tw.SpecError, match=f"threads is .* 1 to {MOST}"):
        tw.matmul(ones, ones, threads=threads)


def test_small_products_stay_on_one_thread():
    row = registry.get("x86-64-v4")
    small, large = (tw.MatmulSpec(m=n, n=n, k=n, a="f32") for n in (64, 512))
    assert used(small, row, 8) == 1
    assert used(large, row, 8) == 8
    # No more than the work fills, and never fewer for more work.
    counts = [used(tw.MatmulSpec(m=n, n=n, k=n, a="f32"), row, MOST) for n in (64, 128, 256, 512, 1024)]
    assert counts == sorted(counts)
    assert counts[2] < MOST
    kernel = kernel_of(64, 64, 64, 8)
    assert kernel.metadata.threads == 1
    assert "omp" not in kernel.asm["bufferized"]
    assert "threads" not in repr(kernel)


@pytest.mark.parametrize("extents", [(0, 500, 500), (500, 500, 0), (1, 1, 1)])
def test_products_with_nothing_to_share(extents):
    m, n, k = extents
    kernel = kernel_of(m, n, k, 4)
    check(kernel, uniform(kernel.spec))
    assert kernel.metadata.threads == 1


def test_metadata_and_repr():
    kernel = kernel_of(300, 310, 320, 2)
    assert kernel.metadata.threads == 2
    assert "2 threads" in repr(kernel)


def test_the_cache_keeps_kernels_of_other_threads_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    made = [kernel_of(300, 310, 320, threads).metadata for threads in (1, 2, 3, 1, 2, 3)]
    assert [each.cached for each in made] == [False] * 3 + [True] * 3
    assert [each.threads for each in made] == [1, 2, 3] * 2


def test_scratch_memory_is_bounded():
    # Packed A has the rows of each thread, packed B what it has on one.
    row = registry.get("x86-64-v4")
    for m, n, k in ((1000, 1000, 1000), (8000, 3000, 3000), (20000, 9000, 9000)):
        spec = tw.MatmulSpec(m=m, n=n, k=k, a="f32")
        bytes_of = {}
        for threads in (1, 2, 8):
            plan = make.make(spec, row, "packed", threads=threads)
            bytes_of[threads] = stages.build(spec, row, plan, until="bufferized").workspace
        one = select.sized("packed", spec, row).parameters
        block_of_a = (one.mc + one.mr) * one.kc * 4
        for threads in (2, 8):
            assert bytes_of[threads] <= bytes_of[1] + threads * block_of_a


def test_more_threads_never_change_the_order_of_a_sum():
    row = registry.get("x86-64-v4")
    for extent in (100, 300, 1000, 5000):
        spec = tw.MatmulSpec(m=extent, n=extent, k=extent, a="f32")
        one = select.sized("packed", spec, row).parameters
        for threads in (2, 7, 64):
            more = for_threads(one, spec, row, threads)
            assert (more.mr, more.nr, more.nc, more.kc) == (one.mr, one.nr, one.nc, one.kc)
            assert more.mc >= one.mc


def test_a_block_of_rows_grows_with_the_threads_that_share_it():
    spec, row = tw.MatmulSpec(4000, 512, 512), registry.get("x86-64-v3")
    one = select.sized("packed", spec, row).parameters
    assert one.mc < spec.m // 4
    for threads in (2, 3):
        assert abs(for_threads(one, spec, row, threads).mc - threads * one.mc) <= one.mc


@pytest.mark.parametrize(
    ("entries", "size", "threads", "expected"), [(2, 16, 8, False), (8, 16, 8, True), (8, 512, 8, True)]
)
def test_a_batch_is_shared_by_entries_where_there_are_enough(entries, size, threads, expected):
    assert take_matrices(tw.MatmulSpec(size, size, size, batch=(entries,)), threads) == expected


@pytest.mark.parametrize(("carried", "expected"), [(1, True), (2, False)])
def test_entries_are_independent_where_their_loop_carries_c_alone(carried, expected):
    names = [f"%{each}" for each in "abc"[:carried]]
    kinds, starts = ", ".join(["tensor<4xf32>"] * carried), ", ".join(f"{each} = %x" for each in names)
    text = f"""func.func @f(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {{
      %zero = arith.constant 0 : index
      %r:{carried} = scf.for %i = %zero to %n step %n iter_args({starts}) -> ({kinds}) {{
        scf.yield {", ".join(names)} : {kinds}
      }} {{{attribute(ENTRIES)}}}
      return %r#0 : tensor<4xf32>
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        function = next(iter(module.body.operations))
        assert isinstance(function, func.FuncOp)
        privatization.mark(function, 2, entries=True)
        (loop,) = (op for op in function.entry_block.operations if op.operation.name == "scf.for")
        assert privatization.is_taken_in_turn(loop.operation) != expected


@pytest.mark.usefixtures("many")
def test_a_users_schedule_is_shared_too():
    spec = tw.MatmulSpec(m=300, n=320, k=300, a="f32")

    def mine(spec, target, sizes):
        return unpacked(spec, target, sizes)

    kernel = tw.compile(spec, threads=2, schedule=mine)
    assert "omp.parallel" in kernel.asm["bufferized"]
    check(kernel, uniform(spec))


def test_matmul_takes_threads():
    a, b = np.ones((300, 200), np.float32), np.ones((200, 310), np.float32)
    assert (tw.matmul(a, b, threads=2) == 200).all()


@pytest.mark.usefixtures("many")
def test_python_threads_that_call_at_once():
    kernel = kernel_of(200, 210, 220, 2, "packed")
    operands = [uniform(kernel.spec, seed)[:2] for seed in range(4)]
    expected = [kernel(*each) for each in operands]
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda i: (i % 4, kernel(*operands[i % 4])), range(100))
        assert all((result == expected[i]).all() for i, result in results)


def test_one_thread_loads_no_openmp():
    in_new_process("""
        import tilewright as tw
        spec = tw.MatmulSpec(m=300, n=300, k=300, a="f32")
        tw.compile(spec)
        tw.compile(tw.MatmulSpec(m=8, n=8, k=8, a="f32"), threads=8)
        assert "libomp" not in open("/proc/self/maps").read()
        tw.compile(spec, threads=2)
        assert "libomp" in open("/proc/self/maps").read()
    """)


def test_gnu_openmp_of_the_process_runs_the_threads():
    # As in a process that has torch: a second runtime's threads would spin where those of the first should run.
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("no libgomp")
    in_new_process("""
        import ctypes, os
        import numpy as np
        gnu = ctypes.CDLL("libgomp.so.1")
        import tilewright as tw

        def check(kernel, tasks=None):
            before = len(os.listdir("/proc/self/task"))
            a, b = np.ones((kernel.spec.m, kernel.spec.k), np.float32), np.ones((kernel.spec.k, kernel.spec.n), np.float32)
            assert (kernel(a, b) == kernel.spec.k).all()
            assert tasks is None or len(os.listdir("/proc/self/task")) - before == tasks

        kernel = tw.compile(tw.MatmulSpec(m=300, n=310, k=320, a="f32"), threads=3)
        gnu.omp_set_num_threads(1)
        check(kernel, 0)
        gnu.omp_set_num_threads(3)
        check(kernel, 2)
        check(kernel, 0)
        for m, n, k in ((5, 3000, 700), (7, 7, 40000), (1000, 3, 999), (450, 64, 64)):
            check(tw.compile(tw.MatmulSpec(m=m, n=n, k=k, a="f32"), threads=3))
        child = os.fork()
        if child == 0:
            a, b = np.ones((300, 320), np.float32), np.ones((320, 310), np.float32)
            os._exit(0 if (kernel(a, b) == 320).all() else 1)
        assert os.waitpid(child, 0)[1] == 0, "a child has LLVM's runtime, not its parent's threads"
        check(kernel)
    """)


TASKS = """
    import os
    import numpy as np
    import tilewright as tw
    from threadpoolctl import threadpool_info, threadpool_limits

    spec = tw.MatmulSpec(m=300, n=310, k=320, a="f32")
    kernel = tw.compile(spec, threads=3)
    a, b = np.ones((300, 320), np.float32), np.ones((320, 310), np.float32)

    def tasks():
        before = len(os.listdir("/proc/self/task"))
        assert (kernel(a, b) == 320).all()
        return len(os.listdir("/proc/self/task")) - before
"""


def test_openmp_says_how_many_threads_there_are():
    in_new_process(
        TASKS
        + """
    assert any(each["prefix"] == "libomp" for each in threadpool_info())
    with threadpool_limits(limits=1, user_api="openmp"):
        assert tasks() == 0
    with threadpool_limits(limits=8, user_api="openmp"):
        assert tasks() == 2, "as many as asked for, and no more"
    """
    )


def test_the_environment_says_how_many_threads_there_are(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    in_new_process(TASKS + "    assert tasks() == 0\n")


@pytest.mark.parametrize("limit", [1, 2])
def test_a_fork_before_and_after(limit):
    # The parent's threads are not in the child, which makes its own.
    in_new_process(
        TASKS
        + f"""
    def call_in_child(depth=1):
        child = os.fork()
        if child == 0:
            wrong = not (kernel(a, b) == 320).all()
            if depth:
                call_in_child(depth - 1)
            os._exit(wrong)
        assert os.waitpid(child, 0)[1] == 0

    with threadpool_limits(limits={limit}, user_api="openmp"):
        call_in_child()
        tasks()
        call_in_child()
        assert (kernel(a, b) == 320).all()
    """
    )


def test_processes_of_multiprocessing():
    in_new_process(
        TASKS
        + """
    import multiprocessing

    def call(seed):
        return float(kernel(a, b)[seed, seed])

    with threadpool_limits(limits=3, user_api="openmp"):
        tasks()
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(call, range(12)) == [320.0] * 12
    """
    )


LITTLE_SPACE = """
    import resource

    def leave(megabytes):
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20),) * 2)
"""


@pytest.mark.parametrize("megabytes", [2, 12, 20, 200])
def test_a_call_uses_the_threads_that_there_is_room_for(megabytes):
    # OpenMP's runtime ends the process where it cannot make a thread.
    in_new_process(
        TASKS
        + LITTLE_SPACE
        + f"""
    with threadpool_limits(limits=3, user_api="openmp"):
        out = np.empty((300, 310), np.float32)
        leave({megabytes})
        before = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            assert (kernel(a, b, out=out) == 320).all()
        made = len(os.listdir("/proc/self/task")) - before
        assert made == 2 if {megabytes} == 200 else made < 2, made
    """
    )


def test_other_threads_and_children_have_room_too_or_do_without():
    in_new_process(
        TASKS
        + LITTLE_SPACE
        + """
    import threading

    with threadpool_limits(limits=3, user_api="openmp"):
        outs = [np.empty((300, 310), np.float32) for _ in range(3)]
        kernel(a, b, out=outs[0])

        def call():
            with threadpool_limits(limits=3, user_api="openmp"):
                started.wait()
                kernel(a, b, out=outs[1])

        started = threading.Event()
        other = threading.Thread(target=call)
        other.start()
        leave(1)
        started.set()
        other.join()
        child = os.fork()
        if child == 0:
            kernel(a, b, out=outs[2])
            os._exit(not (outs[2] == 320).all())
        assert os.waitpid(child, 0)[1] == 0
        kernel(a, b, out=outs[2])
        assert all((out == 320).all() for out in outs)
    """
    )


def test_no_openmp_runtime(monkeypatch):
    from tilewright.runtime import openmp

    class Runtime:
        openmp_file = staticmethod(str)

    monkeypatch.setattr(openmp, "_runtime", Runtime)
    with pytest.raises(tw.TilewrightError, match="no OpenMP runtime"):
        kernel_of(300, 310, 320, 2)


def test_the_model_runs_what_the_machine_has():
    cores = len(os.sched_getaffinity(0))
    kernel = kernel_of(300, 310, 320, cores)
    check(kernel, uniform(kernel.spec))
    assert 1 <= kernel.metadata.threads <= cores
