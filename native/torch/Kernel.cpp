// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Kernel.h"

#include <algorithm>
#include <cstring>

namespace tilewright::torch_ops {

namespace {

constexpr int64_t firstOpen = -2;
/// Of the entry that takes an array of tensors, beside the other one.
constexpr const char *tensorsSuffix = "_tensors";
constexpr int64_t packedHeaderBytes = 64, packedSizeOffset = 48;
constexpr size_t mostOperands = 64;

bool isOpen(int64_t size) { return size <= firstOpen; }

/// The bytes of an element by its DLPack bits.
int64_t bytesOf(int64_t bits) { return std::max<int64_t>(bits / 8, 1); }

int64_t itemBytesOf(int32_t type) { return type < 0 ? 1 : static_cast<int64_t>(aoti_torch_dtype_element_size(type)); }

/// DLPack's code of torch's types that products have in their plain entry; it has no headers, so nobody reads it.
constexpr uint8_t noKind = 0;

std::vector<int64_t> shapeOf(const Json &list) {
  std::vector<int64_t> shape;
  for (const Json &size : list.list())
    shape.push_back(size.integer());
  return shape;
}

struct Bytes {
  uintptr_t begin, end;
};

/// The memory that a tensor spans, gaps included.
Bytes bytesOf(const View &view, int64_t item) {
  int64_t last = 0;
  for (int64_t i = 0; i < view.rank; ++i) {
    if (!view.sizes[i])
      return {0, 0};
    last += (view.sizes[i] - 1) * view.strides[i];
  }
  auto begin = reinterpret_cast<uintptr_t>(view.data);
  return {begin, begin + static_cast<uintptr_t>((last + 1) * item)};
}

/// Whether both are columns of one wider matrix, at different places of its rows.
bool areOtherColumns(const View &one, const View &other, int64_t item, int64_t otherItem) {
  if (one.rank < 2 || other.rank < 2)
    return false;
  int64_t rowBytes = one.strides[one.rank - 2] * item;
  if (rowBytes <= 0 || rowBytes != other.strides[other.rank - 2] * otherItem)
    return false;
  for (const View *each : {&one, &other})
    for (int64_t i = 0; i + 2 < each->rank; ++i)
      if (each->strides[i] * (each == &one ? item : otherItem) % rowBytes)
        return false;
  auto distance = reinterpret_cast<intptr_t>(other.data) - reinterpret_cast<intptr_t>(one.data);
  int64_t offset = ((distance % rowBytes) + rowBytes) % rowBytes;
  return offset >= one.sizes[one.rank - 1] * item && offset + other.sizes[other.rank - 1] * otherItem <= rowBytes;
}

bool isPermutation(std::vector<int64_t> axes, int64_t rank) {
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i))
      return false;
  return static_cast<int64_t>(axes.size()) == rank;
}

std::string wordsOf(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + (isOpen(shape[i]) ? std::string("any") : std::to_string(shape[i]));
  return text + (shape.size() == 1 ? ",)" : ")");
}

} // namespace

struct Kernel::Header {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t kind, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t byteOffset;
};

Kernel::Kernel(std::string name, const Json &form, const std::vector<std::string> &packed, const std::string &entry,
               Find find, void *code)
    : ownName(std::move(name)) {
  if (form["kind"].text() == "product")
    readProduct(form);
  else
    readFunction(form);
  for (const Json &each : form["limits"].list())
    limits.push_back({each.list().at(0).integer(), each.list().at(1).integer(), each.list().at(2).integer()});
  for (Operand &operand : operands) {
    operand.packed = std::find(packed.begin(), packed.end(), operand.name) != packed.end();
    for (int64_t size : operand.shape)
      if (isOpen(size) && static_cast<size_t>(firstOpen - size) >= limits.size())
        throw std::runtime_error("an extent of " + operand.name + " is open and has no limits");
  }
  if (operands.size() > mostOperands || operands.size() <= argumentCount)
    throw std::runtime_error("kernel " + ownName + " has " + std::to_string(operands.size()) +
                             " tensors; expected a result, and at most " + std::to_string(mostOperands));
  std::string wanted = isPlain ? entry : entry + tensorsSuffix;
  void *address = find(code, wanted.c_str());
  if (!address)
    throw std::runtime_error("the code has no function \"" + wanted + "\"");
  if (isPlain)
    plainEntry = reinterpret_cast<MatmulEntry *>(address);
  else
    tensorEntry = reinterpret_cast<TensorEntry *>(address);
}

