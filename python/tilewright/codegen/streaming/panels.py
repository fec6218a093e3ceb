# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions of SME's streaming mode that pack panels, as MLIR text: see `streaming`.

A panel has the rows of A, or columns of B, that a block of tiles multiplies at once: for each group of `OuterProduct.depth`
elements of K, the groups of all of them side by side. So the hot loop reads both operands in order.
"""

from __future__ import annotations

from tilewright.dtypes import DType
from tilewright.targets.outer_products import OuterProduct

PACK_ROWS = "pack_panels_across"
"""Packs a matrix of (rows, k) whose neighbors lie along k."""
PACK_COLUMNS = "pack_panels_along"
"""Packs a matrix of (k, rows) whose neighbors lie along the rows, as they do in a panel."""

_MATRIX = "memref<?x?x{element}, strided<[?, 1], offset: ?>>"


def matrix(element: str) -> str:
    """The type of a matrix operand of these functions, of MLIR type `element`."""
    return _MATRIX.format(element=element)


def pack_name(function: str, side: int) -> str:
    """The name of the function that packs A (`side` 0) or B (1)."""
    return f"{function}_{'ab'[side]}"


def pack_text(function: str, side: int, element: DType, outer: OuterProduct, attributes: str) -> str:
    """`PACK_ROWS` or `PACK_COLUMNS` for panels of A or B, as MLIR text.

    Elements are moved as integers of their width, groups as words.
    """
    make = _pack_rows if function == PACK_ROWS else _pack_columns
    vectors = (outer.down, outer.across)[side]
    return make(pack_name(function, side), f"i{element.bits}", element.bits, vectors, outer, attributes)


def sizes(vectors: int, outer: OuterProduct) -> str:
    """Constants; words in a vector; rows of a panel."""
    return f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %depth = arith.constant {outer.depth} : index
  %least = arith.constant {outer.lanes()} : index
  %count = arith.constant {vectors} : index
  %vscale = vector.vscale
  %lanes = arith.muli %vscale, %least : index
  %panel = arith.muli %lanes, %count : index"""


def _pack_rows(name: str, element: str, bits: int, vectors: int, outer: OuterProduct, attributes: str) -> str:
    """A tile takes vectors of rows in as its columns, and gives its rows, so that words are transposed."""
    word, lanes, source = f"i{outer.word}", outer.lanes(), matrix(element)
    tile, words = f"vector<[{lanes}]x[{lanes}]x{word}>", f"vector<[{lanes}]x{word}>"
    elements, mask = f"vector<[{128 // bits}]x{element}>", f"vector<[{128 // bits}]xi1>"
    return f"""
func.func private @{name}(%from: {source}, %to: memref<?x{word}>) attributes {{{attributes}}} {{{sizes(vectors, outer)}
  %none = arith.constant dense<0> : {elements}
  %rows = memref.dim %from, %c0 : {source}
  %k = memref.dim %from, %c1 : {source}
  %groups = arith.ceildivui %k, %depth : index
  scf.for %first = %c0 to %rows step %panel {{
    %base = arith.muli %first, %groups : index
    scf.for %part = %c0 to %panel step %lanes {{
      %row = arith.addi %first, %part : index
      %left = arith.subi %rows, %row : index
      %upper = arith.minsi %left, %lanes : index
      scf.for %group = %c0 to %groups step %lanes {{
        %at = arith.muli %group, %depth : index
        %valid = arith.subi %k, %at : index
        %mask = vector.create_mask %valid : {mask}
        %empty = arm_sme.zero : {tile}
        %full = scf.for %i = %c0 to %upper step %c1 iter_args(%tile = %empty) -> ({tile}) {{
          %r = arith.addi %row, %i : index
          %v = vector.maskedload %from[%r, %at], %mask, %none : {source}, {mask}, {elements} into {elements}
          %w = vector.bitcast %v : {elements} to {words}
          %next = arm_sme.insert_tile_slice %w, %tile[%i] layout<vertical> : {words} into {tile}
          scf.yield %next : {tile}
        }}
        %more = arith.subi %groups, %group : index
        %across = arith.minsi %more, %lanes : index
        scf.for %i = %c0 to %across step %c1 {{
          %w = arm_sme.extract_tile_slice %full[%i] : {words} from {tile}
          %g = arith.addi %group, %i : index
          %o = arith.muli %g, %panel : index
          %p = arith.addi %o, %part : index
          %q = arith.addi %base, %p : index
          vector.store %w, %to[%q] : memref<?x{word}>, {words}
        }}
      }}
    }}
  }}
  return
}}
"""


def _pack_columns(name: str, element: str, bits: int, vectors: int, outer: OuterProduct, attributes: str) -> str:
    """The elements of a group come from as many rows: each is widened, shifted to its place and put into the word."""
    word, lanes, source = f"i{outer.word}", outer.lanes(), matrix(element)
    words, elements, mask = f"vector<[{lanes}]x{word}>", f"vector<[{lanes}]x{element}>", f"vector<[{lanes}]xi1>"
    return f"""
func.func private @{name}(%from: {source}, %to: memref<?x{word}>) attributes {{{attributes}}} {{{sizes(vectors, outer)}
  %none = arith.constant dense<0> : {elements}
  %k = memref.dim %from, %c0 : {source}
  %rows = memref.dim %from, %c1 : {source}
  %groups = arith.ceildivui %k, %depth : index
  scf.for %first = %c0 to %rows step %panel {{
    %base = arith.muli %first, %groups : index
    scf.for %group = %c0 to %groups step %c1 {{
      %at = arith.muli %group, %depth : index
      %o = arith.muli %group, %panel : index
      %start = arith.addi %base, %o : index
      scf.for %part = %c0 to %panel step %lanes {{
        %row = arith.addi %first, %part : index
        %left = arith.subi %rows, %row : index
{"".join(_element_of_group(j, words, elements, mask, source, bits, outer) for j in range(outer.depth))}
        %p = arith.addi %start, %part : index
        vector.store %w{outer.depth - 1}, %to[%p] : memref<?x{word}>, {words}
      }}
    }}
  }}
  return
}}
"""


def _element_of_group(j: int, words: str, elements: str, mask: str, source: str, bits: int, outer: OuterProduct) -> str:
    """Element `j` of all groups of a vector, beside those before it. Behind the end of K there are none."""
    shift = f"dense<{bits * j}> : {words}"
    load = f"""
        %j{j} = arith.constant {j} : index
        %k{j} = arith.addi %at, %j{j} : index
        %is{j} = arith.cmpi slt, %k{j}, %k : index
        %n{j} = arith.select %is{j}, %left, %c0 : index
        %m{j} = vector.create_mask %n{j} : {mask}
        %e{j} = vector.maskedload %from[%k{j}, %row], %m{j}, %none : {source}, {mask}, {elements} into {elements}"""
    if outer.depth == 1:
        return load.replace("%e0 =", "%w0 =")
    load += f"\n        %x{j} = arith.extui %e{j} : {elements} to {words}"
    if j == 0:
        return f"{load}\n        %s0 = arith.constant {shift}\n        %w0 = arith.shli %x0, %s0 : {words}"
    return f"""{load}
        %s{j} = arith.constant {shift}
        %y{j} = arith.shli %x{j}, %s{j} : {words}
        %w{j} = arith.ori %w{j - 1}, %y{j} : {words}"""
