# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins the functions of a module and its products, each lowered by itself, to one module with C entries.

Entries are added as text, as `entry` adds those of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright import knobs
from tilewright.dims import Extent
from tilewright.lowering.entries import entry, pack_entry, product_cases, tensor_entry, tile_permission
from tilewright.lowering.passes import dynamic_workspace
from tilewright.lowering.product_calls import Product, symbol
from tilewright.mlir import ir
from tilewright.payload.abi import FITS, WRONG_PACKING
from tilewright.payload.signature import Signature
from tilewright.standalone.packing import PackedFormat
from tilewright.targets.base import Target

_INTERNAL = "#llvm.linkage<internal>"
_NAMES = re.compile(r"%(header|found|unlike|any|alike|payload_bytes|payload)\b")
"""What `pack_entry.check` defines, once for each B that comes packed."""


def join(
    functions: Mapping[str, tuple[Signature, ir.Module]],
    products: Sequence[Product],
    target: Target,
    *,
    asks_for_tiles: bool = False,
) -> ir.Module:
    """One module of the functions' bodies and the products', with a C entry for each function.

    Args:
        functions: By the name of its body, each function's signature and module, in the LLVM dialect.
        products: The products, numbered as the functions call them.
        target: For which target.
        asks_for_tiles: Whether the object asks for permission to use AMX, if it does, when it is loaded.
    """
    joined = ir.Module.create(ir.Location.unknown(next(iter(functions.values()))[1].context))
    wrappers, declared = "", set()
    for number, product in enumerate(products):
        name = symbol(number)
        if product.plan is None:
            ((body, _),) = product.bodies
            _take(body, joined, f"{name}_", declared)
            wrappers += _wrapper(name, f"{name}_{entry.BODY}", product.operands, target)
        else:
            for case, (body, _) in enumerate(product.bodies):
                _take(body, joined, f"{name}_case{case}_", declared)
            wrappers += product_cases.text(product, product.plan, name, target)
        if product.packed is not None:
            operands = [(product.spec.b_shape, product.spec.b_stored.mlir), product.operands[1]]
            wrappers += _wrapper(f"{name}_pack", f"{name}_{entry.PACK_BODY}", operands, target)
    # What the wrappers define is declared by those who call it.
    declared |= {f"{symbol(number)}{suffix}" for number in range(len(products)) for suffix in ("", "_pack")}
    for name, (_, module) in functions.items():
        _take(module, joined, f"{name}_", declared, kept=name)
    body = str(joined.operation.get_asm(assume_verified=True, enable_debug_info=bool(knobs.load().debug_info)))
    entries = "".join(
        _entry(
            signature,
            name,
            target,
            declared,
            _beside(module, name, dynamic_workspace.BYTES),
            _beside(module, name, FITS),
        )
        for name, (signature, module) in functions.items()
    )
    if asks_for_tiles and "llvm.x86.tile" in body:
        entries += tile_permission.text()
    end = body.rindex("}")
    return ir.Module.parse(f"{body[:end]}{wrappers}{entries}{body[end:]}", joined.context)


def _take(module: ir.Module, joined: ir.Module, prefix: str, declared: set[str], kept: str = "") -> None:
    """Adds what `module` holds to `joined`; what it defines gets names with a prefix, but for the symbol `kept`.

    What it declares is left out where it is `declared` already.
    """
    for op in [op.operation for op in module.body]:
        name = ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""
        if any(len(region.blocks) for region in op.regions) or op.name == "llvm.mlir.global":
            if name != kept:
                ir.SymbolTable.replace_all_symbol_uses(name, f"{prefix}{name}", module.operation)
                ir.SymbolTable.set_symbol_name(op, f"{prefix}{name}")
            with module.context:
                op.attributes["linkage"] = ir.Attribute.parse(_INTERNAL)
        elif name in declared:
            op.erase()
        else:
            declared.add(name)
    for op in module.body:
        op.operation.clone(ip=ir.InsertionPoint(joined.body))


def _wrapper(name: str, body: str, operands: Sequence[tuple[tuple[Extent, ...], str]], target: Target) -> str:
    """The function `name` that the rest calls: its memrefs may start anywhere, those of `body` at their pointer."""
    expanded = product_cases.expanded(operands)
    return f"""
  llvm.func internal @{name}({expanded.parameters}) attributes {{{entry.attributes_text(target)}}} {{
    {expanded.starts}
    llvm.call @{body}({expanded.values}) : ({expanded.types}) -> ()
    llvm.return
  }}
"""


def _beside(module: ir.Module, name: str, suffix: str) -> str:
    """The function beside another one that tells something of it, under the name that `_take` has given it; empty without one."""
    names = [ir.StringAttr(op.attributes["sym_name"]).value for op in module.body if "sym_name" in op.attributes]
    return next((each for each in names if each == f"{name}_{suffix}"), "")


def _entry(
    signature: Signature,
    body: str,
    target: Target,
    declared: set[str],
    bytes_of: str,
    fits: str,
) -> str:
    """The C entry of a function, the one that takes an array of tensors, and those that pack what it takes packed."""
    arguments = [
        tensor_entry.TensorArgument(
            f"t{index}",
            each.shape,
            each.element,
            checked=not each.packed,
            batch=each.batch,
            written=each.written,
            compact=each.compact,
            names=each.names,
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
            packer = f"{symbol(each.packed - 1)}_{entry.PACK_BODY}"
            name = f"{signature.name}_{each.name}"
            attributes = entry.attributes_text(target)
            packers += pack_entry.text(packed, packer, name, attributes, transposed=each.transposed)
            operands[index] = f"%payload{index}, %payload{index}, %zero, %payload_bytes{index}, %one"
    if fits:
        checks.append(f"""%status = llvm.call @{fits}({", ".join(operands)}) : ({", ".join(types)}) -> i32
    %is_fine = llvm.icmp "eq" %status, %ok : i32
    llvm.cond_br %is_fine, ^fine, ^refused(%status : i32)
  ^fine:
    """)
    declarations, run = entry.run_text(operands, types, signature.workspace, None, body=body, bytes_of=bytes_of)
    run = "".join(checks) + run
    if packers:
        run += f"""
  ^unlike:
    %wrong_packing = llvm.mlir.constant({WRONG_PACKING} : i32) : i32
    llvm.return %wrong_packing : i32"""
    lines = {line[line.index("@") + 1 : line.index("(")]: line for line in declarations.split("\n") if line.strip()}
    missing = "\n  ".join(line for name, line in lines.items() if name not in declared)
    declared |= set(lines)
    return tensor_entry.text(signature.name, arguments, entry.attributes_text(target), missing, run) + packers
