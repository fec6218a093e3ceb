// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one handler of all custom calls of tilewright.jax: finds the kernel that the call names, and calls it on the
// buffers where they lie.

#include "Kernels.h"
#include "XlaFfi.h"

#include <new>
#include <vector>

using namespace tilewright;
using jax::ElementCode;
using jax::Kernel;
using jax::Tensor;

static xla::Error *error(const xla::Api *api, xla::ErrorCode code, const std::string &message) {
  std::string whole = "tilewright: " + message;
  xla::ErrorArguments arguments{sizeof(xla::ErrorArguments), nullptr, whole.c_str(), code};
  return api->makeError(&arguments);
}

/// The text of an attribute; null where there is none.
static const xla::Text *text(const xla::Attributes &attributes, std::string_view name) {
  for (int64_t i = 0; i < attributes.count; ++i)
    if (attributes.kinds[i] == xla::textAttribute &&
        std::string_view(attributes.names[i]->data, attributes.names[i]->size) == name)
      return static_cast<const xla::Text *>(attributes.values[i]);
  return nullptr;
}

/// DLPack's type of a buffer's elements; of no lanes where DLPack's kernels take none such.
static ElementCode code(int32_t type) {
  for (const xla::ElementType &row : xla::elementTypes)
    if (row.number == type)
      return {row.kind, row.bits, 1};
  return {0, 0, 0};
}

/// All operands and results of a call, as DLPack's tensors.
class Tensors {
public:
  /// False where a value is no buffer.
  bool read(const xla::Values &values) {
    for (int64_t i = 0; i < values.count; ++i) {
      if (values.kinds[i] != xla::bufferValue)
        return false;
      const auto *buffer = static_cast<const xla::Buffer *>(values.values[i]);
      std::vector<int64_t> &steps = strides.emplace_back(buffer->rank, 1);
      for (int64_t axis = buffer->rank - 2; axis >= 0; --axis)
        steps[axis] = steps[axis + 1] * (buffer->extents[axis + 1] > 1 ? buffer->extents[axis + 1] : 1);
      all.push_back({buffer->data, /*CPU*/ 1, 0, static_cast<int32_t>(buffer->rank), code(buffer->type),
                     buffer->extents, steps.data(), 0});
    }
    return true;
  }

  int32_t call(jax::TensorEntry *entry) const {
    std::vector<const Tensor *> pointers;
    for (const Tensor &tensor : all)
      pointers.push_back(&tensor);
    return entry(pointers.data());
  }

  /// Whether they are the matrices of a product.
  bool fit(const Kernel &kernel) const {
    if (all.size() != 3)
      return false;
    for (size_t i = 0; i < 3; ++i)
      if (all[i].rank != 2 || !(all[i].type == kernel.types[i]))
        return false;
    int64_t k = all[0].extents[!kernel.transposed[0]];
    return all[1].extents[kernel.transposed[1]] == k && all[2].extents[0] == all[0].extents[kernel.transposed[0]] &&
           all[2].extents[1] == all[1].extents[!kernel.transposed[1]];
  }

  int32_t call(const Kernel &kernel) const {
    const Tensor &a = all[0], &b = all[1], &c = all[2];
    return kernel.matrices(c.extents[0], c.extents[1], a.extents[!kernel.transposed[0]], a.data, a.strides[0], b.data,
                           b.strides[0], c.data, c.strides[0]);
  }

private:
  std::vector<std::vector<int64_t>> strides;
  std::vector<Tensor> all;
};

static xla::Error *describe(const xla::Call &call) {
  for (xla::Extension *each = call.extensions; each; each = each->next)
    if (each->kind == xla::metadataExtension) {
      xla::Metadata *metadata = reinterpret_cast<xla::MetadataExtension *>(each)->metadata;
      // The version that XLA itself has: the members that are used here are those of all of them.
      metadata->version.major = call.api->version.major;
      metadata->version.minor = call.api->version.minor;
      metadata->traits = 0;
    }
  return nullptr;
}

static xla::Error *refused(const xla::Api *api, int32_t status, const std::string &name) {
  using Code = xla::ErrorCode;
  switch (status) {
  case 1:
    return error(api, Code::invalidArgument, "the kernel " + name + " was compiled for other extents");
  case 2:
    return error(api, Code::resourceExhausted, "no memory for packed panels of the kernel " + name);
  case 4:
    return error(api, Code::invalidArgument, "an operand of the kernel " + name + " is of another type or rank");
  case 5:
    return error(api, Code::invalidArgument, "an index of rows of the kernel " + name + " is out of range");
  case 6:
    return error(api, Code::failedPrecondition,
                 "no code of the kernel " + name + " fits this processor; build the library for an older one too");
  default:
    return error(api, Code::failedPrecondition, "the kernel " + name + " returned " + std::to_string(status));
  }
}

static xla::Error *run(const xla::Call &call) {
  using Code = xla::ErrorCode;
  const xla::Text *named = text(call.attributes, "name"), *spec = text(call.attributes, "spec");
  if (!named || !spec)
    return error(call.api, Code::invalidArgument, "the custom call has no texts `name` and `spec`");
  std::string name(named->data, named->size);
  Kernel kernel = jax::kernels().find(name, std::string(spec->data, spec->size));
  if (!kernel.isHere())
    return error(call.api, Code::notFound,
                 "this process has no kernel " + name + (kernel.refusal.empty() ? "" : ": " + kernel.refusal));
  Tensors tensors;
  if (!tensors.read(call.operands) || !tensors.read(call.results))
    return error(call.api, Code::invalidArgument, "an operand of the kernel " + name + " is no array");
  if (kernel.matrices && !tensors.fit(kernel))
    return refused(call.api, 4, name);
  int32_t status = kernel.matrices ? tensors.call(kernel) : tensors.call(kernel.tensors);
  return status == 0 ? nullptr : refused(call.api, status, name);
}

/// What XLA calls.
extern "C" xla::Error *tilewright_jax_call(xla::Call *call) {
  if (call->extensions)
    return describe(*call);
  if (call->api->version.major != xla::majorVersion)
    return error(call->api, xla::ErrorCode::unimplemented, "XLA's FFI is of a version that is not known");
  if (call->stage != xla::executeStage)
    return nullptr;
  try {
    return run(*call);
  } catch (const std::bad_alloc &) {
    return error(call->api, xla::ErrorCode::resourceExhausted, "no memory for a call");
  }
}
