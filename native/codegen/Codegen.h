// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM IR text in, optimized text, assembly or an object out. Nothing here knows of Python.

#ifndef TILEWRIGHT_CODEGEN_CODEGEN_H
#define TILEWRIGHT_CODEGEN_CODEGEN_H

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::codegen {

/// The input is wrong, or LLVM cannot make code of it for the machine; what() is what LLVM said.
class CodegenError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A machine in LLVM's spelling: "x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma". An empty CPU is the generic
/// one.
struct Machine {
  std::string triple;
  std::string cpu;
  std::string features;
};

enum class Kind { assembly, object };

/// Makes every target of this LLVM usable, and LLVM's fatal errors catchable inside the two functions below. Once.
void initialize();

/// One run of a pass: its name as opt spells it, how long it took, and the module after it; empty where the pass
/// changed nothing, or texts are not wanted.
struct PassRun {
  std::string pass;
  double seconds;
  std::string after;
};

/// Where the runs of passes are kept, in their order.
struct PassRuns {
  bool texts;
  std::vector<PassRun> runs;
};

/// The passes of LLVM's default pipeline of `level` (0 to 3) for `machine`, as opt's -passes takes them. Throws
/// CodegenError.
std::string defaultPasses(const Machine &machine, int level);

/// Passes that are run: a list, as opt's -passes takes it, or LLVM's default pipeline of a level; and of those, which
/// names are left out.
struct Passes {
  std::optional<std::string> list;
  std::vector<std::string> without;
};

/// `ir` after `passes`, whose default pipeline is that of `level` (0 to 3). They go into `watch` where that is given.
/// Throws CodegenError.
std::string optimize(const std::string &ir, const Machine &machine, int level, const Passes &passes = {},
                     PassRuns *watch = nullptr);

/// Code of `ir`, which is not optimized any further, position-independent. Multiplications and additions are fused only
/// where the IR's flags say so. With `alignBranches`, no jump of an object for x86 crosses 32 bytes, or ends there.
/// Where many instructions move values between registers and the stack, instructions are ordered in two ways, with and
/// without regard to how many registers are in use, and the code with clearly fewer moves is returned. Throws
/// CodegenError.
std::string emit(const std::string &ir, const Machine &machine, Kind kind, bool alignBranches = false);

} // namespace tilewright::codegen

#endif // TILEWRIGHT_CODEGEN_CODEGEN_H
