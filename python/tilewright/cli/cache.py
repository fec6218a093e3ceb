# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright cache``: what is kept on disk, and how to be rid of it."""

from __future__ import annotations

import json

import click

from tilewright import knobs
from tilewright.cli import options
from tilewright.errors import TilewrightError

_CHECK_FAILED = 1


@options.verb(short_help="Show, shrink or check what is kept on disk.")
@click.argument("action", type=click.Choice(["size", "prune", "verify"]), default="size")
@click.option(
    "--to", "megabytes", type=click.IntRange(min=0), metavar="MB", help="prune: the most MiB of kernels that stay."
)
@click.option("--all", "everything", is_flag=True, help="prune: remove all kernels and reproducers.")
@click.option("--remove", is_flag=True, help="verify: remove what is damaged.")
@click.option("--json", "as_json", is_flag=True, help="Print an object instead of lines.")
def cache(action: str, megabytes: int | None, everything: bool, remove: bool, as_json: bool) -> int:
    """Show the folder of compiled kernels and reproducers (size), shrink it (prune), or check every kernel (verify).

    Exits with status 1 when verify finds a damaged kernel and leaves it there.
    """
    from tilewright.emit import reproducers
    from tilewright.runtime.cache import KernelCache

    _refuse(action, {"--to": megabytes is not None, "--all": everything}, "prune")
    _refuse(action, {"--remove": remove}, "verify")
    if everything and megabytes is not None:
        raise click.UsageError("both --to and --all given; expected one of them")
    store = KernelCache.from_knobs(knobs.load())
    if store is None:
        remedy = "Unset TILEWRIGHT_NO_CACHE, or name a folder with TILEWRIGHT_CACHE_DIR"
        raise TilewrightError(
            "there is no cache", where="cache", expected="a folder of compiled kernels", remedy=remedy
        )
    facts: dict[str, object] = {"folder": str(store.folder)}
    bad: list[str] = []
    if action == "prune":
        limit = 0 if everything else store.limit_bytes if megabytes is None else megabytes << 20
        facts |= {"removed_kernels": store.prune(limit)}
        facts |= {"removed_reproducers": reproducers.prune(store.folder, *((0, 0) if everything else ()))}
    elif action == "verify":
        bad = store.damaged(remove=remove)
        facts |= {"damaged": bad, "removed": len(bad) if remove else 0}
    kernels, folders = store.entries(), reproducers.found(store.folder)
    facts |= {"kernels": len(kernels), "kernel_bytes": sum(each.size for each in kernels)}
    facts |= {"limit_bytes": store.limit_bytes}
    facts |= {"reproducers": len(folders), "reproducer_bytes": sum(each.size for each in folders)}
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        for line in _lines(facts, bad, [str(each.folder) for each in folders]):
            click.echo(line)
    return _CHECK_FAILED if bad and not remove else 0


def _refuse(action: str, given: dict[str, bool], wanted: str) -> None:
    """Raises `click.UsageError` for an option that another action takes."""
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong and action != wanted:
        raise click.UsageError(f"{wrong[0]} with {action}; expected {wanted}")


def _lines(facts: dict[str, object], bad: list[str], folders: list[str]) -> list[str]:
    """What people read."""
    lines = [
        f"{facts['folder']}",
        f"  kernels      {facts['kernels']}, {facts['kernel_bytes']} bytes of {facts['limit_bytes']}",
        f"  reproducers  {facts['reproducers']}, {facts['reproducer_bytes']} bytes",
        *(f"    {each}" for each in folders),
    ]
    if "removed_kernels" in facts:
        lines.append(f"  removed      {facts['removed_kernels']} kernels, {facts['removed_reproducers']} reproducers")
    if "damaged" in facts:
        what = "removed" if facts["removed"] else "remove them with --remove"
        lines += [f"  damaged      {name}: {what}" for name in bad] or ["  every kernel is sound"]
    return lines
