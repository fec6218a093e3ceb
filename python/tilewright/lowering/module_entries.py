# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins the functions of a module and its products, each lowered by itself, to one module with C entries.

They are joined as text, as `entry` joins a kernel and its entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.lowering import driver, entry, modules, pack_entry, tensor_entry, tile_permission
from tilewright.lowering.modules import Product
from tilewright.mlir import ir
from tilewright.payload.abi import WRONG_PACKING
from tilewright.payload.packing import PackedFormat
from tilewright.payload.signature import Signature
from tilewright.targets.base import Target

_POINTER = "!llvm.ptr"
_NAMES = re.compile(r"%(header|found|unlike|any|alike|payload_bytes|payload)\b")
"""What `pack_entry.check` defines, once for each B that comes packed."""


def join(
    functions: Mapping[str, tuple[Signature, ir.Module]],
    products: Sequence[Product],
    target: Target,
    allocator: tuple[str, str],
) -> ir.Module:
    """One module of the functions' bodies and the products', with a C entry for each function.

    Args:
        functions: By the name of its body, each function's signature and module, in the LLVM dialect.
        products: The products, numbered as the functions call them.
        target: For which target.
        allocator: Where entries get their workspace.
    """
    texts: list[str] = []
    declared: dict[str, str] = {}
    for number, product in enumerate(products):
        texts.append(_named(str(product.body), f"{modules.symbol(number)}_"))
        name = modules.symbol(number)
        texts.append(_wrapper(name, f"{name}_{entry.BODY}", product.operands, target))
        if product.packed is not None:
            operands = [(product.spec.b_shape, product.spec.b_stored.mlir), product.operands[1]]
            texts.append(_wrapper(f"{name}_pack", f"{name}_{entry.PACK_BODY}", operands, target))
    owned = [f"{modules.symbol(number)}{suffix}" for number in range(len(products)) for suffix in ("", "_pack")]
    for _, module in functions.values():
        texts.append(_named(str(module), "", own=owned))
    body = "\n".join(_without_repeats(text, declared) for text in texts)
    entries = "".join(
        _entry(signature, name, target, allocator, declared) for name, (signature, _) in functions.items()
    )
    if allocator == driver.LIBC_ALLOCATOR and "llvm.x86.tile" in body:
        entries += tile_permission.text()
    declarations = "\n".join(declared.values())
    with ir.Location.unknown():
        first = next(iter(functions.values()))[1]
        return ir.Module.parse(f"{body}\n{declarations}\n{entries}", first.context)


_DECLARATION = re.compile(r"^  llvm\.func @(\w+)\([^{}\n]*\)[^{}\n]*(?:attributes \{[^\n]*\})?$")
_DEFINITION = re.compile(r"^  llvm\.(?:func|mlir\.global)\b[^@\n]*@(\w+)[^\n]*$", re.MULTILINE)


def _named(text: str, prefix: str, own: Sequence[str] = ()) -> str:
    """The body of a module's text, in which what it defines has names that begin with `prefix`.

    Declarations of the functions `own`, which others define, are left out.
    """
    lines = text.strip().split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("module"))
    head, inner = lines[:first], lines[first + 1 : -1]
    kept = [line for line in inner if not any(re.match(rf"  llvm\.func @{each}\(", line) for each in own)]
    body = "\n".join(kept)
    for alias in re.finditer(r"^(#\w+) = (.*)$", "\n".join(head), re.MULTILINE):
        body = re.sub(rf"{re.escape(alias[1])}\b", alias[2].replace("\\", r"\\"), body)
    defined = [
        match.group(1) for match in _DEFINITION.finditer(body) if prefix and not _DECLARATION.match(match.group(0))
    ]
    for name in defined:
        body = re.sub(rf"@{re.escape(name)}\b", f"@{prefix}{name}", body)
    return body


def _without_repeats(text: str, declared: dict[str, str]) -> str:
    """A text without the declarations of functions, which are gathered in `declared`."""
    kept = []
    for line in text.split("\n"):
        found = _DECLARATION.match(line)
        if found:
            declared.setdefault(found.group(1), line)
        else:
            kept.append(line)
    return "\n".join(kept)


def _wrapper(name: str, body: str, operands: Sequence[tuple[tuple[int, ...], str]], target: Target) -> str:
    """The function `name` that the rest calls: its memrefs may start anywhere, those of `body` at their pointer."""
    parameters, passed, lines = [], [], []
    ranks = [(len(shape), element) for shape, element in operands]
    for at, (rank, element) in enumerate(ranks):
        names = [f"%p{at}_{each}" for each in range(3 + 2 * rank)]
        kinds = [_POINTER, _POINTER, *["i64"] * (1 + 2 * rank)]
        parameters += [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)]
        lines.append(f"%q{at} = llvm.getelementptr {names[1]}[{names[2]}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}")
        start = [f"%q{at}", f"%q{at}", "%zero", *names[3:]]
        passed += list(zip(start, kinds, strict=True))
    values, kinds = ", ".join(value for value, _ in passed), ", ".join(kind for _, kind in passed)
    starts = "\n    ".join(lines)
    return f"""  llvm.func internal @{name}({", ".join(parameters)}) attributes {{{entry.attributes_text(target)}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    {starts}
    llvm.call @{body}({values}) : ({kinds}) -> ()
    llvm.return
  }}"""


def _entry(
    signature: Signature, body: str, target: Target, allocator: tuple[str, str], declared: dict[str, str]
) -> str:
    """The C entry of a function, the one that takes an array of tensors, and those that pack what it takes packed."""
    arguments = [
        tensor_entry.TensorArgument(
            f"t{index}",
            each.shape,
            each.element,
            checked=not each.packed,
            written=each.written,
            compact=each.compact,
        )
        for index, each in enumerate(signature.parameters)
    ]
    operands, types = [each.descriptor for each in arguments], [each.types for each in arguments]
    checks, packers = [], ""
    for index, each in enumerate(signature.parameters):
        if each.packed:
            packed = PackedFormat.from_header(bytes.fromhex(each.format))
            check = pack_entry.check(packed, f"%t{index}", f"^alike{index}", "^unlike")
            check = _NAMES.sub(lambda name, index=index: f"{name.group(0)}{index}", check)
            checks.append(f"{check}\n  ^alike{index}:\n    ")
            packer = f"{modules.symbol(each.packed - 1)}_{entry.PACK_BODY}"
            name = f"{signature.name}_{each.name}"
            attributes = entry.attributes_text(target)
            packers += pack_entry.text(packed, packer, name, attributes, transposed=each.transposed)
            operands[index] = f"%payload{index}, %payload{index}, %zero, %payload_bytes{index}, %one"
    declarations, run = entry.run_text(operands, types, signature.workspace, allocator, None, body=body)
    run = "".join(checks) + run
    if checks:
        run += f"""
  ^unlike:
    %wrong_packing = llvm.mlir.constant({WRONG_PACKING} : i32) : i32
    llvm.return %wrong_packing : i32"""
    for line in declarations.split("\n"):
        if line.strip():
            declared.setdefault(line[line.index("@") + 1 : line.index("(")], f"  {line.strip()}")
    return tensor_entry.text(signature.name, arguments, entry.attributes_text(target), "", run) + packers
