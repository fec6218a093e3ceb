// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The structures by which XLA calls a handler of its typed FFI, version 0 of the C interface. They are declared here,
// as those of DLPack are, so that one binary is built without XLA and serves every release of that version. Source:
// xla/ffi/api/c_api.h, with which a test compares them where JAX is installed. Each starts with its size, by which a
// release tells that it has more members.

#ifndef TILEWRIGHT_JAX_XLAFFI_H
#define TILEWRIGHT_JAX_XLAFFI_H

#include <cstddef>
#include <cstdint>

namespace tilewright::xla {

struct Extension {
  size_t bytes;
  int32_t kind;
  Extension *next;
};
constexpr int32_t metadataExtension = 1;

struct Version {
  size_t bytes;
  Extension *extensions;
  int32_t major, minor;
};
constexpr int32_t majorVersion = 0;

/// Only XLA knows what is in it.
struct Error;

/// Those of absl::StatusCode.
enum class ErrorCode : int32_t {
  invalidArgument = 3,
  notFound = 5,
  resourceExhausted = 8,
  failedPrecondition = 9,
  unimplemented = 12
};

struct ErrorArguments {
  size_t bytes;
  Extension *extensions;
  const char *message;
  ErrorCode code;
};

/// The functions of XLA, up to the only one that is used.
struct Api {
  size_t bytes;
  Extension *extensions;
  Version version;
  const void *internal;
  Error *(*makeError)(ErrorArguments *arguments);
};

/// An array without gaps, in row-major order.
struct Buffer {
  size_t bytes;
  Extension *extensions;
  int32_t type;
  void *data;
  int64_t rank;
  int64_t *extents;
};

/// The operands, or the results: buffers, all of them.
struct Values {
  size_t bytes;
  Extension *extensions;
  int64_t count;
  int32_t *kinds;
  void **values;
};
constexpr int32_t bufferValue = 1;

struct Text {
  const char *data;
  size_t size;
};

struct Attributes {
  size_t bytes;
  Extension *extensions;
  int64_t count;
  int32_t *kinds;
  Text **names;
  void **values;
};
constexpr int32_t textAttribute = 4;

struct Call {
  size_t bytes;
  Extension *extensions;
  const Api *api;
  void *context;
  int32_t stage;
  Values operands, results;
  Attributes attributes;
};
constexpr int32_t executeStage = 3;

struct Metadata {
  size_t bytes;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata *metadata;
};

/// An element type: its number here, and DLPack's code and bits.
struct ElementType {
  int32_t number;
  uint8_t kind, bits;
};
constexpr ElementType elementTypes[] = {
    {2, 0, 8},   {3, 0, 16},  {4, 0, 32},  {5, 0, 64},  {6, 1, 8},    {7, 1, 16}, {8, 1, 32},  {9, 1, 64},  {10, 2, 16},
    {11, 2, 32}, {12, 2, 64}, {16, 4, 16}, {15, 5, 64}, {18, 5, 128}, {29, 7, 8}, {20, 10, 8}, {19, 12, 8}, {33, 14, 8},
};

} // namespace tilewright::xla

#endif // TILEWRIGHT_JAX_XLAFFI_H
