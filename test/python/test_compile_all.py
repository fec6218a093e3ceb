# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many kernels compiled side by side."""

import numpy as np
import pytest
import tilewright as tw


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


SPECS = [tw.MatmulSpec(4, 5, 6), tw.MatmulSpec(7, 8, 9, a="f64"), tw.MatmulSpec(4, 5, 6)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_kernels_come_in_order_and_equal_specs_are_one(jobs):
    told = []
    kernels = tw.compile_all(SPECS, jobs=jobs, progress=lambda done, count: told.append((done, count)))
    assert [kernel.spec for kernel in kernels] == SPECS
    assert kernels[0] is kernels[2]
    assert told == [(1, 2), (2, 2)]
    assert kernels[0].metadata.cached == (jobs == 2)  # others compiled it
    a, b = np.ones((7, 9)), np.ones((9, 8))
    assert (kernels[1](a, b) == 9).all()


def test_nothing_to_compile():
    assert tw.compile_all([]) == []


@pytest.mark.parametrize("jobs", [0, -1, "2", True, 1.5])
def test_wrong_jobs_are_refused(jobs):
    with pytest.raises(tw.TilewrightError, match=r"jobs is .*expected an int above zero"):
        tw.compile_all(SPECS, jobs=jobs)


def test_kernels_of_a_python_function_cannot_be_handed_over():
    with pytest.raises(tw.ScheduleError, match="not kept in the cache"):
        tw.compile_all(SPECS, schedule=lambda spec, target, parameters: pytest.fail("called"))


def test_without_the_cache_processes_cannot_hand_over(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_NO_CACHE", "1")
    with pytest.raises(tw.TilewrightError, match="cache is switched off"):
        tw.compile_all(SPECS, jobs=2)
    assert len(tw.compile_all(SPECS, jobs=1)) == 3


def test_the_failure_of_another_process_is_ours():
    with pytest.raises(tw.ScheduleError, match=r"any number or length; expected an N and a K"):
        tw.compile_all([tw.MatmulSpec(8, None, 8), tw.MatmulSpec(9, None, 8)], schedule="inner_product", jobs=2)
