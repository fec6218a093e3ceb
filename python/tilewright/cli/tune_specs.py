# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``tilewright tune`` tunes: shapes, a suite, the convolutions of a network, attention problems, or what a program called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tilewright.cli import options

if TYPE_CHECKING:
    from tilewright.payload.spec_tables import Spec


def wanted(
    shapes: Sequence[options.Extents], dtype: str, named: Mapping[str, str | None], product: dict[str, Any]
) -> Sequence[Spec]:
    """What is tuned: shapes, or what the one option that is given names.

    Raises:
        click.UsageError: Nothing is, or two of the options say what.
    """
    from tilewright.cli import problem

    given = [name for name, each in (("--shape", shapes), *named.items()) if each]
    if len(given) != 1:
        said = f"none of --shape, {', '.join(named)}" if not given else f"both {' and '.join(given)}"
        raise click.UsageError(f"{said} given; expected one of them")
    (option,) = given
    value = named.get(option)
    if value is None:
        return problem.specs(shapes, dtype, **product)
    make, used = _NAMED[option]
    source = click.get_current_context().get_parameter_source
    for each in ("dtype", *product):
        if each not in used and source(each) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{each.replace('_', '-')} with {option}, which says it; expected one of them")
    return make(value, dtype, product)


def _traced(file: str, dtype: str, product: dict[str, Any]) -> Sequence[Spec]:
    """What a program called, of static extents.

    Raises:
        click.UsageError: It called nothing else.
    """
    from tilewright.libraries import traces

    traced = traces.read(file)
    found = [spec for spec in traced.calls if not spec.dynamic]
    if not found:
        dynamic = sum(traced.calls.values())
        raise click.UsageError(
            f"--trace {file}: nothing to tune: {dynamic} calls have dynamic extents; "
            "expected some of static extents: give extents that matter as --shape"
        )
    return found


def _suite(name: str, dtype: str, product: dict[str, Any]) -> Sequence[Spec]:
    """The products of a suite."""
    from tilewright.bench import suites
    from tilewright.spec import MatmulSpec

    others = {name: each for name, each in product.items() if name != "batch"}
    every = suites.suite(name).shapes
    return [MatmulSpec.from_dtypes(each.m, each.n, each.k, dtype, batch=each.batch, **others) for each in every]


def _convolutions(network: str, dtype: str, product: dict[str, Any]) -> Sequence[Spec]:
    """The convolutions of a network, which take their filters as they are stored."""
    from dataclasses import replace

    from tilewright.bench.convolution.layers import LAYERS, TYPES

    _known("--conv", network, LAYERS)
    _known("--dtype", dtype, TYPES)
    packed = bool(product.get("b_packed"))
    return [replace(each.spec(dtype), w_packed=packed and each.groups == 1) for each in LAYERS[network]]


def _attention(suite: str, dtype: str, product: dict[str, Any]) -> Sequence[Spec]:
    """The attention problems of a suite."""
    from tilewright.bench.attention.cases import SUITES

    _known("--attention", suite, SUITES)
    return [each.spec(dtype) for each in SUITES[suite]]


def _known(option: str, name: str, names: Iterable[str]) -> None:
    """Raises click.UsageError for a name that is none of some."""
    if name not in names:
        raise click.UsageError(f"{option} {name!r}; expected one of {', '.join(names)}")


_OF_PRODUCTS = (
    "dtype",
    "layout",
    "alpha",
    "beta",
    "b_packed",
    "epilogue",
    "prologue_a",
    "prologue_b",
    "tf32",
    "precision",
)
_NAMED: Mapping[str, tuple[Callable[[str, str, dict[str, Any]], Sequence[Spec]], tuple[str, ...]]] = {
    "--trace": (_traced, ()),
    "--suite": (_suite, _OF_PRODUCTS),
    "--conv": (_convolutions, ("dtype", "b_packed")),
    "--attention": (_attention, ("dtype",)),
}
"""The options that name what is tuned: what makes specs of their values, and of which options beside them."""
