# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spec of a matrix multiplication: its extents and element types, and nothing about how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewright import batches, groups, notebook, scaling
from tilewright import precision as precisions
from tilewright.dims import Dim, extent, fits, least
from tilewright.dtypes import SMALL_FLOATS, Combination, DType, dtype, dtype_of, require_computed
from tilewright.entries import (
    A_AXES,
    B_AXES,
    EPILOGUE_AXES,
    REDUCTIONS,
    ROW_FORMS,
    Chain,
    Epilogue,
    Operand,
    chain,
    check_place,
    converting,
    entry,
)
from tilewright.errors import SpecError, not_yet
from tilewright.nibbles import multiplied_as
from tilewright.operand import OperandSpec

LAYOUTS = ("nn", "nt", "tn", "tt", "nc", "cn", "tc", "ct", "cc")
"""How A and B can be stored: n row-major as they are multiplied, t transposed, c transposed and conjugated."""
_MAX_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MatmulSpec(notebook.Spec):
    """C = A·B, with A of M×K, B of K×N and C of M×N elements.

    Specs are values: they compare, hash and pickle by their fields, which are complete after construction (`b`, `c` and
    `acc` are then never None).

    Attributes:
        m: Rows of A and C, from 0 to 2**31 - 1; or a `Dim`, for a dynamic number of rows; None is ``Dim()``, any number.
        n: Columns of B and C, likewise.
        k: Columns of A and rows of B, likewise; with 0, A·B is all zeros.
        a: Element type of A, as it is stored.
        b: Element type of B, as it is stored; by default that of A.
        c: Element type of C; by default the accumulator's.
        acc: Element type in which products are summed: the accumulator of `a`, or of what its prologue leaves.
        layout: Two letters, of A and of B: n, or t for one that is stored transposed, A as K×M and B as N×K elements, each
            row-major as ever; c for its conjugate stored so. Of types that are not complex c is t.
        batch: Leading extents of C, and of A and B: so many products, each of matrices of its own. (8, 12) makes 96. Any may
            be None or a `Dim`.
        a_batch: Those that A has, which are broadcast to `batch` by numpy's rules: (12,), (8, 1) or (). None: all of them.
            Broadcasting is static: A has a dynamic extent as `batch` has it, or 1 here.
        b_batch: Those that B has, likewise.
        deterministic: True: each element of C is the same to the last bit for every M, batch and number of threads, all else
            being equal: no sum's order depends on them. With False that holds from call to call of one kernel.
        tf32: True: elements of A and B, of f32, may lose all but 10 bits after the point before they are multiplied (TF32).
        precision: None; or "bf16x3", "bf16x6", "bf16x9": products of f32 are the sums of so many products of pieces in bf16. With "i8",
            elements of A may be rounded to 8-bit integers, in groups along K that have a scale each (`tilewright.precision`), before they
            are multiplied by quantized weights. Kernels do so where it is faster.
        alpha: What each sum is multiplied by, before the epilogue: 1, another number, or "arg": calls tell it. With 0, also of
            a call, A and B are not read.
        beta: What the former C is multiplied by before it is added: 0, and then it is never read; 1; another number; or "arg":
            calls tell it, and with 0 nothing of the former C gets into the result, not even a NaN.
        b_packed: False. True: calls take B as `Kernel.pack_b` packed it.
        epilogue: What is done to each element of the sum, in this order: entries such as `tilewright.bias`, and Python
            functions of an element and of one of each further operand (`tilewright.function`). They are made entries.
        prologue_a: What is done to each element of A before it is multiplied, likewise; `tilewright.gather_rows` may be the
            first one.
        prologue_b: What is done to each element of B.

    This release computes the combinations of element types in `tilewright.dtypes.COMBINATIONS` and `COMPLEX_COMBINATIONS`. A `c`
    narrower than `acc` is rounded to once, when the sum is complete; with `beta` 1 the former C is one of its terms.
    Integers that overflow i32 wrap around, modulo 2**32.

    With an epilogue, `c` is by default the type that the last entry leaves, and may be a narrower float; `beta` times the
    former C is added to what the last entry leaves: C = epilogue(alpha·A·B) + beta·C. `alpha` is of the type of the sums and
    `beta` of the type in which the former C is added; both are ints where those are i32.

    Raises:
        SpecError: A field is wrong, or asks for what this release does not do; the message says which.
    """

    m: Any
    n: Any
    k: Any
    a: str = "f32"
    b: str | None = None
    c: str | None = None
    acc: str | None = None
    layout: str = "nn"
    batch: tuple[Any, ...] = ()
    beta: scaling.Factor = 0
    b_packed: bool = False
    epilogue: tuple[Any, ...] = ()
    prologue_a: tuple[Any, ...] = ()
    prologue_b: tuple[Any, ...] = ()
    a_batch: tuple[Any, ...] | None = None
    b_batch: tuple[Any, ...] | None = None
    deterministic: bool = False
    tf32: bool = False
    alpha: scaling.Factor = 1
    precision: str | None = None

    def __post_init__(self) -> None:
        """Checks and completes the fields."""
        for field in ("epilogue", "prologue_a", "prologue_b"):
            entries = getattr(self, field)
            if not isinstance(entries, tuple):
                raise SpecError(f"{field} is {entries!r}", where="MatmulSpec", expected="a tuple")
            object.__setattr__(self, field, tuple(entry(each, field) for each in entries))
        for field in ("m", "n", "k"):
            object.__setattr__(self, field, extent(field, getattr(self, field)))
        self._complete_types()
        self._check_how_stored()
        self._check_entries()
        self._check_sizes()

    def _complete_types(self) -> None:
        """Fills in the element types that were left out, and checks that this release computes the combination."""
        object.__setattr__(self, "b", dtype_of("b", dtype_of("a", self.a).name if self.b is None else self.b).name)
        more = [each for each in ("b_packed", "prologue_a", "prologue_b", "epilogue") if getattr(self, each)]
        if more and self.a_stored.part:
            raise not_yet(f"{more[0]} with A of {self.a}", f"no {more[0]}: complex products have alpha and beta", None)
        # What is multiplied is what the prologues leave.
        object.__setattr__(self, "prologue_a", groups.settled(self.prologue_a, self.a))
        follows = bool(self.prologue_b) and self.prologue_b[-1].follows
        self._widen_stored("prologue_a", self.chain_a.result, self.a if follows else self.chain_b.result)
        object.__setattr__(self, "prologue_b", groups.settled(self.prologue_b, self.a_type.name))
        self._widen_stored("prologue_b", self.chain_b.result, self.chain_a.result)
        a, b = self.a_type, self.b_type
        object.__setattr__(self, "acc", dtype_of("acc", a.accumulator if self.acc is None else self.acc).name)
        acc, last = self.acc_type, self.chain.result
        object.__setattr__(self, "c", dtype_of("c", last if self.c is None else self.c).name)
        # An epilogue says itself what may come of the sum.
        sum_ = acc if self.epilogue or (acc.name == "f32" and self.c in SMALL_FLOATS) else self.c_type
        left = bool(self.prologue_a or self.prologue_b)
        is_plain = not left and not self.epilogue and (self.alpha, self.beta) in ((1, 0), (1, 1))
        require_computed(Combination(a.name, b.name, acc.name, sum_.name), prologues=left, is_plain=is_plain)
        precisions.check(self.precision, a.name, b.name, acc.name, self.b_stored.name, tf32=self.tf32)
        if self.epilogue:
            self._check_result(self.chain.results())
        for field in scaling.ROLES:
            object.__setattr__(self, field, scaling.checked(field, getattr(self, field), self._met_by(field)))

    def _widen_stored(self, field: str, own: str, other: str) -> None:
        """Adds a cast to the end of a prologue whose result type is storage-only."""
        if (wide := multiplied_as(own, other)) != own:
            object.__setattr__(self, field, (*getattr(self, field), converting(wide)))

    def _check_result(self, possible: tuple[str, ...]) -> None:
        """Checks that C can hold the result of the epilogue's last entry."""
        if self.c not in possible:
            raise SpecError(
                f"C of {self.c} after an epilogue that ends with {self.epilogue[-1]}",
                where="MatmulSpec",
                expected=f"one of {', '.join(possible)}",
                remedy="End with tw.quantize(...) for i8 and u8, with tw.dequantize(...) for floats of an integer sum",
            )
        if self.beta and self.c in ("i8", "u8"):
            raise not_yet(f"beta {self.beta} with C of {self.c}", "beta 0", "Add to a C of i32 or of a float type")

    def _check_entries(self) -> None:
        """Checks that each entry stands where it can, and that its operands have extents that it knows there."""
        for field, chain_, axes, forms in (
            ("epilogue", self.chain, EPILOGUE_AXES, ("each", *ROW_FORMS)),
            ("prologue_a", self.chain_a, A_AXES, ("each", "gather")),
            ("prologue_b", self.chain_b, B_AXES, ("each",)),
        ):
            for each in chain_.entries:
                check_place(each, field, axes, forms)
                groups.check(each.operands, self.k, field)
        if any(each.form == "gather" for each in self.prologue_a[1:]):
            raise SpecError("gather_rows comes after another entry", where="prologue_a", expected="the first entry")
        rows = [each for each in self.epilogue if each.form in ROW_FORMS]
        if len(rows) > 1:
            raise not_yet(f"an epilogue with {rows[0]} and {rows[1]}", "one of them", "Use a kernel for each")
        if self.reduces_rows and self.epilogue[-1] is not rows[0]:
            raise SpecError(
                f"{self.epilogue[-1]} comes after {rows[0]}",
                where="epilogue",
                expected=f"{rows[0]} as the last entry",
            )
        if rows and isinstance(self.n, Dim):
            raise not_yet(f"{rows[0]} with a dynamic n", "a size", "Compile one kernel for each n")
        after = self.epilogue[self.epilogue.index(rows[0]) + 1 :] if rows else ()
        if any(operand.role == "b" for each in after for operand in each.operands):
            raise not_yet(f"glu after {rows[0]}", "glu before it", "Use a kernel for each")
        if rows and self.beta:
            raise not_yet(f"beta {self.beta} with {rows[0]}", "beta 0", "Add to the result afterwards")
        if self.alpha != 1 and self.products > 1:
            raise not_yet(f"alpha {self.alpha} with glu", "alpha 1", "Scale A or B beforehand")
        if self.gathers and self.a_transposed:
            raise not_yet("gather_rows from a table that is stored transposed", "layout n for A", "Store its rows")
        if self.b_packed and (self.chain_b.operands or self.products > 1):
            what = "a prologue of B with operands" if self.chain_b.operands else "glu"
            raise not_yet(f"b_packed with {what}", "b_packed=False", "Let calls take B as it is stored")
        if self.prologue_b and self.products > 1:
            raise not_yet("a prologue of B with glu", "prologue_b=()", "Convert both matrices beforehand")

    def _check_sizes(self) -> None:
        """Checks that every operand can be addressed with 64-bit offsets."""
        for each in (*self.operands, self.result):
            _ = each.stored  # which refuses an extent that it cannot tell
            if prod(map(least, each.shape)) * each.type.bytes > _MAX_BYTES:
                name = each.name.upper() if each.name in ("a", "b", "c") else each.name
                raise SpecError(
                    f"{name} of {'x'.join(map(str, each.shape))} {each.type} has more bytes than a 64-bit offset can reach",
                    where="MatmulSpec",
                    expected="operands of less than 2**63 bytes",
                )

    def _check_how_stored(self) -> None:
        """Checks the fields that say how operands are stored, and those that are True or False."""
        if not isinstance(self.layout, str) or self.layout not in LAYOUTS:
            raise SpecError(f"layout is {self.layout!r}", where="MatmulSpec", expected=f"one of {', '.join(LAYOUTS)}")
        if self.a_stored.part is None:
            object.__setattr__(self, "layout", self.layout.replace("c", "t"))
        object.__setattr__(self, "batch", batches.checked("batch", self.batch))
        for field in ("a_batch", "b_batch"):
            object.__setattr__(self, field, batches.of_operand(field, getattr(self, field), self.batch))
        self._check_batch()
        for field in ("b_packed", "deterministic", "tf32"):
            value = getattr(self, field)
            if not isinstance(value, bool):
                raise SpecError(f"{field} is {value!r}", where="MatmulSpec", expected="False or True")

    def _check_batch(self) -> None:
        """Refuses what is not supported with a batch."""
        if self.b_packed and (isinstance(self.n, Dim) or isinstance(self.k, Dim)):
            expected = "b_packed=False, or n and k that are known"
            raise not_yet("b_packed with a dynamic n or k", expected, "Let m alone be dynamic")
        if self.b_packed and self.b_batch:
            remedy = "Share one B between all (b_batch=()), or let calls take B as it is stored"
            raise not_yet(f"b_packed with a B for each of batch {self.b_batch}", "b_batch=()", remedy)
        if self.b_packed and self.b_stored.packed > 1:
            remedy = "Let calls take B as it is stored: packed it would hold what its prologue makes of it"
            raise not_yet(f"b_packed with a B of {self.b}", "b_packed=False", remedy)
        if self.batch and self.gathers:
            raise not_yet("gather_rows with a batch", "batch=()", "Gather the rows of all in one product")

    @classmethod
    def from_dtypes(cls, m: Any, n: Any, k: Any, dtypes: str = "f32", **fields: Any) -> MatmulSpec:  # noqa: ANN401
        """The spec with element types as the command line writes them: "bf16", or "a,b,c" ("u8,i8,i32").

        Args:
            m: As in `MatmulSpec`.
            n: As in `MatmulSpec`.
            k: As in `MatmulSpec`.
            dtypes: One element type for A and B, C being of their accumulator's, or those of A, B and C separated by
                commas.
            **fields: Further fields of `MatmulSpec`.

        Raises:
            SpecError: There is neither one type nor three, or as for `MatmulSpec`.
        """
        names = dtypes.split(",") if isinstance(dtypes, str) else []
        if len(names) == 1:
            return cls(m, n, k, a=names[0], **fields)
        if len(names) == 3:
            return cls(m, n, k, a=names[0], b=names[1], c=names[2], **fields)
        raise SpecError(
            f"element types are {dtypes!r}",
            where="MatmulSpec",
            expected="one type ('f32'), or those of A, B and C ('u8,i8,i32')",
        )

    @property
    def dynamic(self) -> tuple[str, ...]:
        """Those of "m", "n" and "k" that are dynamic."""
        return tuple(name for name in ("m", "n", "k") if isinstance(getattr(self, name), Dim))

    @property
    def extents(self) -> dict[str, Any]:
        """All extents by name: "m", "n", "k", and "b0" for the first of the batch, and so on."""
        return {"m": self.m, "n": self.n, "k": self.k} | batches.named(self.batch)

    @property
    def open(self) -> dict[str, Dim]:
        """Those of them that are dynamic."""
        return {name: size for name, size in self.extents.items() if isinstance(size, Dim)}

    def at(self, m: int, n: int, k: int, *batch: int) -> MatmulSpec:
        """The spec of a call with these extents, which is static; without any of the batch, it has those of this spec.

        Raises:
            SpecError: One of them is not what the spec says, or some of the batch are missing.
        """
        sizes = {"m": m, "n": n, "k": k} | batches.named(batch or self.batch)
        for (name, wanted), size in zip(self.extents.items(), sizes.values(), strict=False):
            if isinstance(size, Dim) or not fits(wanted, size):
                expected = wanted.words if isinstance(wanted, Dim) else str(wanted)
                raise SpecError(f"{name} is {size}", where=f"a call of {self}", expected=expected)
        if len(sizes) != len(self.extents):
            raise SpecError(f"a batch of {batch}", where=f"a call of {self}", expected=f"{len(self.batch)} extents")
        return self.sized(sizes)

    def sized(self, sizes: Mapping[str, int]) -> MatmulSpec:
        """The spec with sizes in place of its dynamic extents, by name."""
        sizes = {name: sizes[name] for name in self.open if name in sizes}

        def of(operand: OperandSpec) -> tuple[Any, ...]:
            named = zip(operand.names, operand.shape[: operand.batch], strict=False)
            return tuple(sizes.get(name, size) for name, size in named)

        a, b = self.operands[:2]
        own = {name: size for name, size in sizes.items() if name in ("m", "n", "k")}
        return replace(self, batch=of(self.result), a_batch=of(a), b_batch=of(b), **own)

    @property
    def fused(self) -> bool:
        """Whether something is done to the sums before they are written: scaling, an epilogue, or rounding to a narrower type."""
        return bool(self.epilogue) or self.c != self.acc or self.scales

    @property
    def scales(self) -> bool:
        """Whether sums or the former C are multiplied by a number."""
        return self.alpha != 1 or self.beta not in (0, 1)

    @property
    def plain_sums(self) -> MatmulSpec:
        """The spec of the sums alone, before anything is done to them."""
        return replace(self, epilogue=(), c=self.acc, alpha=1, beta=0)

    @property
    def has_entries(self) -> bool:
        """Whether anything is computed but sums of products: scaling, an epilogue, or a prologue."""
        return bool(self.epilogue or self.prologue_a or self.prologue_b or self.scales)

    @property
    def a_stored(self) -> DType:
        """Element type of A, as it is stored."""
        return dtype(self.a)

    @property
    def b_stored(self) -> DType:
        """Element type of B, as it is stored."""
        return dtype(self.b or self.a)

    @property
    def a_type(self) -> DType:
        """Element type of A as it is multiplied: after its prologue."""
        return dtype(self.chain_a.result)

    @property
    def b_type(self) -> DType:
        """Element type of B as it is multiplied: after its prologue."""
        return dtype(self.chain_b.result)

    @property
    def widens(self) -> bool:
        """Whether what is multiplied is narrower than the sum."""
        return self.a_type != self.acc_type

    @property
    def split(self) -> precisions.Precision | None:
        """How elements of f32 are split into pieces; None: they are multiplied as they are."""
        return None if self.precision is None else precisions.PRECISIONS.get(self.precision)

    @property
    def multiplied(self) -> tuple[str, str]:
        """Element types of what instructions multiply in packed panels: those of A and B, or of their pieces."""
        return (self.a_type.name, self.b_type.name) if self.split is None else (self.split.element, self.split.element)

    @property
    def c_type(self) -> DType:
        """Element type of C."""
        return dtype(self.c or self.a)

    @property
    def acc_type(self) -> DType:
        """Element type in which products are summed."""
        return dtype(self.acc or self.a)

    @property
    def a_transposed(self) -> bool:
        """Whether A is stored transposed, and has more than one element (one is the same either way)."""
        return self.layout[0] != "n" and (self.m, self.k) != (1, 1)

    @property
    def b_transposed(self) -> bool:
        """Whether B is stored transposed, likewise."""
        return self.layout[1] != "n" and (self.k, self.n) != (1, 1)

    @property
    def batch_axes(self) -> tuple[int, ...]:
        """The axes of the batch that take a loop: those with more than one entry, or none."""
        return batches.axes(self.batch, self.batch)

    @property
    def a_axes(self) -> tuple[int, ...]:
        """Those of them along which A has a matrix for each entry."""
        return batches.axes(self.a_batch or (), self.batch)

    @property
    def b_axes(self) -> tuple[int, ...]:
        """Those of them along which B has a matrix for each entry."""
        return batches.axes(self.b_batch or (), self.batch)

    @property
    def rows_of_b(self) -> Any:  # noqa: ANN401 - an Extent
        """The rows of A that are multiplied by the same B: M, or those of all entries of a batch that share it."""
        sharing = batches.entries(tuple(self.batch[axis] for axis in self.batch_axes if axis not in self.b_axes))
        return self.m if sharing == 1 else self.m * sharing

    @property
    def is_empty(self) -> bool:
        """Whether the result is empty, or of no products."""
        return 0 in (*self.batch, self.m, self.n, self.k, self.alpha)

    @property
    def matrices(self) -> int:
        """How many products there are, at least: one without a batch."""
        return batches.entries(self.batch)

    @property
    def transposed(self) -> tuple[bool, ...]:
        """Whether each of the operands, in the order of the call, is stored transposed."""
        further = (each for chain_ in (self.chain_a, self.chain_b, self.chain) for each in chain_.operands)
        return (self.a_transposed, self.b_transposed, *map(self._turned, further), *(False for _ in self.scalars))

    def _turned(self, operand: Operand) -> bool:
        """Whether a further operand is stored transposed: as the matrix whose shape or groups it has."""
        like_b = operand.role == "b" or operand.axes == "gn"
        return self.b_transposed if like_b else operand.axes == "mg" and self.a_transposed

    @property
    def a_shape(self) -> tuple[Any, ...]:
        """The shape of A as it is stored, and as calls take it: (M, K), or (K, M) where it is stored transposed.

        Its batch extents come first.
        With `tilewright.gather_rows`, (rows of the table, K).
        """
        if self.gathers:
            return self.prologue_a[0].rows, self.k
        return (*(self.a_batch or ()), *((self.k, self.m) if self.a_transposed else (self.m, self.k)))

    @property
    def b_shape(self) -> tuple[Any, ...]:
        """The shape of B as it is stored, and as calls take it: (K, N), or (N, K) where it is stored transposed.

        Its batch extents come first.
        """
        return (*(self.b_batch or ()), *((self.n, self.k) if self.b_transposed else (self.k, self.n)))

    @property
    def c_shape(self) -> tuple[int, ...]:
        """(M, N) after the batch extents; (M,) where the epilogue ends with a reduction of rows."""
        return (*self.batch, self.m) if self.reduces_rows else (*self.batch, self.m, self.n)

    @property
    def gathers(self) -> bool:
        """Whether A's rows are gathered from a table by indices."""
        return bool(self.prologue_a) and self.prologue_a[0].form == "gather"

    @property
    def has_rows(self) -> bool:
        """Whether the epilogue needs whole rows of C: softmax, or a reduction."""
        return any(each.form in ROW_FORMS for each in self.epilogue)

    @property
    def inner(self) -> MatmulSpec:
        """The spec of what comes before softmax or a row reduction: M×N elements of the type in which that computes."""
        position = next(i for i, each in enumerate(self.epilogue) if each.form in ROW_FORMS)
        row, before = self.chain.entries[position], self.epilogue[:position]
        if dtype(row.source).kind != dtype(row.result).kind or row.source in ("i8", "u8"):
            before = (*before, converting(row.result))
        return replace(self, epilogue=before, c=row.result)

    @property
    def reduces_rows(self) -> bool:
        """Whether the epilogue gives one number for each row."""
        return any(each.form in REDUCTIONS for each in self.epilogue)

    @property
    def products(self) -> int:
        """How many products with A there are: one, and one for each further matrix like B that the epilogue takes."""
        return 1 + sum(each.role == "b" for each in self.chain.operands) if self.epilogue else 1

    @property
    def chain_a(self) -> Chain:
        """The entries of A's prologue with the types of all that they compute."""
        return chain(self.a, self.prologue_a)

    @property
    def chain_b(self) -> Chain:
        """The entries of B's prologue with the types of all that they compute."""
        return chain(self.b or self.a, self.prologue_b, self.chain_a.names)

    @property
    def chain(self) -> Chain:
        """The entries of the epilogue with the types of all that they compute."""
        return self._finishing(self.epilogue)

    @property
    def finish(self) -> Chain:
        """All that is done to a sum: alpha, the entries of the epilogue, and the former C times beta."""
        return self._finishing(
            (*scaling.of_alpha(self.alpha), *self.epilogue, *scaling.of_beta(self.beta, str(self.c)))
        )

    def _finishing(self, entries: tuple[Epilogue, ...]) -> Chain:
        args = (name for name in ("alpha", "beta") if getattr(self, name) == scaling.ARG)
        taken = (*self.chain_a.names, *self.chain_b.names, *args)
        return chain(self.acc or self.a_type.accumulator, entries, taken)

    @property
    def scalars(self) -> tuple[OperandSpec, ...]:
        """Those of alpha and beta that calls tell, which come after all other operands."""
        args = [name for name in scaling.ROLES if getattr(self, name) == scaling.ARG]
        return tuple(self._operand(name, (), (), dtype(self._met_by(name)), "") for name in args)

    def _met_by(self, factor: str) -> str:
        """The type of what alpha or beta multiplies."""
        return str(self.acc) if factor == "alpha" else self.chain.wide(self.chain.result)

    @property
    def further(self) -> tuple[OperandSpec, ...]:
        """The further operands in the order of the call: those of A's prologue, of B's prologue and of the epilogue."""
        extents = {"m": self.m, "n": self.n, "k": self.k}

        def sizes(operand: Operand) -> tuple[Any, ...]:
            found = (groups.count(self.k, operand.group) if axis == "g" else extents[axis] for axis in operand.axes)
            return tuple(reversed((*found,))) if self._turned(operand) else tuple(found)

        own = (self.a_batch or (), self.b_batch or (), self.batch)
        return tuple(
            self._operand(each.name, own[1], self.b_shape[-2:], self.b_stored, "nk" if self.b_transposed else "kn")
            if each.role == "b"
            # What has an element for each of a matrix has a batch as that has; the rest is the same for all.
            else self._operand(
                each.name,
                batch if len(each.axes) == 2 else (),
                sizes(each),
                dtype(str(each.type)),
                "".join("-" if axis == "g" else axis for axis in each.axes)[:: -1 if self._turned(each) else 1],
            )
            for chain_, batch in zip((self.chain_a, self.chain_b, self.chain), own, strict=True)
            for each in chain_.operands
        )

    def _operand(
        self, name: str, batch: tuple[Any, ...], shape: tuple[Any, ...], element: DType, axes: str
    ) -> OperandSpec:
        return OperandSpec(name, (*batch, *shape), element, len(batch), batches.axes(batch, self.batch), axes)

    @property
    def takes_tensors(self) -> bool:
        """Whether the C entry takes a tensor for each operand, and not two matrices and their leading dimensions."""
        shared = any(each.type.packed > 1 for each in self.operands)  # its bytes are none of m, n and k
        return bool(self.batch or self.further or self.reduces_rows or shared)

    @property
    def operands(self) -> tuple[OperandSpec, ...]:
        """All operands but the result, in the order of the call."""
        a_axes = "-k" if self.gathers else "km" if self.a_transposed else "mk"
        b_axes = "nk" if self.b_transposed else "kn"
        a = self._operand("a", self.a_shape[:-2], self.a_shape[-2:], self.a_stored, a_axes)
        b = self._operand("b", self.b_shape[:-2], self.b_shape[-2:], self.b_stored, b_axes)
        return (a, b, *self.further, *self.scalars)

    @property
    def result(self) -> OperandSpec:
        """C, as an operand."""
        shape = self.c_shape[len(self.batch) :]
        return self._operand("c", self.batch, shape, self.c_type, "mn"[: len(shape)])

    @property
    def flops(self) -> int:
        """Operations: a multiply and an add for each of the M·N·K products, of which glu has twice as many; four each for complex ones.

        Raises:
            SpecError: An extent is dynamic: `at` says of which call.
        """
        if self.open:
            remedy = "Ask spec.at(m, n, k, *batch), the spec of one call"
            raise SpecError(f"{', '.join(self.open)} of {self} is dynamic", where="flops", remedy=remedy)
        return (8 if self.a_stored.part else 2) * self.matrices * self.m * self.n * self.k * self.products

    def __str__(self) -> str:
        """Extents, element types, layout and more: "384x1024x1024 f32 nn", "8x12*4x4x4 u8,i8,i32 nn beta=1 [relu()]"."""
        names = [self.a_stored.name, self.b_stored.name, self.c_type.name]
        types = names[0] if len(set(names)) == 1 else ",".join(names)
        lacking = (("a_batch", self.a_batch), ("b_batch", self.b_batch))
        batch = f"{'x'.join(map(str, self.batch))}*" if self.batch else ""
        broadcast = "".join(f" {name}={batches.text(own or ())}" for name, own in lacking if own != self.batch)
        factors = (("alpha", 1), ("beta", 0))
        said = [(f"{name}={getattr(self, name)}", getattr(self, name) != usual) for name, usual in factors]
        said += [(name, getattr(self, name)) for name in ("b_packed", "deterministic", "tf32")]
        said.append((f"precision={self.precision}", self.precision is not None))
        further = broadcast + "".join(f" {name}" for name, holds in said if holds)
        for name, entries in (("a: ", self.prologue_a), ("b: ", self.prologue_b), ("", self.epilogue)):
            further += f" [{name}{', '.join(map(str, entries))}]" if entries else ""
        return f"{batch}{self.m}x{self.n}x{self.k} {types} {self.layout}{further}"
