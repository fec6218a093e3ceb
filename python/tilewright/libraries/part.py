# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of a library for one architecture: the objects of all its kernels and targets, and the code that chooses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.emit import code, shared
from tilewright.libraries import detection, dispatch, pool, tvm_ffi
from tilewright.libraries.archive import archive
from tilewright.libraries.dispatch import Choice
from tilewright.libraries.kernels import Kernel, Source, own_names
from tilewright.libraries.objects import Compiled
from tilewright.standalone.contents import Contents
from tilewright.targets import Target
from tilewright.targets.registry import FAMILIES
from tilewright.version import VERSION


class Part:
    """The code of one architecture.

    Attributes:
        sizes: By name of a kernel and of a target, the bytes of the code's object and its symbol.
        shared: The shared library of all objects.
    """

    def __init__(
        self,
        name: str,
        architecture: str,
        targets: Sequence[Target],
        kernels: Sequence[Kernel],
        compiled: Mapping[tuple[Source, Target], Compiled],
        openmp: str = "",
        threads: str = "",
    ) -> None:
        """Joins the code of kernels for targets, the best first, all of an architecture.

        With `openmp`, the file of an OpenMP runtime, the shared library needs that. `threads` is what `pool` has for kernels of several
        threads; empty where there are none.

        Raises:
            TargetError: A feature that a target needs cannot be detected at run time; or there is no linker.
            LoweringError: LLVM refused the code that chooses, or the linker failed.
        """
        exported = [*own_names(name)]
        *functions, text_of_contents = own_names(name)
        self._members: dict[str, bytes] = {}
        self._symbols: dict[str, tuple[str, ...]] = {}
        self.sizes: dict[tuple[str, str], tuple[int, str]] = {}
        bits, family = detection.positions(targets), targets[0].family
        masks = {each.name: detection.mask(each.features, bits) for each in targets}
        every = next(each for each in FAMILIES if each.name == family)
        caps = {row.name: detection.mask(row.features, bits) for row in every.rows} | masks
        plain = replace(targets[0], features=detection.of(family).baseline)
        runtime = dispatch.runtime(name, family, architecture, bits, caps, list(masks))
        self._add(f"{name}.o", _object(runtime, plain), (*functions, *dispatch.symbols(name).values()))
        if threads:
            set_pool = [f"{name}_set_pool"] * (not openmp)
            self._add(f"{name}.threads.o", _object(threads, plain), (*pool.symbols(name), *set_pool))
            exported += set_pool
        if any(kernel.of_tvm_ffi for kernel in kernels):
            self._add(f"{name}.tvm.o", _object(tvm_ffi.runtime(name), plain), tuple(tvm_ffi.symbols(name).values()))
        for kernel in kernels:
            choices = []
            for target in targets:
                symbol, object_ = compiled[kernel.shares or kernel.source, target].named(name)
                choices.append(Choice(masks[target.name], target.name, symbol))
                self._add(f"{symbol}.o", object_, tuple(f"{symbol}{each.suffix}" for each in kernel.functions))
                self.sizes[kernel.name, target.name] = len(object_), symbol
            text = dispatch.entries(name, kernel.name, kernel.functions, choices)
            if own := kernel.of_tvm_ffi:
                text += tvm_ffi.entries(name, own)
            self._add(f"{kernel.name}.entry.o", _object(text, plain), kernel.exported)
            exported += kernel.exported
        said = Contents(
            name,
            VERSION,
            architecture,
            tuple(masks),
            max(compiled[each.source, target].threads for each in kernels for target in targets),
            hashlib.sha256(b"".join(self._members.values())).hexdigest(),
            {name: entry for each in kernels for name, entry in each.entries.items()},
        )
        text = dispatch.data(text_of_contents, said.as_text())
        self._add(f"{name}.contents.o", _object(text, plain), (text_of_contents,))
        self.shared = shared.link_library(list(self._members.values()), f"lib{name}.so", exported, openmp)

    def _add(self, member: str, object_: bytes, symbols: tuple[str, ...]) -> None:
        self._members[member], self._symbols[member] = object_, symbols

    @property
    def static(self) -> bytes:
        """The static library of all objects."""
        return archive(self._members, self._symbols)


def _object(text: str, target: Target) -> bytes:
    """The object of LLVM IR for every processor of an architecture."""
    return code.object_file(code.optimize(text, target), target)
