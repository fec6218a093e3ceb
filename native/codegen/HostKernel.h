// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU kernel as LLVM IR for this machine, to be run by the emulator (native/emulator).

#ifndef TILEWRIGHT_CODEGEN_HOSTKERNEL_H
#define TILEWRIGHT_CODEGEN_HOSTKERNEL_H

#include <string>

namespace tilewright::codegen {

/// LLVM IR of the NVVM module `ir` for the machine of `triple`, in which
/// - every NVVM intrinsic and every piece of inline PTX is a call of the emulator, with its operands in memory;
/// - every access to memory is announced to it first;
/// - shared memory is what it gives to the thread's block;
/// - `kernel` can be called as `void launch(void **arguments)`, `i32 shared()` says how many bytes of shared memory
/// its variables have, and `const uint32_t *parameters()` how many parameters it has and then the bytes of each.
/// Findings name lines of the source where the module has debug locations, and otherwise, with `linesOfText`, those of
/// `ir`. With `locations`, instructions keep their debug locations. Throws CodegenError: the module is not valid, has
/// no such kernel, or reads a wgmma result before it waits for it.
std::string hostKernel(const std::string &ir, const std::string &kernel, const std::string &triple, bool linesOfText,
                       bool locations);

} // namespace tilewright::codegen

#endif // TILEWRIGHT_CODEGEN_HOSTKERNEL_H
