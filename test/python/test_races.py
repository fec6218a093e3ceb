# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which loops may be shared between threads: what is proven, and what is refused."""

import pytest
from tilewright.lowering.passes import parallel, races
from tilewright.mlir import ir
from tilewright.mlir.dialects import func

MAPS = """
#panel = affine_map<(d0) -> (d0 ceildiv 8)>
#sum = affine_map<()[s0, s1] -> (s0 + s1)>
#short = affine_map<(d0)[s0] -> (-d0 + s0, 8)>
"""
HEAD = """
  func.func @f(%a: memref<64x64xf32>, %c: memref<64x64xf32>, %n: index, %v: vector<8xf32>, %i: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %eight = arith.constant 8 : index
    %end = arith.constant 64 : index
    %pad = arith.constant 0.0 : f32
    %p = memref.alloc() : memref<8x64xf32>
"""


@pytest.fixture
def loops():
    """A function that makes the loops, outermost first, of a function with a given body; its modules live with the test."""
    modules = []

    def make(body: str) -> list[ir.Operation]:
        module = ir.Module.parse(MAPS + HEAD + body + "return }")
        modules.append(module)
        found: list[ir.Operation] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "scf.for":
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found

    with ir.Context(), ir.Location.unknown():
        yield make


def step(start: str, size: str) -> str:
    """A loop in steps of eight that writes `size` elements of a row from `start`."""
    return f"""
    scf.for %j = %zero to %end step %eight {{
      %x = affine.apply #panel(%j)
      %y = affine.apply #sum()[%j, %i]
      %s = memref.subview %c[%i, {start}] [1, {size}] [1, 1]
        : memref<64x64xf32> to memref<1x{size}xf32, strided<[64, 1], offset: ?>>
      %w = arith.constant dense<1.0> : vector<{size}xf32>
      vector.transfer_write %w, %s[%zero, %zero] : vector<{size}xf32>, memref<1x{size}xf32, strided<[64, 1], offset: ?>>
    }}
    """


@pytest.mark.parametrize(("start", "size", "expected"), [
    ("%j", 8, True),  # each iteration its own eight
    ("%y", 8, True),  # moved by something that does not change
    ("%x", 1, True),  # each its own panel
    ("%j", 9, False),  # reaches into the next iteration's
    ("%x", 2, False),
    ("%i", 8, False),  # all the same
])  # fmt: skip
def test_slices(loops, start, size, expected):
    (loop,) = loops(step(start, str(size)))
    assert races.is_parallel(loop) is expected


def test_a_short_last_slice_is_bounded(loops):
    (loop,) = loops("""
    scf.for %j = %zero to %n step %eight {
      %size = affine.min #short(%j)[%n]
      %s = memref.subview %c[0, %j] [64, %size] [1, 1]
        : memref<64x64xf32> to memref<64x?xf32, strided<[64, 1], offset: ?>>
      vector.transfer_write %v, %s[%i, %zero] : vector<8xf32>, memref<64x?xf32, strided<[64, 1], offset: ?>>
    }
    """)
    assert races.is_parallel(loop)


@pytest.mark.parametrize(
    ("read", "expected"), [("%c[%i, %j]", True), ("%c[%i, %zero]", False), ("%a[%i, %zero]", True)]
)
def test_what_is_written_may_not_be_read_elsewhere(loops, read, expected):
    (loop,) = loops(f"""
    scf.for %j = %zero to %end step %eight {{
      %r = vector.transfer_read {read}, %pad {{in_bounds = [true]}} : memref<64x64xf32>, vector<8xf32>
      vector.transfer_write %r, %c[%i, %j] {{in_bounds = [true]}} : vector<8xf32>, memref<64x64xf32>
    }}
    """)
    assert races.is_parallel(loop) is expected


