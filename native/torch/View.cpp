// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "View.h"

#include <algorithm>
#include <cstring>
#include <numeric>

// Since torch 2.11; older ones load this library too, and have no such tensors.
extern "C" __attribute__((weak)) int32_t torch_dtype_float8_e8m0fnu();

namespace tilewright::torch_ops {

namespace {

struct Type {
  const char *name; // numpy's.
  int32_t (*number)();
};

const Type types[] = {
    {"float32", aoti_torch_dtype_float32},
    {"float64", aoti_torch_dtype_float64},
    {"float16", aoti_torch_dtype_float16},
    {"ml_dtypes.bfloat16", aoti_torch_dtype_bfloat16},
    {"ml_dtypes.float8_e4m3fn", aoti_torch_dtype_float8_e4m3fn},
    {"ml_dtypes.float8_e5m2", aoti_torch_dtype_float8_e5m2},
    {"ml_dtypes.float8_e8m0fnu", torch_dtype_float8_e8m0fnu},
    {"int8", aoti_torch_dtype_int8},
    {"uint8", aoti_torch_dtype_uint8},
    {"int32", aoti_torch_dtype_int32},
    {"int64", aoti_torch_dtype_int64},
    {"bool", aoti_torch_dtype_bool},
    {"complex64", aoti_torch_dtype_complex64},
    {"complex128", aoti_torch_dtype_complex128},
};

} // namespace

int32_t typeOf(const std::string &numpyName) {
  for (const Type &each : types)
    if (each.name == numpyName)
      return each.number ? each.number() : -1;
  return -1;
}

std::string typeName(int32_t type) {
  for (const Type &each : types)
    if (each.number && each.number() == type) {
      const char *dot = std::strchr(each.name, '.');
      return dot ? dot + 1 : each.name;
    }
  return "type " + std::to_string(type) + " of torch";
}

std::string shapeText(const int64_t *sizes, int64_t rank) {
  std::string text = "(";
  for (int64_t i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + (rank == 1 ? ",)" : ")");
}

View viewOf(AtenTensorHandle tensor) {
  View view;
  int64_t *sizes = nullptr, *strides = nullptr;
  check(aoti_torch_get_dim(tensor, &view.rank), "tell a tensor's dimensions");
  if (view.rank > mostDimensions)
    throw std::runtime_error("a tensor has " + std::to_string(view.rank) + " dimensions; expected at most " +
                             std::to_string(mostDimensions));
  check(aoti_torch_get_sizes(tensor, &sizes), "tell a tensor's shape");
  check(aoti_torch_get_strides(tensor, &strides), "tell a tensor's strides");
  check(aoti_torch_get_dtype(tensor, &view.type), "tell a tensor's type");
  check(aoti_torch_get_data_ptr(tensor, &view.data), "tell a tensor's memory");
  std::copy_n(sizes, view.rank, view.sizes.begin());
  std::copy_n(strides, view.rank, view.strides.begin());
  return view;
}

Owned newTensorInOrder(const int64_t *sizes, const std::vector<int64_t> &axes, int32_t type, View &made) {
  made.rank = static_cast<int64_t>(axes.size());
  made.type = type;
  int64_t step = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    made.sizes[*axis] = sizes[*axis];
    made.strides[*axis] = step;
    step *= std::max<int64_t>(sizes[*axis], 1);
  }
  AtenTensorHandle handle = nullptr;
  check(aoti_torch_empty_strided(made.rank, made.sizes.data(), made.strides.data(), type, aoti_torch_device_type_cpu(),
                                 0, &handle),
        "make a tensor");
  Owned owned(handle);
  check(aoti_torch_get_data_ptr(handle, &made.data), "tell the memory of a tensor");
  return owned;
}

Owned newTensor(const int64_t *sizes, int64_t rank, int32_t type, View &made) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return newTensorInOrder(sizes, axes, type, made);
}

Owned copyInOrder(AtenTensorHandle tensor, const std::vector<int64_t> &axes) {
  View from = viewOf(tensor), made;
  Owned copy = newTensorInOrder(from.sizes.data(), axes, from.type, made);
  check(aoti_torch_copy_(copy.get(), tensor, 0), "copy a tensor");
  return copy;
}

Owned compactCopy(AtenTensorHandle tensor) {
  int64_t rank = 0;
  check(aoti_torch_get_dim(tensor, &rank), "tell a tensor's dimensions");
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return copyInOrder(tensor, axes);
}

View permuted(const View &view, const std::vector<int64_t> &axes) {
  View other = view;
  for (size_t i = 0; i < axes.size(); ++i) {
    other.sizes[i] = view.sizes[axes[i]];
    other.strides[i] = view.strides[axes[i]];
  }
  return other;
}

bool isCompact(const View &view) {
  int64_t reach = 1;
  for (int64_t axis = view.rank - 1; axis >= 0; --axis) {
    if (view.sizes[axis] == 0)
      return true;
    if (view.sizes[axis] > 1 && view.strides[axis] != reach)
      return false;
    reach *= view.sizes[axis];
  }
  return true;
}

} // namespace tilewright::torch_ops
