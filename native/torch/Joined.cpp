// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of one left matrix by several quantized weights, whose columns lie side by side in the result.

#include "Product.h"

#include <cstring>

namespace tilewright::torch_ops {

namespace {

using Tensors = std::vector<Owned>;

/// Whether the rows of a tensor, or the elements of a vector, follow one another in memory without gaps.
bool isWhole(const View &view) { return (view.rank == 1 || view.rank == 2) && isCompact(view); }

/// The rows of all tensors as one tensor, where they lie one after another in memory; otherwise none.
Owned together(const Tensors &parts) {
  View first = viewOf(parts.front().get());
  if (!isWhole(first))
    return {};
  auto size = static_cast<int64_t>(aoti_torch_dtype_element_size(first.type));
  int64_t columns = first.rank == 2 ? first.sizes[1] : 1, rows = 0;
  for (const Owned &each : parts) {
    View view = viewOf(each.get());
    bool isAlike = isWhole(view) && view.rank == first.rank && view.type == first.type &&
                   (view.rank == 1 || view.sizes[1] == columns);
    if (!isAlike || view.data != static_cast<char *>(first.data) + rows * columns * size)
      return {};
    rows += view.sizes[0];
  }
  int64_t offset = 0;
  check(aoti_torch_get_storage_offset(parts.front().get(), &offset), "tell where a tensor is in its memory");
  AtenTensorHandle whole = nullptr;
  std::array<int64_t, 2> sizes{rows, columns}, strides{columns, 1};
  check(aoti_torch__reinterpret_tensor(parts.front().get(), first.rank, sizes.data(), strides.data(), offset, &whole),
        "join tensors");
  return Owned(whole);
}

/// The elements of vectors of one type, one vector after another, copied where they do not lie so.
Owned oneAfterAnother(const Tensors &vectors) {
  Owned whole = together(vectors);
  if (whole)
    return whole;
  int64_t count = 0;
  int32_t type = viewOf(vectors.front().get()).type;
  for (const Owned &each : vectors) {
    View view = viewOf(each.get());
    if (view.rank != 1 || view.type != type)
      throw std::runtime_error("a bias is of shape " + shapeText(view.sizes.data(), view.rank) + " and " +
                               typeName(view.type) + "; expected one dimension, and " + typeName(type));
    count += view.sizes[0];
  }
  View made;
  Owned copy = newTensor(&count, 1, type, made);
  auto *into = static_cast<char *>(made.data);
  auto size = static_cast<int64_t>(aoti_torch_dtype_element_size(type));
  for (const Owned &each : vectors) {
    View view = viewOf(each.get());
    Owned compact = isCompact(view) ? Owned() : compactCopy(each.get());
    std::memcpy(into, compact ? viewOf(compact.get()).data : view.data, view.sizes[0] * size);
    into += view.sizes[0] * size;
  }
  return copy;
}

/// Copies each result into its columns of the whole.
Owned sideBySide(const Tensors &results, int64_t columns) {
  View first = viewOf(results.front().get()), whole;
  std::array<int64_t, mostDimensions> sizes = first.sizes;
  sizes[first.rank - 1] = columns;
  Owned made = newTensor(sizes.data(), first.rank, first.type, whole);
  auto size = static_cast<int64_t>(aoti_torch_dtype_element_size(first.type));
  int64_t rows = 1, start = 0;
  for (int64_t axis = 0; axis + 1 < first.rank; ++axis)
    rows *= first.sizes[axis];
  for (const Owned &each : results) {
    View view = viewOf(each.get());
    int64_t own = view.sizes[view.rank - 1];
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(static_cast<char *>(whole.data) + (row * columns + start) * size,
                  static_cast<char *>(view.data) + row * own * size, own * size);
    start += own;
  }
  return made;
}

} // namespace

Owned computeJoined(const Joined &joined) {
  size_t count = joined.codes.size();
  bool hasZeros = !joined.zeros.empty(), hasBiases = !joined.biases.empty();
  if (!count || joined.scales.size() != count || (hasZeros && joined.zeros.size() != count) ||
      (hasBiases && joined.biases.size() != count))
    throw std::runtime_error("there are " + std::to_string(count) + " weights, " +
                             std::to_string(joined.scales.size()) + " scales, " + std::to_string(joined.zeros.size()) +
                             " zero points and " + std::to_string(joined.biases.size()) +
                             " biases; expected as many of each, or none of the last two");
  Owned codes = together(joined.codes), scales = together(joined.scales), zeros;
  if (hasZeros)
    zeros = together(joined.zeros);
  if (codes && scales && static_cast<bool>(zeros) == hasZeros) {
    Quantized weights{joined.element, joined.group, scales.get(), zeros.get(), joined.precision};
    if (!hasBiases)
      return compute({joined.x, codes.get(), true, {}, &weights});
    Owned bias = oneAfterAnother(joined.biases);
    return compute({joined.x, codes.get(), true, {{"bias", bias.get(), "n"}}, &weights});
  }
  Tensors results;
  int64_t columns = 0;
  for (size_t i = 0; i < count; ++i) {
    Quantized weights{joined.element, joined.group, joined.scales[i].get(), hasZeros ? joined.zeros[i].get() : nullptr,
                      joined.precision};
    std::vector<Entry> entries;
    if (hasBiases)
      entries.push_back({"bias", joined.biases[i].get(), "n"});
    results.push_back(compute({joined.x, joined.codes[i].get(), true, entries, &weights}));
    columns += viewOf(joined.codes[i].get()).sizes[0];
  }
  return sideBySide(results, columns);
}

} // namespace tilewright::torch_ops
