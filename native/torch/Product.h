// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of tensors, with what is fused behind them: the layouts that kernels take, and the problems that ops are.

#ifndef TILEWRIGHT_TORCH_PRODUCT_H
#define TILEWRIGHT_TORCH_PRODUCT_H

#include "View.h"

#include <string>
#include <vector>

namespace tilewright::torch_ops {

/// An entry of an epilogue, and its operand.
struct Entry {
  std::string name;                   // As `tilewright.torch.problems` reads it: "bias", "gelu", "glu-silu".
  AtenTensorHandle operand = nullptr; // Or none.
  const char *axes = "";              // Of its operand: "n", "mn", or "b" for a matrix like B.
};

/// How the elements of B are quantized: (code - zero) * scale.
struct Quantized {
  std::string element;     // Of the codes: "i4", two in a byte.
  int64_t group;           // Elements along K that share a scale; 0: all of a column.
  AtenTensorHandle scales; // (N, ceil(K / group)), or (N).
  AtenTensorHandle zeros;  // Likewise, or null.
  std::string precision;   // "i8": A may be rounded to integers. "-": it is not.
};

/// A·B, with a batch as torch.matmul has it, and entries after it.
struct Product {
  AtenTensorHandle a, b;
  bool isLinear = false; // B is stored as torch.nn.Linear has its weight: N rows of K elements.
  std::vector<Entry> entries;
  const Quantized *weights = nullptr;
};

/// The result, a new tensor. Throws std::runtime_error where operands do not fit, or no kernel can be had.
Owned compute(const Product &product);

/// Products of one left matrix by several quantized weights of as many columns K, quantized alike.
struct Joined {
  AtenTensorHandle x;
  std::vector<Owned> codes, scales, zeros,
      biases; // Of each weight; no zero points or biases at all where there are none.
  std::string element;
  int64_t group;
  std::string precision;
};

/// The results side by side, a new tensor: of one product where the weights lie one after another in memory. Throws
/// std::runtime_error as `compute` does.
Owned computeJoined(const Joined &joined);

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_PRODUCT_H
