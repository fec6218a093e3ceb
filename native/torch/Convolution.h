// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions of images with filters, as torch.nn.functional.conv2d has them, in both of torch's orders of memory.

#ifndef TILEWRIGHT_TORCH_CONVOLUTION_H
#define TILEWRIGHT_TORCH_CONVOLUTION_H

#include "View.h"

#include <string>
#include <vector>

namespace tilewright::torch_ops {

struct Convolution {
  AtenTensorHandle x, weight, bias, residual; // The last two may be null.
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  std::string activation; // Before the residual is added.
};

/// The result, a new tensor in the order of the images. Throws std::runtime_error where operands do not fit, or no
/// kernel can be had.
Owned compute(const Convolution &convolution);

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_CONVOLUTION_H
