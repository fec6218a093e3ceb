// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, as torch.nn.functional.scaled_dot_product_attention has it.

#ifndef TILEWRIGHT_TORCH_ATTENTION_H
#define TILEWRIGHT_TORCH_ATTENTION_H

#include "View.h"

namespace tilewright::torch_ops {

/// softmax(scale · Q·Kᵀ + mask) · V; tensors are (..., heads, rows, elements), and as many heads of Q as divide evenly
/// share one of K and V.
struct Attention {
  AtenTensorHandle q, k, v, mask; // The mask may be null.
  bool isCausal;                  // A query sees the keys up to its own number.
  double scale;
};

/// The result, a new tensor. Throws std::runtime_error where operands do not fit, or no kernel can be had.
Owned compute(const Attention &attention);

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_ATTENTION_H