void Kernel::readProduct(const Json &form) {
  accumulates = form["accumulate"].boolean();
  const std::vector<Json> &further = form["operands"].list();
  isPlain = further.empty();
  for (const Json &each : further) {
    const std::vector<Json> &fields = each.list();
    int32_t type = typeOf(fields.at(2).text());
    int64_t bits = fields.at(4).integer();
    operands.push_back({fields[0].text(), shapeOf(fields[1]), type, bytesOf(bits),
                        static_cast<uint8_t>(fields.at(3).integer()), static_cast<uint8_t>(bits), /*written=*/false,
                        /*compact=*/false, /*packed=*/false, static_cast<size_t>(fields.at(5).integer())});
  }
  if (isPlain) {
    const std::vector<Json> &extents = form["extents"].list(), &types = form["types"].list(),
                            &turned = form["transposed"].list();
    // Those that are open come in this order.
    int64_t size[3];
    for (size_t i = 0; i < 3; ++i)
      size[i] = extents.at(i).isNull() ? firstOpen - static_cast<int64_t>(i) : extents.at(i).integer();
    int64_t m = size[0], n = size[1], k = size[2];
    transposed[0] = turned.at(0).boolean();
    transposed[1] = turned.at(1).boolean();
    const std::vector<int64_t> shapes[] = {transposed[0] ? std::vector{k, m} : std::vector{m, k},
                                           transposed[1] ? std::vector{n, k} : std::vector{k, n},
                                           {m, n}};
    const char *names[] = {"a", "b", "out"};
    for (size_t i = 0; i < 3; ++i) {
      int32_t type = typeOf(types.at(i).text());
      operands.push_back({names[i], shapes[i], type, itemBytesOf(type), noKind, 0, false, false, false, 0});
    }
  }
  operands.back().written = true;
  argumentCount = operands.size() - 1;
}

void Kernel::readFunction(const Json &form) {
  for (const Json &each : form["tensors"].list()) {
    const std::vector<Json> &fields = each.list();
    int64_t bits = fields.at(4).integer();
    operands.push_back({fields.at(0).text(), shapeOf(fields.at(1)), typeOf(fields.at(2).text()), bytesOf(bits),
                        static_cast<uint8_t>(fields.at(3).integer()), static_cast<uint8_t>(bits),
                        fields.at(5).boolean(), fields.at(6).boolean(), /*packed=*/false,
                        static_cast<size_t>(fields.at(7).integer())});
  }
  argumentCount = static_cast<size_t>(form["arguments"].integer());
  for (size_t i = 0; i < argumentCount && i < operands.size(); ++i)
    if (operands[i].written)
      throw std::runtime_error("kernel " + ownName + " writes to its argument " + operands[i].name +
                               "; expected a function that only returns results");
}

void Kernel::refuse(const Operand &operand, const std::string &what, const std::string &expected) const {
  throw std::runtime_error("tilewright kernel " + ownName + ", operand " + operand.name + ": " + what + "; expected " +
                           expected);
}

void Kernel::bindOne(const Operand &operand, View &view, std::vector<int64_t> &extents) const {
  if (operand.packed)
    return checkPacked(operand, view);
  bool fits = operand.type >= 0 ? view.type == operand.type : itemBytesOf(view.type) == operand.itemBytes;
  if (!fits)
    refuse(operand, "is of " + typeName(view.type), operand.type >= 0 ? typeName(operand.type) : "bytes");
  fits = view.rank == static_cast<int64_t>(operand.shape.size());
  for (int64_t axis = 0; fits && axis < view.rank; ++axis) {
    int64_t size = operand.shape[axis];
    if (!isOpen(size)) {
      fits = view.sizes[axis] == size;
      continue;
    }
    int64_t &extent = extents[firstOpen - size];
    const Limits &limit = limits[firstOpen - size];
    if (extent < 0) {
      extent = view.sizes[axis];
      if (extent < limit.least || extent > limit.most || extent % limit.multiple)
        refuse(operand, "has an extent of " + std::to_string(extent),
               "a multiple of " + std::to_string(limit.multiple) + " from " + std::to_string(limit.least) + " to " +
                   std::to_string(limit.most));
    }
    fits = view.sizes[axis] == extent;
  }
  if (!fits) {
    std::vector<int64_t> wanted = operand.shape;
    for (int64_t &size : wanted)
      if (isOpen(size) && extents[firstOpen - size] >= 0)
        size = extents[firstOpen - size];
    refuse(operand, "has shape " + shapeText(view.sizes.data(), view.rank), wordsOf(wanted));
  }
  settleLayout(operand, view);
}

