// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What JITLink takes on trust in an ELF object, and would crash on.

#ifndef TILEWRIGHT_RUNTIME_ELFCHECK_H
#define TILEWRIGHT_RUNTIME_ELFCHECK_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tilewright::runtime {

/// Succeeds when `object` is a 64-bit little-endian relocatable ELF file whose relocations have a symbol table and stay
/// within the sections that they change. This makes a damaged object an error; it does not make an object of unknown
/// origin safe to run.
llvm::Error checkElf(llvm::StringRef object);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ELFCHECK_H
