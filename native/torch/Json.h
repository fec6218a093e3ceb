// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads JSON: what the compiler says of a kernel, which also stands in libraries.

#ifndef TILEWRIGHT_TORCH_JSON_H
#define TILEWRIGHT_TORCH_JSON_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright::torch_ops {

/// A value. Members that are missing, and values of another kind than is asked for, throw std::runtime_error.
class Json {
public:
  enum class Kind { null, boolean, number, text, list, object };

  /// Throws std::runtime_error where `text` is no JSON.
  static Json parse(std::string_view text);

  bool isNull() const { return kind == Kind::null; }
  bool boolean() const;
  int64_t integer() const;
  double number() const;
  const std::string &text() const;
  const std::vector<Json> &list() const;
  /// The members of an object, in their order.
  const std::vector<std::pair<std::string, Json>> &members() const;
  /// The member of a name.
  const Json &operator[](std::string_view name) const;
  /// The same, or null where there is none.
  const Json *find(std::string_view name) const;

private:
  friend class JsonReader;
  void require(Kind wanted, const char *what) const;

  Kind kind = Kind::null;
  bool truth = false;
  double value = 0;
  int64_t whole = 0;
  std::string string;
  std::vector<Json> values;
  std::vector<std::pair<std::string, Json>> named;
};

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_JSON_H
