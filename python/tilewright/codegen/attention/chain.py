# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what attention computes from the ops of its payload: two products with a softmax between them.

The chain is what `payload.attention` writes, or an equal one::

    S = Q·Kᵀ                            linalg.generic: heads of Q share heads of K by h floordiv group
    S = scale·S + mask, -Inf if hidden  linalg.generic, on S's own tensor; nothing where the scale is 1 and all is seen
    P = softmax(S)                      linalg.softmax along the keys
    O = P·V                             linalg.generic
    O in the type of the result         linalg.generic, where that is not f32

Each value has one use, Q, K, V and the mask are arguments of the function, and O is all that it returns. Where entries have lengths of
their own, `tables` reads what is around these ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.build.usedef import definition, users
from tilewright.codegen.attention import bodies, maps, tables
from tilewright.codegen.attention.bodies import refused
from tilewright.mlir import ir
from tilewright.mlir.dialects import func

Extent = int | None
"""An extent; None where it is dynamic."""

_MASKS = ("f32", "bf16", "f16", "i8")
"""Element types of masks."""
_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True, slots=True)
class Chain:
    """What the ops around a softmax compute.

    Attributes:
        arguments: By name ("q", "k", "v", "mask", "q_starts", "k_starts", "lengths", "table"), the numbers of the function's arguments.
        batch: The extents before the heads.
        heads: Heads of the queries.
        group: How many neighboring heads of queries share one head of keys and values.
        queries: Queries of a head; None where that is dynamic.
        keys: Keys of a head; likewise.
        head: Elements of a query and of a key.
        value_head: Elements of a value and of a result.
        q: Element type of the queries, as MLIR spells it.
        k: Of the keys.
        v: Of the values.
        out: Of the result.
        scale: What scores are multiplied by.
        mask: Element type of the mask: floats are added to the scores, bytes (i8) of zero hide keys. None: there is no mask.
        mask_axes: Which axes of the scores the mask has, in its order; the last one is that of the keys.
        causal: Whether queries see keys up to a last one.
        offset: Query i sees the keys up to number i + this, if causal; None: up to i + keys - queries.
        packed: Whether rows of sequences lie end to end, and `queries` are those of all of them.
        lengths: Whether a table says how many keys an entry has.
        page: Keys of a page; 0 where those of an entry lie together.
    """

    arguments: Mapping[str, int]
    batch: tuple[int, ...]
    heads: int
    group: int
    queries: Extent
    keys: Extent
    head: int
    value_head: int
    q: str
    k: str
    v: str
    out: str
    scale: float = 1.0
    mask: str | None = None
    mask_axes: tuple[int, ...] = ()
    causal: bool = False
    offset: int | None = 0
    packed: bool = False
    lengths: bool = False
    page: int = 0

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads // self.group

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        return 0 in (*self.batch, self.queries)


def read(function: func.FuncOp, softmax: ir.Operation) -> Chain:
    """Reads the chain around a softmax of a function on tensors.

    Raises:
        ScheduleError: The ops are none of such a chain; the error names the op.
    """
    around = softmax.parent
    if around is None or around != function.operation:
        raise refused(f"the softmax is inside {around and around.name}", softmax)
    if not softmax.results:
        raise refused("the softmax is bufferized already", softmax)
    kind = ir.RankedTensorType(softmax.results[0].type)
    if ir.IntegerAttr(softmax.attributes["dimension"]).value != kind.rank - 1:
        raise refused("the softmax is not along the last dimension", softmax)
    if kind.element_type != ir.F32Type.get():
        raise refused(f"the scores are of {kind.element_type}, and not of f32", softmax)
    scores = _maker(softmax.operands[0], softmax)
    products = _maker(_outputs(scores)[0], scores) if maps.is_elementwise(scores) else scores
    results = _user(softmax.results[0], softmax)
    chain = _around(softmax.results[0], products, results)
    q, k = (tables.rows(each, products) for each in _inputs(products))
    if scores != products:
        said = tables.lengths(scores, q, chain.queries)
        chain = _between(chain, scores, _inputs(products)) if said is None else _ragged(chain, said, (q, k), scores)
    if (chain.packed, chain.page) != (q.table is not None, k.page):
        raise refused("rows come by tables, and no table says how many", scores)
    last, out = _result(results, q)
    if last.parent != function.operation or len(last.operands) != 1:
        raise refused("the product with V is not the one result of the function", results)
    return replace(chain, out=out)


def _around(softmax: ir.Value, products: ir.Operation, results: ir.Operation) -> Chain:
    """What the two products say."""
    group = maps.product(products, transposed=True)
    if maps.product(results, transposed=False) != group:
        raise refused(f"heads share keys by {group}, and not values", results)
    bodies.check_product(products)
    bodies.check_product(results)
    for each in (products, results):
        bodies.check_zero(_outputs(each)[0], each)
    (q, k), (weights, v) = _inputs(products), _inputs(results)
    if weights != softmax:
        raise refused("the weights are not the first operand of their product", results)
    rows = {
        name: tables.rows(value, op) for name, value, op in (("q", q, products), ("k", k, products), ("v", v, results))
    }
    if replace(rows["v"], argument=0) != replace(rows["k"], argument=0):
        raise refused("values do not lie as keys do", results)
    kinds = {name: ir.RankedTensorType(value.type) for name, value in (("q", q), ("k", k), ("v", v))}
    *batch, heads, queries, head = kinds["q"].shape
    *_, keys, value_head = kinds["v"].shape
    if rows["q"].table is not None:
        batch = []  # Sequences, as many as the table says.
    if _DYNAMIC in (*batch, heads, head, value_head):
        raise refused("an extent other than those of queries and keys is dynamic", products)
    return Chain(
        arguments={name: each.argument for name, each in rows.items()},
        batch=tuple(batch),
        heads=heads,
        group=group,
        queries=_extent(queries),
        keys=_extent(keys),
        head=head,
        value_head=value_head,
        out="f32",
        q=str(kinds["q"].element_type),
        k=str(kinds["k"].element_type),
        v=str(kinds["v"].element_type),
    )


