// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors of torch through the C functions of its stable ABI.

#ifndef TILEWRIGHT_TORCH_VIEW_H
#define TILEWRIGHT_TORCH_VIEW_H

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <torch/csrc/stable/c/shim.h>
#include <utility>
#include <vector>

namespace tilewright::torch_ops {

/// More dimensions than any kernel takes.
constexpr int64_t mostDimensions = 16;

/// A tensor's memory, as an operand of a kernel. Strides are in elements.
struct View {
  void *data = nullptr;
  int64_t rank = 0;
  int32_t type = 0; // Torch's number.
  std::array<int64_t, mostDimensions> sizes{};
  std::array<int64_t, mostDimensions> strides{};
};

/// Throws std::runtime_error for a function of torch that failed.
inline void check(AOTITorchError status, const char *what) {
  if (status != AOTI_TORCH_SUCCESS)
    throw std::runtime_error(std::string("torch failed to ") + what);
}

/// A tensor that is ours to delete.
class Owned {
public:
  Owned() = default;
  explicit Owned(AtenTensorHandle handle) : handle(handle) {}
  Owned(Owned &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (handle)
      aoti_torch_delete_tensor_object(handle);
  }

  AtenTensorHandle get() const { return handle; }
  AtenTensorHandle release() { return std::exchange(handle, nullptr); }
  explicit operator bool() const { return handle != nullptr; }

private:
  AtenTensorHandle handle = nullptr;
};

/// What a tensor's memory is. Throws std::runtime_error for one of too many dimensions.
View viewOf(AtenTensorHandle tensor);

/// A new tensor of this shape in row-major order, uninitialized; `made` is its memory. Throws std::runtime_error.
Owned newTensor(const int64_t *sizes, int64_t rank, int32_t type, View &made);

/// A new tensor of this shape without gaps, whose axes lie in memory in the order of `axes`, the slowest first; `made`
/// is its memory. Throws std::runtime_error.
Owned newTensorInOrder(const int64_t *sizes, const std::vector<int64_t> &axes, int32_t type, View &made);

/// The same elements in row-major order, in new memory. Throws std::runtime_error.
Owned compactCopy(AtenTensorHandle tensor);
/// The same, with the axes in memory in the order of `axes`.
Owned copyInOrder(AtenTensorHandle tensor, const std::vector<int64_t> &axes);

/// The view with its axes in another order.
View permuted(const View &view, const std::vector<int64_t> &axes);

/// Whether the elements of a tensor follow one another in row-major order.
bool isCompact(const View &view);

/// Torch's number of an element type by numpy's name, "float32" or "ml_dtypes.bfloat16"; -1 for one that torch does not
/// have.
int32_t typeOf(const std::string &numpyName);

/// An element type in words, by torch's number: "float32".
std::string typeName(int32_t type);

/// A shape in words: "(2, 3)".
std::string shapeText(const int64_t *sizes, int64_t rank);

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_VIEW_H
