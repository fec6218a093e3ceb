// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that one op calls one after the other: what follows a call in a graph then costs no way through Python.

#ifndef TILEWRIGHT_TORCH_CHAIN_H
#define TILEWRIGHT_TORCH_CHAIN_H

#include "Json.h"
#include "Registry.h"
#include "View.h"

#include <string>
#include <vector>

namespace tilewright::torch_ops {

/// Immutable after construction, so that any number of threads may run it at once.
class Chain {
public:
  /// The chain that a text says (`inductor/chains.py`), read once. Throws std::runtime_error where it says none.
  static const Chain &of(const std::string &text);

  /// Throws std::runtime_error where `text` is no chain.
  explicit Chain(const Json &text);

  /// Runs it, and returns what is left at its end: new tensors. Throws std::runtime_error where an operand does not
  /// fit, or there is no memory.
  std::vector<Owned> run(const std::vector<Owned> &operands) const;

private:
  /// An operand of the chain, or a view of a result: so many elements from its first one on.
  struct Source {
    int64_t number;
    bool isResult;
    int64_t offset;
    View view; // Sizes and strides of a result's.
  };
  struct Step {
    std::string kernel;
    std::vector<Source> operands;
    std::vector<int64_t> axes; // Those of a new tensor in the order in which they lie; none: row-major.
    int64_t start;             // Where the result lies in the memory of the chain; -1 for a new tensor.
    View result;               // Its sizes, strides and type.
    int64_t left;              // Which result of the chain it is; -1 for none.
  };

  std::vector<Step> steps;
  int64_t bytes = 0; // Of the memory that results lie in which are not left.
  size_t operandCount = 0, resultCount = 0;
};

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_CHAIN_H