def _between(chain: Chain, scores: ir.Operation, operands: list[ir.Value]) -> Chain:
    """The same with what the op between the first product and the softmax says."""
    inputs, order = _inputs(scores), maps.elementwise(scores)
    if len(inputs) > 1:
        raise refused(f"{len(inputs)} masks", scores)
    extents = {(operands[0], len(order) - 2): "queries", (operands[1], len(order) - 2): "keys"}
    found = bodies.scores(scores, order, extents)
    chain = replace(chain, scale=found.scale)
    if inputs:
        if not found.masked:
            raise refused("the second operand of the scores is no mask", scores)
        axes = maps.mask(scores, order)
        kind = str(ir.RankedTensorType(inputs[0].type).element_type)
        if kind not in _MASKS:
            raise refused(f"a mask of {kind}", scores)
        arguments = {**chain.arguments, "mask": _argument(inputs[0], scores)}
        chain = replace(chain, mask=kind, mask_axes=axes, arguments=arguments)
    if found.last is not None:
        chain = replace(chain, causal=True, offset=_offset(chain, found.last, scores))
    return chain


def _ragged(chain: Chain, said: tables.Lengths, rows: tuple[tables.Rows, tables.Rows], op: ir.Operation) -> Chain:
    """The same where tables say how many queries and keys an entry has, and where they lie."""
    q, k = rows
    if said.starts != (k.table is not None and not k.page) or (said.starts and k.table != said.count):
        raise refused("keys lie by another table than the one that says how many there are", op)
    named = {
        "q_starts": q.table,
        "k_starts" if said.starts else "lengths": said.count,
        "table": k.table if k.page else None,
    }
    found = {name: number for name, number in named.items() if number is not None}
    if said.starts and q.table is None:
        raise refused("keys of sequences lie end to end, and queries do not", op)
    return replace(
        chain,
        scale=said.scale,
        arguments={**chain.arguments, **found},
        causal=bool(said.causal),
        offset=None if said.causal == "lower_right" else 0,
        packed=q.table is not None,
        lengths=not said.starts,
        page=k.page,
    )


def _offset(chain: Chain, last: Mapping[str, int], op: ir.Operation) -> int | None:
    """How many keys behind its own number a query sees; None: as many as there are more keys than queries."""
    terms = {name: factor for name, factor in last.items() if factor}
    number = terms.pop("", 0)
    for name, factor in (("keys", 1), ("queries", -1)):
        size = getattr(chain, name)
        if name in terms and size is not None:
            number += terms.pop(name) * size
        elif terms.get(name, factor) != factor:
            raise refused(f"queries see keys by {terms[name]} times the {name}", op)
    if terms.pop("query", 0) != 1:
        raise refused("the last key that is seen is not one more for each query", op)
    if not terms:
        return number
    # Of keys - queries the dynamic ones are left, and the others are in the number.
    rest = [
        factor * (getattr(chain, name) or 0) for name, factor in (("keys", 1), ("queries", -1)) if name not in terms
    ]
    if (
        set(terms) - {"keys", "queries"}
        or number != sum(rest)
        or any(getattr(chain, name) is None for name in ("keys", "queries") if name not in terms)
    ):
        raise refused("the last query does not see the last key", op)
    return None


def _result(results: ir.Operation, q: tables.Rows) -> tuple[ir.Operation, str]:
    """The op that returns the result, whose rows lie as those of the queries, and the result's element type."""
    value, out = results.results[0], "f32"
    user = None if q.table is not None and users(value)[0].name == "tensor.extract" else _user(value, results)
    if user is not None and user.name != "func.return":
        maps.check_in_place(user)
        value, out = user.results[0], bodies.narrowed(user)
    value = tables.placed(value, q, results)
    return _user(value, results), out


def _maker(value: ir.Value, user: ir.Operation) -> ir.Operation:
    """The linalg.generic that makes an operand of `user`, which alone uses it."""
    maker = definition(value)
    if maker is None or maker.name != "linalg.generic":
        raise refused(f"what it is computed from is made by {'no op' if maker is None else maker.name}", user)
    if len(list(value.uses)) != 1:
        raise refused(f"the result of {maker.name} has other uses", user)
    return maker


def _user(value: ir.Value, op: ir.Operation) -> ir.Operation:
    """The one op that uses a result of `op`: a linalg.generic, or the return."""
    found = users(value)
    if len(found) != 1 or found[0].name not in ("linalg.generic", "func.return"):
        raise refused(f"its result is used by {', '.join(each.name for each in found) or 'nothing'}", op)
    return found[0]


def _inputs(op: ir.Operation) -> list[ir.Value]:
    return list(op.operands)[: len(op.operands) - len(op.results)]


def _outputs(op: ir.Operation) -> list[ir.Value]:
    return list(op.operands)[len(op.operands) - len(op.results) :]


def _argument(value: ir.Value, op: ir.Operation) -> int:
    """The number of the function's argument that an operand is."""
    if not isinstance(value, ir.BlockArgument):
        raise refused("an operand is no argument of the function", op)
    return value.arg_number


def _extent(size: int) -> Extent:
    return None if size == _DYNAMIC else size