@pytest.mark.parametrize("body", [
    "%s = memref.load %a[%i, %i] : memref<64x64xf32>\n memref.store %s, %c[%i, %i] : memref<64x64xf32>",
    "func.call @f(%a, %c, %n, %v, %i) : (memref<64x64xf32>, memref<64x64xf32>, index, vector<8xf32>, index) -> ()",
    "%w = scf.if %t -> memref<64x64xf32> { scf.yield %a : memref<64x64xf32> } else { scf.yield %c : memref<64x64xf32> }\n"
    "%s = memref.load %a[%i, %i] : memref<64x64xf32>\n memref.store %s, %w[%i, %j] : memref<64x64xf32>",
])  # fmt: skip
def test_what_is_not_understood_is_refused(loops, body):
    (loop,) = loops(f"%t = arith.cmpi eq, %i, %zero : index\n scf.for %j = %zero to %end step %one {{ {body} }}")
    assert not races.is_parallel(loop)


def test_writes_to_a_buffer_nobody_knows_are_refused(loops):
    (loop,) = loops("""
    %t = arith.cmpi eq, %i, %zero : index
    %w = arith.select %t, %a, %c : memref<64x64xf32>
    scf.for %j = %zero to %end step %eight {
      vector.transfer_write %v, %w[%i, %i] : vector<8xf32>, memref<64x64xf32>
    }
    """)
    assert not races.is_parallel(loop)


def test_every_other_element_reaches_twice_as_far(loops):
    (loop,) = loops("""
    scf.for %j = %zero to %end step %eight {
      %s = memref.subview %c[%i, %j] [1, 8] [1, 2] : memref<64x64xf32> to memref<1x8xf32, strided<[64, 2], offset: ?>>
      %w = memref.load %a[%i, %i] : memref<64x64xf32>
      memref.store %w, %s[%zero, %i] : memref<1x8xf32, strided<[64, 2], offset: ?>>
    }
    """)
    assert not races.is_parallel(loop)


def test_a_panel_of_what_is_moved_is_refused(loops):
    # (j + 4) / 8 rounded up is panel j / 8 + 1: known, but not to be the loop's own.
    (loop,) = loops(step("%x", "1").replace("#panel(%j)", "affine_map<(d0) -> ((d0 + 4) ceildiv 8)>(%j)"))
    assert not races.is_parallel(loop)


def test_a_sum_is_refused(loops):
    (loop,) = loops("""
    %sum = scf.for %j = %zero to %end step %one iter_args(%s = %v) -> (vector<8xf32>) {
      %t = arith.addf %s, %v : vector<8xf32>
      scf.yield %t : vector<8xf32>
    }
    vector.transfer_write %sum, %c[%i, %i] : vector<8xf32>, memref<64x64xf32>
    """)
    assert not races.is_parallel(loop)


def test_a_division_of_a_loop_that_starts_elsewhere_is_refused(loops):
    # 4 and 12, 20, …: the panels of 5 to 8 are those of 8.
    (loop,) = loops(step("%x", "1").replace("%zero to", "%four to"))
    assert not races.is_parallel(loop)


@pytest.mark.parametrize(("start", "expected"), [("%j", True), ("%moved", False)])
def test_a_loop_that_is_run_again_and_again(loops, start, expected):
    # Each thread may run the outer loop with its own part of the inner one, unless the outer one moves what is written.
    outer, inner = loops(f"""
    scf.for %k = %zero to %end step %eight {{
      scf.for %j = %zero to %end step %eight {{
        %moved = affine.apply #sum()[%j, %k]
        %r = vector.transfer_read %c[%i, {start}], %pad {{in_bounds = [true]}} : memref<64x64xf32>, vector<8xf32>
        vector.transfer_write %r, %c[%i, {start}] {{in_bounds = [true]}} : vector<8xf32>, memref<64x64xf32>
      }}
    }}
    """)
    assert not races.is_parallel(outer)
    assert races.is_parallel(inner)
    assert races.is_parallel(inner, outer) is expected


