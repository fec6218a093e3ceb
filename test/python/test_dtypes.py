# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types: the rows are consistent with numpy and with each other, and unknown names are told apart."""

import dataclasses
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from tilewright.dtypes import COMBINATIONS, DTYPES, DType, dtype, from_numpy, to_numpy
from tilewright.errors import SpecError

ROWS = list(DTYPES.values())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row_agrees_with_numpy(row):
    numpy_type = to_numpy(row)
    assert numpy_type.name == row.numpy
    assert numpy_type.itemsize == row.bytes
    assert from_numpy(numpy_type) is row
    if row.part is not None:
        assert (row.roundoff, row.bits) == (dtype(row.part).roundoff, 2 * dtype(row.part).bits)
        assert numpy_type == np.result_type(to_numpy(dtype(row.part)), np.complex64)
    elif row.kind == "float":
        assert row.roundoff == float(ml_dtypes.finfo(numpy_type).eps) / 2
    else:
        assert (ml_dtypes.iinfo(numpy_type).min < 0) == (row.kind == "int")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row_is_found_by_name_and_sums_in_a_known_type_at_least_as_wide(row):
    assert dtype(row.name) is row
    assert str(row) == row.name
    assert dtype(row.accumulator).bits >= row.bits


@pytest.mark.parametrize("types", COMBINATIONS, ids=str)
def test_combinations_sum_in_the_accumulator_of_both_operands(types):
    assert dtype(types.a).accumulator == dtype(types.b).accumulator == types.acc
    assert dtype(types.c).bits <= dtype(types.acc).bits
    assert str(types).startswith(f"{types.a}×{types.b}→{types.c}")


def test_table_and_rows_are_read_only():
    with pytest.raises(TypeError):
        DTYPES["f8"] = DTYPES["f32"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        DTYPES["f32"].bits = 16  # type: ignore[misc]
    assert hash(DTYPES["f32"]) == hash(dataclasses.replace(DTYPES["f32"]))


@pytest.mark.parametrize("name", ["f8", "F32", "", None, 32, np.float32, ["f32"], "s8"])
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(SpecError, match="one of f32, f64"):
        dtype(name)


def test_numpys_spelling_is_explained():
    for name, spelled in (("float32", "f32"), ("bfloat16", "bf16"), ("uint8", "u8")):
        with pytest.raises(SpecError, match=f"Write '{spelled}'"):
            dtype(name)


def test_foreign_and_swapped_numpy_types_are_refused():
    with pytest.raises(SpecError, match="int16"):
        from_numpy(np.dtype(np.int16))
    with pytest.raises(SpecError, match="bytes swapped"):
        from_numpy(np.dtype(np.float32).newbyteorder())
    with pytest.raises(SpecError, match="bytes swapped"):
        from_numpy(np.dtype(ml_dtypes.bfloat16).newbyteorder())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"bits": 0}, "0 bits"),
        ({"bits": 3}, "3 bits wide; expected 4, or a multiple of 8"),
        ({"numpy_module": "ml_dtypes"}, "no code of DLPack's"),
        ({"roundoff": None}, "roundoff None"),
        ({"roundoff": 1.5}, "roundoff 1.5"),
        ({"kind": "int"}, "expected None"),
    ],
)
def test_rows_check_themselves(change, match):
    with pytest.raises(SpecError, match=match):
        dataclasses.replace(DTYPES["f32"], **change)


def test_bytes_round_up():
    assert DType("i4", 4, "int", mlir="i4", numpy="int4", roundoff=None, accumulator="i32").bytes == 1


def test_module_does_not_import_numpy():
    code = "import sys, tilewright.dtypes; sys.exit('numpy' in sys.modules or 'ml_dtypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0
