// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of this process by their names. A program of XLA's holds names, never addresses, so that it can be
// written to a file and run by another process.

#ifndef TILEWRIGHT_JAX_KERNELS_H
#define TILEWRIGHT_JAX_KERNELS_H

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

namespace tilewright::jax {

/// DLTensor, and DLDataType in it, of DLPack's dlpack.h.
struct ElementCode {
  uint8_t kind, bits;
  uint16_t lanes;

  friend bool operator==(ElementCode one, ElementCode other) {
    return one.kind == other.kind && one.bits == other.bits && one.lanes == other.lanes;
  }
};
struct Tensor {
  void *data;
  int32_t deviceType, deviceNumber;
  int32_t rank;
  ElementCode type;
  int64_t *extents, *strides; // Strides in elements.
  uint64_t byteOffset;
};

/// The entry of every kernel but the ones below: takes the operands, the result last, and checks them.
using TensorEntry = int32_t(const Tensor *const *tensors);
/// The entry of a product of two matrices and nothing else. Leading dimensions are in elements.
using MatrixEntry = int32_t(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                            void *c, int64_t ldc);

/// A kernel: one of the entries, and what the second kind does not check itself.
struct Kernel {
  TensorEntry *tensors = nullptr;
  MatrixEntry *matrices = nullptr;
  ElementCode types[3] = {};
  bool transposed[2] = {};
  /// Where there is no entry: why not.
  std::string refusal = {};

  bool isHere() const { return tensors || matrices; }
};

/// Makes the kernel of a name known that is not, from the text of its spec: calls `add` or `refuse` for it.
using Finder = void(const char *name, const char *spec);

/// Any number of threads may use it at once.
class Kernels {
public:
  void add(const std::string &name, Kernel kernel);
  /// Whom `find` asks for kernels that were not added; null: nobody.
  void ask(Finder *finder);
  /// The kernel of a name, which is asked for where it is not here; without entries, and with the refusal, where there
  /// is none.
  Kernel find(const std::string &name, const std::string &spec);

private:
  Kernel look(const std::string &name);

  std::shared_mutex mutex;
  std::map<std::string, Kernel> known;
  Finder *finder = nullptr;
};

/// Those of this process.
Kernels &kernels();

} // namespace tilewright::jax

#endif // TILEWRIGHT_JAX_KERNELS_H
