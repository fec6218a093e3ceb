# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What decides a compiled object, in one value, and how the disk cache is asked for it and given it.

Every compilation goes through the cache this way: products, operators, modules, chains, forms of GPU kernels, cubins. The key has a
part for each field of `Compilation`, so what a compilation depends on is a field, or is in the package's sources.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from numbers import Integral
from typing import Any, Literal

from tilewright import knobs
from tilewright.emit import versions
from tilewright.emit.pipeline import Record
from tilewright.operator_specs import OperatorSpec
from tilewright.runtime.cache import Entry, KernelCache
from tilewright.schedules.plan import Case
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Everything that decides one object.

    Attributes:
        kind: What is compiled: a product, an operator, a module's text, a chain of products, a kernel of a library, a form of a GPU
            kernel, or PTX.
        problem: The spec, the specs of a chain, or the text.
        target: For what; its emulation, which decides nothing, is left out.
        schedule: The strategy's name; None where the compilation chooses one.
        own: The text of a user's schedule; None for one of ours.
        parameters: The sizes that the schedule is given, by name.
        threads: Most threads that a call uses.
        cases: The cases of a dynamic spec, each with its plan.
        plain: Whether each op of a module becomes loops over elements.
        form: Whether rows of A and B, and of C, are aligned; None where there is one form.
        debug_info: Which lines of the schedule its line tables tell; empty where it has none.
        passes: The list of passes that it runs in place of ours; empty without.
        coverage: Whether it records what of its code runs.
        assembler: What tells the program that assembles PTX from another one; empty without.
        compiler: A digest of the package's sources, and of what it is linked with.
    """

    kind: Literal["product", "operator", "module", "chain", "library", "gpu", "cubin"]
    problem: MatmulSpec | OperatorSpec | tuple[MatmulSpec, ...] | str
    target: Target | GpuTarget
    schedule: str | None = None
    own: str | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)
    threads: int = 1
    cases: tuple[Case, ...] = ()
    plain: bool = False
    form: tuple[bool, bool] | None = None
    debug_info: str = field(default_factory=lambda: knobs.load().debug_info)
    passes: str = field(default_factory=lambda: knobs.load().pass_list())
    coverage: bool = field(default_factory=lambda: knobs.load().coverage is not None)
    assembler: str = ""
    compiler: str = field(default_factory=versions.fingerprint)

    def __post_init__(self) -> None:
        """Leaves out how kernels are emulated."""
        if self.target.emulation is not None:
            object.__setattr__(self, "target", replace(self.target, emulation=None))

    @property
    def key(self) -> dict[str, str]:
        """The parts of the cache's key, one for each field.

        Raises:
            TypeError: A field holds what has no text that tells it from others, such as a function.
        """
        return {each.name: _text(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a compilation.

    Attributes:
        record: The object, and, where it was made just now, all else that compiling gives.
        about: What the disk cache keeps with it.
        cached: Whether it is from there.
    """

    record: Any
    about: Mapping[str, Any]
    cached: bool

    def facts(self, start: float) -> dict[str, Any]:
        """What a kernel's metadata has of it, where the compilation began at `start`, as `time.perf_counter` counts seconds."""
        return {
            "seconds": dict(self.record.seconds),
            "compile_seconds": time.perf_counter() - start,
            "object_bytes": len(self.record.object),
            "cached": self.cached,
        }


def fetch(
    what: Compilation | None, make: Callable[[], tuple[Record, Mapping[str, Any]]], *, cache: bool = True
) -> Fetched:
    """The result of a compilation: from the disk cache, or made, and then put there.

    Args:
        what: The compilation; None for one whose result cannot be told without running it.
        make: Runs it, and says what is kept with the object: JSON values by name.
        cache: Whether the disk cache is read and written.
    """
    store = KernelCache.from_knobs(knobs.load()) if cache else None
    found = find(store, what)
    if found is not None:
        return Fetched(Record(object=found.object), found.header, cached=True)
    record, about = make()
    keep(store, what, record.object, about, record.libraries)
    return Fetched(record, about, cached=False)


def find(store: KernelCache | None, what: Compilation | None) -> Entry | None:
    """What the cache holds for a compilation, made with the libraries that this process would use; None where there is none.

    Args:
        store: The cache; None to do without.
        what: The compilation; None for one whose result cannot be told without running it.
    """
    if store is None or what is None:
        return None
    found = store.get(what.key)
    return found if found is not None and versions.are_unchanged(found.header.get("libraries")) else None


def keep(
    store: KernelCache | None,
    what: Compilation | None,
    object_: bytes,
    about: Mapping[str, Any],
    libraries: Mapping[str, str] | None = None,
) -> None:
    """Puts an object where `find` finds it.

    Args:
        store: The cache; None to do without.
        what: As for `find`.
        object_: The code.
        about: What is stored with it: JSON values by name.
        libraries: The libraries that made it, as `versions.libraries` tells them; None: those that this process has loaded.
    """
    if store is not None and what is not None:
        made_with = versions.libraries() if libraries is None else dict(libraries)
        store.put(what.key, object_, {"target": what.target.name, **about, "libraries": made_with})


def note(what: Compilation | None, got: Fetched, **facts: Any) -> None:  # noqa: ANN401 - JSON values
    """Keeps more facts beside an object that `fetch` gave: JSON values by name."""
    store = KernelCache.from_knobs(knobs.load()) if what is not None else None
    keep(store, what, got.record.object, {**got.about, **facts}, got.about.get("libraries", got.record.libraries))


def _text(value: object) -> str:
    """A text that two values share only if they are equal; sets and mappings are in one order."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{each.name}={_text(getattr(value, each.name))}" for each in fields(value))
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{_text(name)}: {_text(each)}' for name, each in value.items()))}}}"
    if isinstance(value, AbstractSet):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, bool | str | float | complex) or value is None:
        return repr(value)
    if isinstance(value, Integral):  # Also NumPy's.
        return repr(int(value))
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be part of a cache key")