@pytest.mark.parametrize(("inner", "start", "expected"), [
    ("%zero to %eight step %four", "%j, %k", True),  # four of the eight of each iteration
    ("%zero to %short step %four", "%j, %k", True),  # as many as there are, eight at most
    ("%four to %eight step %four", "%j, %k", True),
    ("%eight to %end step %end", "%j, %k", False),  # of the next iteration
    ("%zero to %twelve step %four", "%j, %k", False),  # reaches into the next iteration's
    ("%zero to %n step %four", "%j, %k", False),  # nobody knows how far
    ("%zero to %eight step %n", "%j, %k", False),
    ("%zero to %eight step %four", "%j, %i", False),  # moved by something else: not the other write's slice
])  # fmt: skip
def test_what_a_loop_inside_moves_lies_in_all_that_it_reaches(loops, inner, start, expected):
    loop, _ = loops(f"""
    %twelve = arith.constant 12 : index
    %w = arith.constant dense<1.0> : vector<4xf32>
    scf.for %j = %zero to %end step %eight {{
      %short = affine.min #short(%j)[%n]
      vector.transfer_write %v, %c[%i, %j] {{in_bounds = [true]}} : vector<8xf32>, memref<64x64xf32>
      scf.for %k = {inner} {{
        %x = affine.apply #sum()[{start}]
        vector.transfer_write %w, %c[%i, %x] {{in_bounds = [true]}} : vector<4xf32>, memref<64x64xf32>
      }}
    }}
    """)
    assert races.is_parallel(loop) is expected


@pytest.mark.parametrize(("more", "expected"), [(0, True), (4, False)])
def test_slices_of_an_iteration_may_lie_apart_within_its_step(loops, more, expected):
    loop, _ = loops(f"""
    %w = arith.constant dense<1.0> : vector<4xf32>
    scf.for %j = %zero to %end step %eight {{
      vector.transfer_write %w, %c[%i, %j] {{in_bounds = [true]}} : vector<4xf32>, memref<64x64xf32>
      scf.for %k = %four to %eight step %four {{
        %y = affine.apply #sum()[%j, %k]
        %x = affine.apply affine_map<()[s0] -> (s0 + {more})>()[%y]
        vector.transfer_write %w, %c[%i, %x] {{in_bounds = [true]}} : vector<4xf32>, memref<64x64xf32>
      }}
    }}
    """)
    assert races.is_parallel(loop) is expected


def test_a_moved_slice_that_reaches_the_next_iterations_is_refused(loops):
    (loop,) = loops("""
    scf.for %j = %zero to %end step %eight {
      %x = affine.apply #sum()[%j, %four]
      %r = vector.transfer_read %c[%i, %x], %pad {in_bounds = [true]} : memref<64x64xf32>, vector<8xf32>
      vector.transfer_write %r, %c[%i, %j] {in_bounds = [true]} : vector<8xf32>, memref<64x64xf32>
    }
    """)
    assert not races.is_parallel(loop)


def test_a_loop_inside_that_goes_back_is_refused(loops):
    loop, _ = loops("""
    %w = arith.constant dense<1.0> : vector<4xf32>
    scf.for %j = %zero to %end step %eight {
      scf.for %k = %zero to %eight step %four {
        %x = affine.apply affine_map<()[s0, s1] -> (s0 - s1)>()[%j, %k]
        vector.transfer_write %w, %c[%i, %x] {in_bounds = [true]} : vector<4xf32>, memref<64x64xf32>
      }
    }
    """)
    assert not races.is_parallel(loop)


def test_a_step_that_is_not_known_is_refused(loops):
    (loop,) = loops("%size = affine.min #short(%zero)[%n]\n" + step("%j", "8").replace("step %eight", "step %size"))
    assert not races.is_parallel(loop)


PRIVATE = """
    scf.for %j = %zero to %end step %one {{
      {before}
      vector.transfer_write %w, %p[%zero, %zero] {{in_bounds = [true, true]}} : vector<8x64xf32>, memref<8x64xf32>
      %r = memref.load %p[%i, %i] : memref<8x64xf32>
      memref.store %r, %c[%j, %i] : memref<64x64xf32>
    }}
    {after}
"""
WIDE = "%w = arith.constant dense<1.0> : vector<8x64xf32>\n"
READ = "%q = memref.load %p[%i, %i] : memref<8x64xf32>"


