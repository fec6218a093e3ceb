// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled kernel that ops call on tensors: what it takes, what is refused, and its C entry.

#ifndef TILEWRIGHT_TORCH_KERNEL_H
#define TILEWRIGHT_TORCH_KERNEL_H

#include "Json.h"
#include "View.h"

#include <memory>
#include <string>
#include <vector>

namespace tilewright::torch_ops {

/// An operand or a result, as the compiler describes it.
struct Operand {
  std::string name;
  std::vector<int64_t> shape; // -2 - i is the open extent i.
  int32_t type;               // Torch's number; -1 for one that torch does not have: bytes are taken.
  int64_t itemBytes;
  uint8_t kind, bits; // DLPack's.
  bool written;
  bool compact; // Its elements follow one another without gaps.
  bool packed;  // It comes packed, as bytes.
  size_t batch; // How many of its dimensions, the first ones, are of a batch.
};

/// Immutable after construction, so that any number of threads may call it at once.
class Kernel {
public:
  /// Finds a function of the code by its name; null where there is none.
  using Find = void *(*)(void *code, const char *name);

  /// `form` is what the compiler says of calls (`payload/call_forms.py`), `packed` the names of operands that come
  /// packed. Throws std::runtime_error where `form` is no such, or the code has no entry.
  Kernel(std::string name, const Json &form, const std::vector<std::string> &packed, const std::string &entry,
         Find find, void *code);

  size_t arguments() const { return argumentCount; }
  size_t results() const { return operands.size() - argumentCount; }
  const std::string &name() const { return ownName; }

  /// Computes the results, which are new tensors: `made` has room for all. Throws std::runtime_error where an operand
  /// does not fit, or there is no memory. Strides that mean nothing are changed in the views. Results lie in memory in
  /// the order of `axes`, the slowest first, where there is one, else row-major.
  void call(View *given, size_t count, Owned *made, const std::vector<int64_t> *axes = nullptr) const;
  /// Computes the one result into memory of its own, in whatever order that is. Throws std::runtime_error where an
  /// operand does not fit, or the result is of another shape or type.
  void callAt(View *given, size_t count, const View &result) const;
  /// Computes the results into tensors of the caller's. `isApart`: they are new, and share no memory with operands.
  void callInto(View *given, size_t count, View *results, size_t resultCount, bool isApart = false) const;

private:
  struct Limits {
    int64_t least, most, multiple;
  };
  struct Header; // A DLTensor.
  using MatmulEntry = int32_t(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                              void *c, int64_t ldc);
  using TensorEntry = int32_t(const Header *const *tensors);

  void readProduct(const Json &form);
  void readFunction(const Json &form);
  void bind(View *given, size_t count, std::vector<int64_t> &extents) const;
  void bindOne(const Operand &operand, View &view, std::vector<int64_t> &extents) const;
  void settleLayout(const Operand &operand, View &view) const;
  void checkPacked(const Operand &operand, const View &view) const;
  void enter(const View *const *all) const;
  [[noreturn]] void refuse(const Operand &operand, const std::string &what, const std::string &expected) const;

  std::string ownName;
  std::vector<Operand> operands; // The results last.
  size_t argumentCount = 0;
  bool accumulates = false;
  bool isPlain = false; // It has the entry of a product without further operands.
  bool transposed[2] = {false, false};
  std::vector<Limits> limits;
  MatmulEntry *plainEntry = nullptr;
  TensorEntry *tensorEntry = nullptr;
};

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_KERNEL_H
