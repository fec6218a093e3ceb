// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments and results of ops, as torch's stable ABI passes them: what an op takes from there is its own to
// delete.

#ifndef TILEWRIGHT_TORCH_STACK_H
#define TILEWRIGHT_TORCH_STACK_H

#include "View.h"

#include <string>
#include <torch/csrc/stable/stableivalue_conversions.h>
#include <vector>

namespace tilewright::torch_ops {

/// A text that an op was given.
class Text {
public:
  explicit Text(StableIValue value) : handle(torch::stable::detail::to<StringHandle>(value)) {
    const char *data = nullptr;
    size_t size = 0;
    check(torch_string_c_str(handle, &data), "read a text");
    check(torch_string_length(handle, &size), "read a text");
    text.assign(data, size);
  }
  Text(const Text &) = delete;
  Text &operator=(const Text &) = delete;
  ~Text() { torch_delete_string(handle); }

  const std::string &get() const { return text; }

private:
  StringHandle handle;
  std::string text;
};

/// A tensor that an op was given.
inline Owned take(StableIValue value) { return Owned(torch::stable::detail::to<AtenTensorHandle>(value)); }

/// A tensor that an op was given, or none.
inline Owned takeOptional(StableIValue value) {
  auto *inner = torch::stable::detail::to<StableIValue *>(value);
  if (!inner)
    return {};
  Owned taken = take(*inner);
  delete inner;
  return taken;
}

/// Whole numbers that an op was given.
inline std::vector<int64_t> takeNumbers(StableIValue value) {
  auto list = torch::stable::detail::to<StableListHandle>(value);
  size_t size = 0;
  check(torch_list_size(list, &size), "read a list");
  std::vector<int64_t> taken(size);
  for (size_t i = 0; i < size; ++i) {
    StableIValue each;
    check(torch_list_get_item(list, i, &each), "read a list");
    taken[i] = torch::stable::detail::to<int64_t>(each);
  }
  check(torch_delete_list(list), "delete a list");
  return taken;
}

/// The tensors of a list that an op was given.
inline std::vector<Owned> takeList(StableIValue value) {
  auto list = torch::stable::detail::to<StableListHandle>(value);
  size_t size = 0;
  check(torch_list_size(list, &size), "read a list");
  std::vector<Owned> taken;
  taken.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    StableIValue each;
    check(torch_list_get_item(list, i, &each), "read a list");
    taken.push_back(take(each));
  }
  check(torch_delete_list(list), "delete a list");
  return taken;
}

/// A result.
inline StableIValue give(Owned tensor) { return torch::stable::detail::from(tensor.release()); }

/// A list of results.
inline StableIValue giveList(std::vector<Owned> tensors) {
  StableListHandle list = nullptr;
  check(torch_new_list_reserve_size(tensors.size(), &list), "make a list");
  for (Owned &each : tensors)
    check(torch_list_push_back(list, give(std::move(each))), "make a list");
  return torch::stable::detail::from(list);
}

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_STACK_H
