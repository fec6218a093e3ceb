# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the stages after lowering: texts and objects, the runtime, measurements and the command line."""

from __future__ import annotations

from mutant import Mutant

ROWS = (
    Mutant("emit/versions.py", "        digest.update(text)\n", "", ("test_cache_key.py",)),
    Mutant(
        "emit/versions.py",
        "return all(version_of(file) == version for file, version in found.items())",
        "return any(version_of(file) == version for file, version in found.items())",
        ("test_cache_key.py", "test_compile_cache.py"),
    ),
    Mutant(
        "emit/hotloop.py",
        "key=lambda loop: (loop.flops, loop.depth, -len(loop.instructions))",
        "key=lambda loop: (loop.flops, loop.depth, len(loop.instructions))",
        ("test_hotloop.py",),
    ),
    Mutant(
        "emit/hotloop.py",
        "sum(each.uses_stack or each.base in frame for each in instructions)",
        "sum(each.uses_stack for each in instructions)",
        ("test_hotloop.py", "test_arm_text.py"),
    ),
    Mutant(
        "emit/mca.py",
        "cycles = max(steady, tile_model.chain(loop), *busy.values())",
        "cycles = max(steady, *busy.values())",
        ("test_amx.py", "test_hotloop.py", "emit/sapphirerapids.test"),
    ),
    Mutant(
        "emit/za_state.py",
        'return "aarch64_new_za" in llvmir',
        "return False",
        ("test_sme.py",),
    ),
    Mutant(
        "emit/ptxas.py",
        "_ADVICE.search(line) or not _ORDINARY.match(line)",
        "not _ORDINARY.match(line)",
        ("test_bench_card.py", "test_gpu_warpgroup.py"),
    ),
    Mutant(
        "emit/gpu_stages.py",
        '        "row_multiple": stages.row_multiple,\n',
        '        "row_multiple": 1,\n',
        ("test_gpu_cache.py",),
    ),
    Mutant(
        "runtime/compile_module.py",
        'kind="module", problem=text, target=row, threads=threads, plain=plain)',
        'kind="module", problem=text, target=row, threads=threads)',
        ("test_cache_key.py",),
    ),
    Mutant(
        "runtime/compile_module.py",
        'kind="chain", problem=stages, target=row, threads=threads)',
        'kind="chain", problem=stages, target=row)',
        ("test_cache_key.py",),
    ),
    Mutant(
        "runtime/operators.py",
        "parameters=sizes, threads=threads)",
        "threads=threads)",
        ("test_cache_key.py",),
    ),
    Mutant(
        "runtime/operators.py",
        "target=row, own=own, parameters",
        "target=row, parameters",
        ("test_operator_schedules.py",),
    ),
    Mutant(
        "runtime/made_product.py",
        "        cases=plan.cases,\n",
        "",
        ("test_cache_key.py",),
        equivalent="the cases follow from the spec, the target, the sizes and the sources, which are in the key",
    ),
    Mutant(
        "runtime/matmul.py",
        "a.shape[-2] == 1 and a.strides[-3] >= a.shape[-1] * a.itemsize else a",
        "a.shape[-2] == 1 else a",
        ("test_compile.py", "test_batches.py"),
    ),
    Mutant(
        "runtime/cache_key.py",
        "return f\"{{{', '.join(sorted(map(_text, value)))}}}\"",
        'return f"{{{len(value)}}}"',
        ("test_cache_key.py",),
    ),
    Mutant(
        "runtime/cache_key.py",
        'return found if found is not None and versions.are_unchanged(found.header.get("libraries")) else None',
        "return found",
        ("test_compile_cache.py",),
    ),
    Mutant(
        "runtime/cache.py",
        "            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):\n",
        "            if status.st_mode & stat.S_IWGRP:\n",
        ("test_cache.py",),
    ),
    Mutant(
        "runtime/cache.py",
        "                os.utime(file)\n",
        "                os.fstat(file)\n",
        ("test_cache.py",),
    ),
    Mutant(
        "runtime/cache.py",
        "if (magic, version, written_for) != (_MAGIC, _VERSION, digest):",
        "if (magic, version) != (_MAGIC, _VERSION):",
        ("test_cache.py",),
    ),
    Mutant(
        "standalone/packed_b.py",
        "        _require_size(form, file.readinto(array))  # type: ignore[attr-defined]\n",
        "        file.readinto(array)  # type: ignore[attr-defined]\n",
        ("test_pack_b.py",),
    ),
    Mutant(
        "runtime/emulated_call.py",
        "            if operand.written:\n",
        "            if True:\n",
        ("test_emulated.py",),
    ),
    Mutant(
        "runtime/emulators.py",
        "return _version(emulator.path) >= _RIGHT_BYTES",
        "return True",
        ("test_emulated.py", "test_sme.py"),
    ),
    Mutant(
        "bench/timing.py",
        "range(int(first), int(last or first) + 1)",
        "range(int(first), int(last or first))",
        ("test_bench_timing.py",),
    ),
    Mutant(
        "bench/timing.py",
        "        while seconds < self._least:\n",
        "        while False:\n",
        ("test_bench_timing.py",),
    ),
    Mutant(
        "bench/turns.py",
        "_TOO_SLOW * fastest and lasted[name] > _LONG_SAMPLE}",
        "_TOO_SLOW * fastest}",
        ("test_bench_measure.py",),
    ),
    Mutant(
        "bench/rows.py",
        "place = (len(ordered) - 1) * percent / 100",
        "place = len(ordered) * percent / 100",
        ("test_bench_report.py", "test_bench_run.py", "test_bench_compare.py"),
    ),
    Mutant(
        "bench/rows.py",
        "min(peak, stream * intensity) for peak, stream",
        "max(peak, stream * intensity) for peak, stream",
        ("test_bench_report.py", "test_bench_run.py"),
    ),
    Mutant(
        "bench/compare.py",
        "after[key].high < before[key].low * (1 - tolerance)",
        "after[key].median < before[key].low * (1 - tolerance)",
        ("test_bench_compare.py",),
    ),
    Mutant(
        "bench/checks.py",
        "return self.sums + kind.roundoff * (np.abs(self.product) + self.sums)",
        "return self.sums + kind.roundoff * np.abs(self.product)",
        ("test_bench_measure.py",),
    ),
    Mutant(
        "bench/peak.py",
        "return self._units * steps / seconds",
        "return self._units / seconds",
        ("test_bench_peak.py",),
    ),
    Mutant(
        "bench/suites.py",
        "    if 0 in (m, n, k):\n",
        "    if (m, n, k) == (0, 0, 0):\n",
        ("test_bench_suites.py",),
    ),
    Mutant("cli/run.py", "        right = right and outcome.right\n", "", ("test_cli_run.py",)),
    Mutant(
        "runtime/trial.py",
        "        part = np.where(np.isnan(part), np.inf, part)\n",
        "",
        ("test_verify.py", "test_cli_run.py"),
    ),
    Mutant(
        "runtime/files.py",
        "            if mode is not None:\n                temporary.chmod(mode)\n",
        "",
        ("test_cli_usage.py", "test_cli_compile.py", "test_cli_bench.py"),
    ),
    Mutant(
        "dims.py",
        'r"(?P<size>[0-9]{1,20})|',
        'r"(?P<size>[0-9]{1,3})|',
        ("test_cli_usage.py", "test_cli_run.py"),
    ),
    Mutant("distributed/native.py", "beta=int(fill is None)", "beta=0", ("test_distributed.py",)),
    Mutant(
        "distributed/native.py",
        "        last.operands[0] = arith.select(fine, arith.subi(none, code_), status)\n",
        "",
        ("test_distributed.py",),
    ),
    Mutant("distributed/partition.py", " ^ turned[operand]", "", ("test_distributed.py",)),
    Mutant(
        "records/lookup.py",
        "found = None if database is None else database.latest(key, said, threads)",
        "found = None if database is None else next(iter(database.of(key, said, threads)), None)",
        ("test_tuned.py", "test_tuning.py"),
    ),
    Mutant("records/machine.py", '        "caches": caches,\n', "", ("test_records.py", "test_nearest.py")),
    Mutant(
        "records/nearest.py",
        '    if one.get("triple") != other.get("triple"):\n        return math.inf\n',
        "",
        ("test_nearest.py",),
    ),
    Mutant(
        "records/nearest.py",
        "key=lambda each: each[:2])",
        "key=lambda each: (-each[0], each[1]))",
        ("test_nearest.py",),
    ),
    Mutant(
        "tuning/candidates.py", "return bool(known) and not spec.b_packed", "return bool(known)", ("test_nearest.py",)
    ),
)