void Kernel::settleLayout(const Operand &operand, View &view) const {
  int64_t reach = 1, last = view.rank - 1;
  bool isEmpty = std::find(view.sizes.begin(), view.sizes.begin() + view.rank, 0) != view.sizes.begin() + view.rank;
  if (!isEmpty && reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(operand.itemBytes))
    refuse(operand, "its memory is not aligned", "elements at multiples of " + std::to_string(operand.itemBytes));
  for (int64_t axis = last; axis >= 0; --axis) {
    // With one element or none along an axis, its stride means nothing, and is made one that every kernel takes.
    if (isEmpty || view.sizes[axis] == 1) {
      view.strides[axis] = reach;
      continue;
    }
    int64_t stride = view.strides[axis];
    bool isAnywhere = axis < static_cast<int64_t>(operand.batch) && !operand.written;
    bool fits = axis == last      ? stride == 1
                : operand.compact ? stride == reach
                : isAnywhere      ? stride >= 0
                                  : stride >= reach;
    if (!fits)
      refuse(operand, "has strides " + shapeText(view.strides.data(), view.rank),
             operand.compact ? "no gaps between elements" : "rows of adjacent elements, one after another");
    reach += (view.sizes[axis] - 1) * stride;
  }
}

void Kernel::checkPacked(const Operand &operand, const View &view) const {
  uint64_t size = 0;
  bool isBytes = view.rank == 1 && view.strides[0] == 1 && view.sizes[0] >= packedHeaderBytes &&
                 view.type == aoti_torch_dtype_uint8();
  if (isBytes)
    std::memcpy(&size, static_cast<const char *>(view.data) + packedSizeOffset, sizeof size);
  // The code compares the rest of the header with its own.
  if (!isBytes || std::memcmp(view.data, "tw-packB", 8) != 0 || static_cast<int64_t>(size) != view.sizes[0])
    refuse(operand, "is no packed matrix", "the uint8 tensor that packing it gave");
}

void Kernel::bind(View *given, size_t count, std::vector<int64_t> &extents) const {
  if (count != argumentCount)
    throw std::runtime_error("tilewright kernel " + ownName + " takes " + std::to_string(argumentCount) +
                             " operands; there are " + std::to_string(count));
  for (size_t i = 0; i < count; ++i)
    bindOne(operands[i], given[i], extents);
}

void Kernel::call(View *given, size_t count, Owned *made, const std::vector<int64_t> *axes) const {
  if (accumulates)
    refuse(operands.back(), "is missing", "call_out: the kernel adds to its result");
  if (axes && isPlain)
    refuse(operands.back(), "lies in an order of its own", "call: the kernel takes one stride of a result");
  std::vector<int64_t> extents(limits.size(), -1);
  bind(given, count, extents);
  std::array<const View *, mostOperands> all;
  std::vector<View> results(operands.size() - count);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i < count) {
      all[i] = &given[i];
      continue;
    }
    std::array<int64_t, mostDimensions> sizes;
    const Operand &operand = operands[i];
    for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
      sizes[axis] = isOpen(operand.shape[axis]) ? extents[firstOpen - operand.shape[axis]] : operand.shape[axis];
      if (sizes[axis] < 0)
        refuse(operand, "has an extent that no operand tells", "call_out, with tensors for the results");
    }
    int32_t type = operand.type >= 0 ? operand.type : aoti_torch_dtype_uint8();
    auto rank = static_cast<int64_t>(operand.shape.size());
    if (axes && !isPermutation(*axes, rank))
      refuse(operand, "lies in the order " + shapeText(axes->data(), static_cast<int64_t>(axes->size())),
             "each of its " + std::to_string(rank) + " axes once");
    View &result = results[i - count];
    made[i - count] =
        axes ? newTensorInOrder(sizes.data(), *axes, type, result) : newTensor(sizes.data(), rank, type, result);
    all[i] = &results[i - count];
  }
  enter(all.data());
}

