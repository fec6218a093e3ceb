// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Attention.h"

#include "Problem.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tilewright::torch_ops {

namespace {

[[noreturn]] void refuse(const char *name, const View &view, const std::string &expected) {
  throw std::runtime_error(std::string("attention: ") + name + " has shape " + shapeText(view.sizes.data(), view.rank) +
                           "; expected " + expected);
}

/// A tensor whose rows are adjacent elements, one after another; copied where they are not.
struct Rows {
  Owned copy;
  View view;
};

Rows rowsOf(AtenTensorHandle tensor) {
  Rows made{{}, viewOf(tensor)};
  const View &view = made.view;
  if (view.rank < 3)
    refuse("an operand", view, "(..., heads, rows, elements)");
  int64_t rows = view.sizes[view.rank - 2], columns = view.sizes[view.rank - 1];
  if ((columns <= 1 || view.strides[view.rank - 1] == 1) && (rows <= 1 || view.strides[view.rank - 2] >= columns))
    return made;
  made.copy = compactCopy(tensor);
  made.view = viewOf(made.copy.get());
  return made;
}

/// The axes of scores along which a mask is not one for all, and the mask without the others.
struct Mask {
  Owned copy;
  View view;
  std::string axes;
};

Mask maskOf(AtenTensorHandle tensor, const std::vector<int64_t> &scores) {
  Mask mask{{}, viewOf(tensor), {}};
  int64_t rank = static_cast<int64_t>(scores.size()), missing = rank - mask.view.rank;
  auto fits = [&](int64_t axis) {
    int64_t size = mask.view.sizes[axis - missing];
    return size == 1 || size == scores[axis];
  };
  for (int64_t axis = std::max<int64_t>(missing, 0); axis < rank; ++axis)
    if (missing < 0 || !fits(axis))
      refuse("the mask", mask.view, "one that is broadcast to " + shapeText(scores.data(), rank));
  bool isWhole = mask.view.sizes[mask.view.rank - 1] == scores[rank - 1];
  if (missing < 0 || !isWhole)
    refuse("the mask", mask.view, "an element for each key, and a shape that is broadcast to that of the scores");
  if (!isCompact(mask.view)) {
    mask.copy = compactCopy(tensor);
    mask.view = viewOf(mask.copy.get());
  }
  View kept = mask.view;
  kept.rank = 0;
  bool hasBatch = false;
  for (int64_t axis = missing; axis < rank; ++axis)
    hasBatch |= axis < rank - 3 && mask.view.sizes[axis - missing] != 1;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t size = axis < missing ? 1 : mask.view.sizes[axis - missing];
    bool isBatch = axis < rank - 3, isKept = isBatch ? hasBatch : size != 1 || axis == rank - 1;
    if (isBatch && hasBatch && size != scores[axis])
      refuse("the mask", mask.view, "either one for all of the batch, or one for each of its entries");
    if (!isKept)
      continue;
    kept.sizes[kept.rank] = size;
    kept.strides[kept.rank++] = mask.view.strides[axis - missing];
    if (!isBatch)
      mask.axes += "hmn"[axis - (rank - 3)];
  }
  mask.axes = (hasBatch ? "b" : "") + mask.axes;
  mask.view = kept;
  if (kept.type == aoti_torch_dtype_bool())
    mask.view.type = aoti_torch_dtype_uint8();
  return mask;
}

} // namespace

Owned compute(const Attention &given) {
  Rows q = rowsOf(given.q), k = rowsOf(given.k), v = rowsOf(given.v);
  for (auto [name, view] : {std::pair("q", &q.view), std::pair("k", &k.view), std::pair("v", &v.view)})
    if (view->rank != q.view.rank)
      refuse(name, *view, "(..., heads, rows, elements), of as many dimensions as q");
  int64_t rank = q.view.rank, heads = q.view.sizes[rank - 3], kvHeads = k.view.sizes[rank - 3];
  int64_t queries = q.view.sizes[rank - 2], keys = k.view.sizes[rank - 2], head = q.view.sizes[rank - 1],
          valueHead = v.view.sizes[rank - 1];
  std::vector<int64_t> batch(q.view.sizes.begin(), q.view.sizes.begin() + rank - 3);
  bool fits = std::equal(batch.begin(), batch.end(), k.view.sizes.begin()) && k.view.sizes[rank - 1] == head &&
              kvHeads > 0 && heads % kvHeads == 0;
  if (!fits)
    refuse("k", k.view, "the batch and elements of q, and a divisor of its heads");
  if (!std::equal(k.view.sizes.begin(), k.view.sizes.begin() + rank - 1, v.view.sizes.begin()))
    refuse("v", v.view, "the batch, heads and rows of k");
  std::vector<View> views = {q.view, k.view, v.view};
  Mask mask;
  if (given.mask) {
    std::vector<int64_t> scores(q.view.sizes.begin(), q.view.sizes.begin() + rank);
    scores.back() = keys;
    mask = maskOf(given.mask, scores);
    views.push_back(mask.view);
  }
  int64_t threads = threadCount(), bits;
  std::memcpy(&bits, &given.scale, sizeof bits);
  std::string key = "attention" + mask.axes;
  for (int64_t number :
       {heads, kvHeads, queries, keys, head, valueHead, int64_t(q.view.type), int64_t(k.view.type),
        int64_t(v.view.type), int64_t(given.mask ? mask.view.type : -1), int64_t(given.isCausal), bits, threads})
    append(key, number);
  for (int64_t size : batch)
    append(key, size);
  const Kernel &kernel = kernelFor(key, [&](Open open) {
    char scale[32];
    std::snprintf(scale, sizeof scale, "%.17g", given.scale);
    Words words("attention");
    words.add("queries", queries, open == Open::all).add("keys", keys, open != Open::none).add("head", head);
    words.add("heads", heads).add("kv_heads", kvHeads).add("value_head", valueHead).add("batch", batch);
    words.add("q", elementOf(q.view.type)).add("k", elementOf(k.view.type)).add("v", elementOf(v.view.type));
    words.add("scale", scale).add("causal", int64_t(given.isCausal));
    words.add("mask", given.mask ? elementOf(mask.view.type) : "-")
        .add("mask_axes", mask.axes.empty() ? "-" : mask.axes);
    words.add("threads", threads);
    return words.get();
  });
  std::vector<int64_t> shape(q.view.sizes.begin(), q.view.sizes.begin() + rank);
  shape.back() = valueHead;
  View whole;
  Owned result = newTensor(shape.data(), rank, q.view.type, whole);
  kernel.callInto(views.data(), views.size(), &whole, 1, /*isApart=*/true);
  return result;
}

} // namespace tilewright::torch_ops
