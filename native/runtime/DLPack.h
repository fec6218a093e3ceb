// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The structures of DLPack 1.3 by which libraries share arrays. Source: dlpack.h, and "Python Specification for
// DLPack".

#ifndef TILEWRIGHT_RUNTIME_DLPACK_H
#define TILEWRIGHT_RUNTIME_DLPACK_H

#include <cstdint>

namespace tilewright::runtime::dlpack {

constexpr uint32_t majorVersion = 1, minorVersion = 1;

/// Kinds of devices whose memory this processor reads and writes as its own: CPU, and pinned memory of CUDA and ROCm.
constexpr int32_t cpu = 1, cudaHost = 3, rocmHost = 11;

/// Flags of a managed tensor.
constexpr uint64_t readOnly = 1, copied = 2;

/// An element type.
struct Type {
  uint8_t kind;
  uint8_t bits;

  friend bool operator==(Type one, Type other) { return one.kind == other.kind && one.bits == other.bits; }
};

/// DLTensor.
struct Tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t rank;
  struct {
    uint8_t kind, bits;
    uint16_t lanes;
  } type;
  int64_t *shape;
  int64_t *strides; // In elements; null for row-major order.
  uint64_t byteOffset;
};

/// DLManagedTensor, of capsules called "dltensor".
struct Unversioned {
  Tensor tensor;
  void *context;
  void (*deleter)(Unversioned *self);
};

struct Version {
  uint32_t major, minor;
};

/// DLManagedTensorVersioned, of capsules called "dltensor_versioned".
struct Versioned {
  Version version;
  void *context;
  void (*deleter)(Versioned *self);
  uint64_t flags;
  Tensor tensor;
};

/// DLPackExchangeAPI: what a type of arrays offers as `__dlpack_c_exchange_api__`, a capsule "dlpack_exchange_api".
/// Functions return 0, or -1 with a Python error.
struct Exchange {
  struct Header {
    Version version;
    const Header *previous;
  };

  Header header;
  int (*allocate)(Tensor *prototype, Versioned **made, void *context, void (*fail)(void *, const char *, const char *));
  int (*fromObject)(void *object, Versioned **made);
  int (*toObject)(Versioned *tensor, void **object);
  int (*borrow)(void *object, Tensor *borrowed); // May be null. `borrowed` is valid while the object lives.
  int (*currentStream)(int32_t deviceType, int32_t device, void **stream);
};

} // namespace tilewright::runtime::dlpack

#endif // TILEWRIGHT_RUNTIME_DLPACK_H
