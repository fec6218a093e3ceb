# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of decisions: the choice of strategies, models of sizes, and targets."""

from __future__ import annotations

from mutant import Mutant

ROWS = (
    Mutant(
        "schedules/models/register_tiles.py",
        "return lanes // target.passes if part * _NARROW_GAIN < whole else lanes",
        "return lanes",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/register_tiles.py",
        "return min(lanes, narrow) if 0 < rest <= narrow and may_be_narrow(spec, target) else lanes",
        "return lanes",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/few_columns.py",
        "        losses *= _IN_FEW_SETS\n",
        "        pass\n",
        ("test_few_columns.py",),
    ),
    Mutant(
        "schedules/models/scaled_blocks.py",
        "    except ScheduleError:\n        return False\n    return True",
        "    except ScheduleError:\n        return True\n    return True",
        ("test_scaled_sums.py",),
    ),
    Mutant(
        "tuning/candidates.py",
        "sizes = start.blocking if name == start.strategy else _model_sizes(",
        "sizes = _model_sizes(",
        ("test_scaled_sums.py",),
    ),
    Mutant(
        "schedules/models/pays.py",
        "most_along_k(spec, target) and 2 * lanes * spec.m <= spec.k\n",
        "most_along_k(spec, target)\n",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/pays.py",
        "taken == target.dot(spec.a_type.name, spec.b_type.name).depth else _FEW_ROWS",
        "taken else _FEW_ROWS",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/pays.py",
        "NARROW_PRODUCTS // dot.depth // 2\n",
        "NARROW_PRODUCTS // dot.depth\n",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/pays.py",
        "spec.m > _MOST_ROW_TILES * rows or spec.rows_of_b != spec.m:",
        "spec.m > _MOST_ROW_TILES * rows:",
        ("test_shape_classes.py", "test_batches.py"),
    ),
    Mutant(
        "schedules/models/pays.py",
        "return spec.n <= widest and spec.n <= blocking.unpacked_blocking(spec, target).nr",
        "return spec.n < blocking.unpacked_blocking(spec, target).nr",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/blocking.py",
        "    return next((depth for depth in (kc, *depths) if mr <= rows_in_l1(target, depth * element_bytes)), kc)\n",
        "    return kc\n",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/blocking.py",
        "        mr -= dot.rows  # a whole number of the instruction's rows, or it would take another one, and other panels\n",
        "        mr -= 1\n",
        ("test_pack_b.py",),
    ),
    Mutant(
        "schedules/models/blocking.py",
        "    b_bytes //= spec.products\n",
        "",
        ("test_shape_classes.py",),
    ),
    Mutant(
        "schedules/models/threads.py",
        "    if spec.matrices < threads:\n        return False\n",
        "",
        ("test_threads.py", "test_batches.py"),
    ),
    Mutant(
        "schedules/models/threads.py",
        "else even(spec.m, blocking.mc * threads, blocking.mr)",
        "else blocking.mc",
        ("test_threads.py",),
    ),
    Mutant(
        "schedules/models/space.py",
        "    major = [each for each in axes if not each.minor]\n",
        "    major = list(axes)\n",
        ("test_knobs.py",),
    ),
    Mutant(
        "lowering/passes/unroll.py",
        "min(asked, trips or asked)",
        "1",
        ("test_knobs.py",),
    ),
    Mutant(
        "schedules/steps/knobs.py",
        "[lambda: [nest(False)], lambda: [nest(True)]]",
        "[lambda: [nest(False)], lambda: [nest(False)]]",
        ("test_knobs.py",),
    ),
    Mutant(
        "schedules/cpu/packed.py",
        "        loops = [*order, *rest]\n",
        "        loops = [*blocks, *rest]\n",
        ("test_knobs.py",),
    ),
    Mutant(
        "schedules/models/space.py",
        "slice(max(at - 1, 0), at + 2) if axis.ranked else slice(None)",
        "slice(max(at - 1, 0), at + 2)",
        ("test_knobs.py",),
    ),
    Mutant(
        "schedules/models/threads.py",
        "min(threads, int(cycles(spec, target) / LEAST_CYCLES))",
        "threads",
        ("test_threads.py",),
    ),
    Mutant(
        "schedules/regions.py",
        "near, far = (middle, far) if choice(*middle) == name else (near, middle)",
        "near, far = near, middle",
        ("test_regions.py",),
    ),
    Mutant(
        "schedules/models/open_extents.py",
        "many = target.by_lane or call.m > _UNPACKED_ROWS",
        "many = True",
        ("test_regions.py",),
    ),
    Mutant(
        "schedules/steps/knobs.py",
        "return nest(bool(spec.dynamic and now.order))",
        "return nest(False)",
        ("test_dynamic.py",),
    ),
    Mutant(
        "schedules/select.py",
        "one and divided_by(spec.k, dots[0].step)",
        "one",
        ("test_deterministic.py",),
    ),
    Mutant(
        "schedules/select.py",
        "    if spec.deterministic and STRATEGIES[name].own_order and spec.n != 1:\n",
        "    if False:\n",
        ("test_deterministic.py",),
    ),
    Mutant(
        "schedules/models/tiles.py",
        "down * across + min(down, across) + 1 <= _REGISTERS",
        "down * across + min(down, across) <= _REGISTERS",
        ("test_tiles.py",),
    ),
    Mutant(
        "schedules/select.py",
        'given["kc"] <= dot.step < most(spec.k)',
        'given["kc"] < dot.step < most(spec.k)',
        ("test_amx.py", "test_schedule_errors.py"),
    ),
    Mutant(
        "schedules/models/scaled_blocks.py",
        "return not found.group or found.group & (found.group - 1) == 0",
        "return True",
        ("test_scaled_sums.py",),
    ),
    Mutant(
        "schedules/models/scaled_blocks.py",
        "return enough and fits(spec) and spec.m <= _most_paid(spec, target)",
        "return enough and fits(spec)",
        ("test_scaled_sums.py",),
    ),
    Mutant(
        "schedules/models/scalable_blocks.py",
        "    longer = target.scalable_group > target.vector_bits\n",
        "    longer = target.scalable_group >= target.vector_bits\n",
        ("test_scalable.py",),
    ),
    Mutant(
        "schedules/models/outer_blocks.py",
        "return row.down * lanes, row.across * lanes",
        "return row.across * lanes, row.down * lanes",
        ("test_sme.py",),
    ),
    Mutant(
        "schedules/models/far_columns.py",
        "rows = _ROWS_OF_BYTES if spec.b_stored.bits <= 8 else _ROWS",
        "rows = _ROWS_OF_BYTES",
        ("test_far_columns.py",),
    ),
    Mutant(
        "targets/x86.py",
        '"abm": ("lzcnt",),',
        '"abm": ("lzcnt", "bmi2"),',
        ("test_targets.py",),
    ),
    Mutant(
        "targets/base.py",
        "row.features <= self.features and row.bits == self.vector_bits",
        "row.features <= self.features",
        ("test_dots.py", "test_targets.py"),
    ),
    Mutant(
        "targets/host.py",
        "sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges) or 1",
        "sum(int(ends[-1]) - int(ends[0]) for ends in ranges) or 1",
        ("test_host.py",),
    ),
    Mutant(
        "targets/host.py",
        "    if l1.bytes > l2.bytes:\n",
        "    if False:\n",
        ("test_host.py",),
    ),
    Mutant(
        "targets/amx.py",
        'if "amx_tile" not in flags or granted():',
        'if "amx_tile" not in flags or True:',
        ("test_amx_permission.py", "test_host.py"),
    ),
    Mutant(
        "targets/outer_products.py",
        '_row("sumopa", "sumopa_4way", "i8", "u8", 4)',
        '_row("sumopa", "sumopa_4way", "u8", "i8", 4)',
        ("test_sme.py",),
    ),
)
