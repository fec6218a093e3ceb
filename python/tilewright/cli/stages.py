# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright stages``: the named stages of a compilation, for one target or for every family of targets."""

from __future__ import annotations

import json

import click

from tilewright import targets
from tilewright.cli import options
from tilewright.emit import pipeline
from tilewright.targets import GpuTarget, Target


@options.verb(short_help="List the stages of a compilation.")
@click.option("--target", type=options.TARGET, help="Only those of this target; see `tilewright targets`.")
@click.option("--json", "as_json", is_flag=True, help="Print an object, of a list of stages for each family.")
def stages(target: str | Target | GpuTarget | None, as_json: bool) -> None:
    """List the named stages of a compilation in order, as `--emit`, `explain`, errors and dumps call them."""
    families = pipeline.FAMILIES if target is None else {(family := _family(target)): pipeline.FAMILIES[family]}
    if as_json:
        rows = {
            family: [{"name": name, "what": pipeline.WHAT[name]} for name in names]
            for family, names in families.items()
        }
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(map(len, pipeline.WHAT))
    for family, names in families.items():
        click.echo(f"{family}:")
        for name in names:
            click.echo(f"  {name:{width}}  {pipeline.WHAT[name]}")


def _family(target: str | Target | GpuTarget) -> str:
    """The family of stages of a target."""
    gpu = targets.gpu(target)
    if gpu is not None:
        return gpu.family
    targets.resolve(target)  # raises: there is no such target
    return "cpu"
