// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Product.h"

#include "Problem.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tilewright::torch_ops {

namespace {

/// Matrices in memory as a kernel takes them.
struct Stored {
  View view;           // The last two dimensions are those of the stored matrix.
  bool turned = false; // It is the transposed of what is multiplied.
  Owned copy;          // What `view` is of, where torch's tensor would not do.
};

bool isEmpty(const View &view) {
  return std::find(view.sizes.begin(), view.sizes.begin() + view.rank, 0) != view.sizes.begin() + view.rank;
}

/// Whether the last two dimensions are rows of adjacent elements, one after another, and batches do not run backwards.
bool areRows(const View &view) {
  int64_t rows = view.sizes[view.rank - 2], columns = view.sizes[view.rank - 1];
  return (columns <= 1 || view.strides[view.rank - 1] == 1) && (rows <= 1 || view.strides[view.rank - 2] >= columns);
}

void turn(View &view) {
  std::swap(view.sizes[view.rank - 1], view.sizes[view.rank - 2]);
  std::swap(view.strides[view.rank - 1], view.strides[view.rank - 2]);
}

Stored storedOf(AtenTensorHandle tensor) {
  Stored stored{viewOf(tensor), false, {}};
  if (isEmpty(stored.view) || areRows(stored.view))
    return stored;
  turn(stored.view);
  stored.turned = areRows(stored.view);
  if (stored.turned)
    return stored;
  stored.copy = compactCopy(tensor);
  stored.view = viewOf(stored.copy.get());
  return stored;
}

/// Makes the dimensions before the last one a single one, where they lie so; otherwise says that they do not.
bool collapse(View &view) {
  int64_t rows = 1, stride = 0;
  for (int64_t axis = view.rank - 2; axis >= 0; --axis) {
    if (view.sizes[axis] == 1)
      continue;
    if (rows == 1)
      stride = view.strides[axis];
    else if (view.strides[axis] != stride * rows)
      return false;
    rows *= view.sizes[axis];
  }
  // With empty tensors, no stride means anything.
  view.sizes = {rows, view.sizes[view.rank - 1]};
  view.strides = {rows == 1 ? std::max<int64_t>(view.sizes[1], 1) : stride, 1};
  view.rank = 2;
  return true;
}

/// A tensor as one matrix of all its rows, copied where it does not lie so.
Stored rowsOf(AtenTensorHandle tensor) {
  Stored stored{viewOf(tensor), false, {}};
  View &view = stored.view;
  bool fits = view.sizes[view.rank - 1] <= 1 || view.strides[view.rank - 1] == 1;
  View collapsed = view;
  if (isEmpty(view)) {
    int64_t rows = 1;
    for (int64_t axis = 0; axis + 1 < view.rank; ++axis)
      rows *= view.sizes[axis];
    view.sizes = {rows, view.sizes[view.rank - 1]};
    view.strides = {std::max<int64_t>(view.sizes[1], 1), 1};
    view.rank = 2;
    return stored;
  }
  if (fits && collapse(collapsed) && areRows(collapsed)) {
    view = collapsed;
    return stored;
  }
  stored.copy = compactCopy(tensor);
  view = viewOf(stored.copy.get());
  collapse(view);
  return stored;
}

/// The extents of a batch that two operands have, by torch's rules of broadcasting.
std::vector<int64_t> broadcast(const View &a, const View &b) {
  int64_t rank = std::max(a.rank, b.rank) - 2;
  std::vector<int64_t> batch(rank, 1);
  for (const View *each : {&a, &b})
    for (int64_t axis = 0; axis < each->rank - 2; ++axis) {
      int64_t &size = batch[rank - (each->rank - 2) + axis];
      if (size != 1 && each->sizes[axis] != 1 && size != each->sizes[axis])
        throw std::runtime_error("batches of shapes " + shapeText(a.sizes.data(), a.rank - 2) + " and " +
                                 shapeText(b.sizes.data(), b.rank - 2) + " cannot be broadcast to each other");
      size = each->sizes[axis] == 1 ? size : each->sizes[axis];
    }
  return batch;
}

/// Scales in bytes are powers of two, as older versions of torch have them.
std::string scaleElement(int32_t type) {
  bool isPower = typeName(type) == "float8_e8m0fnu" || type == aoti_torch_dtype_uint8();
  return isPower ? "f8E8M0FNU" : elementOf(type);
}

/// The extents of the problem.
struct Sizes {
  int64_t m, n, k;
  std::vector<int64_t> batch, aBatch, bBatch;
};

/// What B is where it is quantized: the prologue that makes it numbers.
std::string prologueOf(const Quantized &weights) {
  std::string axes = weights.group ? "gn" : "n", scales = scaleElement(viewOf(weights.scales).type);
  std::string zeros = weights.zeros ? elementOf(viewOf(weights.zeros).type) : "-";
  return "dequantize:" + axes + ":" + std::to_string(weights.group) + ":" + scales + ":" + zeros;
}

void requireShape(const char *name, const View &view, const std::vector<int64_t> &wanted) {
  if (view.rank == static_cast<int64_t>(wanted.size()) && std::equal(wanted.begin(), wanted.end(), view.sizes.begin()))
    return;
  throw std::runtime_error(std::string(name) + " has shape " + shapeText(view.sizes.data(), view.rank) + "; expected " +
                           shapeText(wanted.data(), static_cast<int64_t>(wanted.size())));
}

/// The second matrix like B of a gated product, stored as `b` is, which is copied otherwise.
Stored secondOf(const Product &product, Stored &b) {
  for (const Entry &entry : product.entries) {
    if (std::strcmp(entry.axes, "b") != 0)
      continue;
    Stored second = storedOf(entry.operand);
    View wanted = viewOf(product.b), found = viewOf(entry.operand);
    requireShape(entry.name.c_str(), found, {wanted.sizes.begin(), wanted.sizes.begin() + wanted.rank});
    if (second.turned == b.turned)
      return second;
    for (auto [stored, tensor] : {std::pair(&b, product.b), std::pair(&second, entry.operand)}) {
      *stored = {{}, false, compactCopy(tensor)};
      stored->view = viewOf(stored->copy.get());
    }
    return second;
  }
  return {};
}

} // namespace