@pytest.mark.parametrize(("before", "after", "expected"), [("", "", True), (READ, "", False), ("", READ, False)])
def test_private_buffers_are_written_first_and_used_nowhere_else(loops, before, after, expected):
    (loop,) = loops(WIDE + PRIVATE.format(before=before, after=after))
    assert bool(races.private_buffers(loop)) is expected
    assert races.is_parallel(loop) is expected


@pytest.mark.parametrize(("row", "expected"), [(56, True), (55, False), (48, False)])
def test_the_rest_after_a_loop(loops, row, expected):
    loop, rest = loops(f"""
    %last = arith.constant {row} : index
    %stop = arith.constant 50 : index
    scf.for %j = %zero to %stop step %eight {{
      scf.for %k = %zero to %eight step %one {{
        %row = affine.apply #sum()[%j, %k]
        %s = memref.subview %c[%j, 0] [8, 64] [1, 1] : memref<64x64xf32> to memref<8x64xf32, strided<[64, 1], offset: ?>>
        vector.transfer_write %v, %s[%k, %zero] : vector<8xf32>, memref<8x64xf32, strided<[64, 1], offset: ?>>
      }}
    }}
    scf.for %k = %zero to %one step %one {{
      vector.transfer_write %v, %c[%last, %zero] : vector<8xf32>, memref<64x64xf32>
    }}
    """)[::2]
    assert races.are_apart(loop, [rest]) is expected


@pytest.mark.parametrize(("outer", "inner", "threads", "expected"), [
    ((10, 64), (100, 6), 1, (1, 1)),
    ((12, 64), (22, 6), 2, (2, 1)),  # 132 rows of 768 columns: the longer side
    ((12, 64), (400, 6), 2, (1, 2)),
    ((3, 64), (22, 6), 2, (1, 2)),  # two panels for one thread and one for the other would not be fair
    ((1, 64), (5, 6), 16, (1, 5)),  # no part without work
    ((4, 8), (4, 8), 16, (4, 4)),
    ((100, 64), (1000, 6), 4, (2, 2)),
    ((3, 8), (1000, 1), 7, (1, 7)),
])  # fmt: skip
def test_grid(outer, inner, threads, expected):
    split = parallel.grid(parallel.Extent(*outer), parallel.Extent(*inner), threads)
    assert (split.outer, split.inner) == expected


@pytest.mark.parametrize(("rows", "regions"), [(32, 1), (33, 0)])
def test_threads_keep_little_on_their_stacks(loops, rows, regions):
    """A buffer of each iteration's own becomes a thread's, on its stack, which may have no more than 2 MiB: 16 KiB at most."""
    kind = f"memref<{rows}x64xf32>"
    (loop,) = loops(f"""
    %w = arith.constant dense<1.0> : vector<{rows}x64xf32>
    %own = memref.alloc() : {kind}
    scf.for %j = %zero to %end step %one {{
      vector.transfer_write %w, %own[%zero, %zero] {{in_bounds = [true, true]}} : vector<{rows}x64xf32>, {kind}
      %r = memref.load %own[%i, %i] : {kind}
      memref.store %r, %c[%j, %i] : memref<64x64xf32>
    }}
    """)
    function = loop.parent.opview
    assert isinstance(function, func.FuncOp)
    assert races.is_parallel(loop)
    assert parallel.share(function, 2) == regions
    assert str(function).count("memref.alloca(") == regions


def test_nothing_to_share_changes_nothing(loops):
    (loop,) = loops(step("%j", "8"))  # too little work
    function = loop.parent.opview
    assert isinstance(function, func.FuncOp)
    before = str(function)
    assert parallel.share(function, 4) == 0
    assert str(function) == before