void Kernel::callAt(View *given, size_t count, const View &result) const {
  const Operand &last = operands.back();
  if (accumulates || results() != 1)
    refuse(last, "is one of " + std::to_string(results()) + " results, or added to", "one that is new");
  std::vector<int64_t> extents(limits.size(), -1);
  bind(given, count, extents);
  bool fits = result.rank == static_cast<int64_t>(last.shape.size()) && result.type == last.type;
  for (int64_t axis = 0; fits && axis < result.rank; ++axis) {
    int64_t size = last.shape[axis];
    fits = result.sizes[axis] == (isOpen(size) ? extents[firstOpen - size] : size);
  }
  if (!fits || (isPlain && !isCompact(result)))
    refuse(last, "has shape " + shapeText(result.sizes.data(), result.rank) + " and is of " + typeName(result.type),
           wordsOf(last.shape) + " of " + typeName(last.type) + (isPlain ? ", without gaps" : ""));
  std::array<const View *, mostOperands> all;
  for (size_t i = 0; i < count; ++i)
    all[i] = &given[i];
  all[count] = &result;
  enter(all.data());
}

void Kernel::callInto(View *given, size_t count, View *results, size_t resultCount, bool isApart) const {
  std::vector<int64_t> extents(limits.size(), -1);
  bind(given, count, extents);
  if (resultCount != operands.size() - count)
    throw std::runtime_error("tilewright kernel " + ownName + " has " + std::to_string(operands.size() - count) +
                             " results; there are " + std::to_string(resultCount));
  std::array<const View *, mostOperands> all;
  for (size_t i = 0; i < count; ++i)
    all[i] = &given[i];
  for (size_t i = count; i < operands.size(); ++i) {
    View &result = results[i - count];
    bindOne(operands[i], result, extents);
    all[i] = &result;
    Bytes written = bytesOf(result, operands[i].itemBytes);
    for (size_t other = 0; other < i && !isApart; ++other) {
      Bytes read = bytesOf(*all[other], operands[other].itemBytes);
      if (read.begin < written.end && written.begin < read.end &&
          !areOtherColumns(result, *all[other], operands[i].itemBytes, operands[other].itemBytes))
        refuse(operands[i], "shares memory with " + operands[other].name, "memory of its own");
    }
  }
  enter(all.data());
}

void Kernel::enter(const View *const *all) const {
  int32_t status;
  if (isPlain) {
    const View &a = *all[0], &b = *all[1], &c = *all[2];
    auto leading = [](const View &view) {
      return view.sizes[0] > 1 ? view.strides[0] : std::max<int64_t>(view.sizes[1], 1);
    };
    int64_t k = a.sizes[transposed[0] ? 0 : 1];
    status = plainEntry(c.sizes[0], c.sizes[1], k, a.data, leading(a), b.data, operands[1].packed ? 0 : leading(b),
                        c.data, leading(c));
  } else {
    std::array<Header, mostOperands> headers;
    std::array<const Header *, mostOperands> pointers;
    for (size_t i = 0; i < operands.size(); ++i) {
      const View &view = *all[i];
      const Operand &operand = operands[i];
      headers[i] = {view.data,
                    /*cpu=*/1,
                    0,
                    static_cast<int32_t>(operand.packed ? 0 : view.rank),
                    operand.kind,
                    operand.bits,
                    1,
                    view.sizes.data(),
                    view.strides.data(),
                    0};
      pointers[i] = &headers[i];
    }
    status = tensorEntry(pointers.data());
  }
  static const char *const problems[] = {
      "",
      "does not take these extents",
      "found no memory for its panels",
      "got an operand that is packed in another format",
      "got an operand of a wrong type or layout",
      "got an index that is out of range",
      "has no code for this processor",
  };
  if (status)
    throw std::runtime_error("tilewright kernel " + ownName + " " +
                             (status > 0 && status < 7 ? problems[status] : "failed"));
}

} // namespace tilewright::torch_ops