Owned compute(const Product &product) {
  View a = viewOf(product.a), b = viewOf(product.b);
  if (a.rank < (product.isLinear ? 1 : 2) || b.rank < 2 || (product.isLinear && b.rank != 2))
    throw std::runtime_error("operands have shapes " + shapeText(a.sizes.data(), a.rank) + " and " +
                             shapeText(b.sizes.data(), b.rank) +
                             (product.isLinear ? "; expected (…, K) and (N, K)" : "; expected matrices"));
  const Quantized *weights = product.weights;
  if (!weights && a.type != b.type)
    throw std::runtime_error("operands are of " + typeName(a.type) + " and " + typeName(b.type) +
                             "; expected the same type");
  int64_t k = a.sizes[a.rank - 1], n = b.sizes[b.rank - (product.isLinear ? 2 : 1)];
  bool isHalves = weights && weights->element.find('4') == 1; // Two elements in a byte.
  if (b.sizes[b.rank - (product.isLinear ? 1 : 2)] != (isHalves ? (k + 1) / 2 : k))
    throw std::runtime_error("operands have shapes " + shapeText(a.sizes.data(), a.rank) + " and " +
                             shapeText(b.sizes.data(), b.rank) + ", whose K differs");
  // The result, before batches are made rows.
  std::vector<int64_t> shape(a.sizes.begin(), a.sizes.begin() + a.rank - 1);
  Sizes sizes{0, n, k, {}, {}, {}};
  Stored left, right = weights ? rowsOf(product.b) : storedOf(product.b), second = secondOf(product, right);
  bool bTurned = right.turned != product.isLinear;
  bool sharesB = b.rank == 2;
  if (sharesB && (product.isLinear || a.rank > 2)) {
    left = rowsOf(product.a);
    sizes.m = left.view.sizes[0];
  } else {
    left = storedOf(product.a);
    sizes.m = a.sizes[a.rank - 2];
    sizes.batch = broadcast(a, b);
    sizes.aBatch.assign(a.sizes.begin(), a.sizes.begin() + a.rank - 2);
    sizes.bBatch.assign(b.sizes.begin(), b.sizes.begin() + b.rank - 2);
    shape = sizes.batch;
    shape.push_back(sizes.m);
  }
  shape.push_back(n);
  int32_t type = resultType(a.type);
  std::string layout = {left.turned ? 't' : 'n', bTurned ? 't' : 'n'}, entries;
  std::vector<View> views = {left.view, right.view};
  std::vector<Owned> copies;
  std::string prologue = weights ? prologueOf(*weights) : "-";
  for (AtenTensorHandle each : {weights ? weights->scales : nullptr, weights ? weights->zeros : nullptr})
    if (each) {
      if (viewOf(each).rank != (weights->group ? 2 : 1))
        requireShape("scales or zero points", viewOf(each),
                     weights->group ? std::vector{n, (k + weights->group - 1) / weights->group} : std::vector{n});
      Stored of = rowsOf(each);
      if (!weights->group) { // One for each column.
        of.view.rank = 1;
        of.view.sizes = {of.view.sizes[1]};
        of.view.strides = {1};
      }
      if (scaleElement(of.view.type) == std::string("f8E8M0FNU") && each == weights->scales)
        of.view.type = typeOf("ml_dtypes.float8_e8m0fnu");
      views.push_back(of.view);
      copies.push_back(std::move(of.copy));
    }
  for (const Entry &entry : product.entries) {
    entries += (entries.empty() ? "" : ",") + entry.name;
    if (!entry.operand)
      continue;
    View view = viewOf(entry.operand);
    entries += std::string(":") + entry.axes + ":" + elementOf(view.type);
    if (std::strcmp(entry.axes, "mn") == 0) {
      requireShape(entry.name.c_str(), view, shape);
      Stored rows = sizes.batch.empty() ? rowsOf(entry.operand) : storedOf(entry.operand);
      views.push_back(rows.view);
      copies.push_back(std::move(rows.copy));
    } else if (std::strcmp(entry.axes, "b") == 0) {
      views.push_back(second.view);
    } else {
      requireShape(entry.name.c_str(), view, {n});
      if (n > 1 && view.strides[0] != 1) {
        copies.push_back(compactCopy(entry.operand));
        view = viewOf(copies.back().get());
      }
      views.push_back(view);
    }
  }
  int64_t threads = threadCount();
  std::string key = layout + entries;
  if (weights)
    key += prologue + weights->element + weights->precision;
  for (int64_t number : {sizes.m, n, k, int64_t(a.type), threads, int64_t(sizes.aBatch.size())})
    append(key, number);
  for (const auto *batch : {&sizes.aBatch, &sizes.bBatch})
    for (int64_t size : *batch)
      append(key, size);
  const Kernel &kernel = kernelFor(key, [&](Open open) {
    bool all = open == Open::all;
    Words words("product");
    words.add("m", sizes.m, open != Open::none).add("n", n, all).add("k", k, all && !weights);
    words.add("a", elementOf(a.type))
        .add("b", weights ? weights->element : elementOf(b.type))
        .add("c", elementOf(type));
    words.add("layout", layout).add("batch", sizes.batch, all);
    words.add("a_batch", sizes.aBatch, all).add("b_batch", sizes.bBatch, all);
    words.add("precision", weights ? weights->precision : "-");
    words.add("prologue", prologue).add("epilogue", entries.empty() ? "-" : entries).add("threads", threads);
    return words.get();
  });
  View whole;
  Owned result = newTensor(shape.data(), static_cast<int64_t>(shape.size()), type, whole);
  if (sizes.batch.empty()) {
    whole.sizes = {sizes.m, n};
    whole.strides = {std::max<int64_t>(n, 1), 1};
    whole.rank = 2;
  }
  kernel.callInto(views.data(), views.size(), &whole, 1, /*apart=*/true);
  return result;
}

} // namespace tilewright::torch_ops
