// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Json.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace tilewright::torch_ops {

/// Reads values from the front of a text.
class JsonReader {
public:
  explicit JsonReader(std::string_view text) : rest(text) {}

  Json whole() {
    Json found = value(0);
    skip();
    if (!rest.empty())
      fail("the end");
    return found;
  }

private:
  /// Deeper nesting is no text of ours, and would end the stack.
  static constexpr int deepest = 64;

  [[noreturn]] void fail(const char *expected) const {
    throw std::runtime_error(std::string("no JSON: expected ") + expected + " before \"" +
                             std::string(rest.substr(0, 20)) + "\"");
  }

  void skip() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
  }

  bool take(std::string_view text) {
    skip();
    if (rest.substr(0, text.size()) != text)
      return false;
    rest.remove_prefix(text.size());
    return true;
  }

  void expect(std::string_view text, const char *what) {
    if (!take(text))
      fail(what);
  }

  Json value(int depth) {
    if (depth > deepest)
      fail("less nesting");
    Json made;
    if (take("{"))
      object(made, depth);
    else if (take("["))
      list(made, depth);
    else if (take("\"")) {
      made.kind = Json::Kind::text;
      made.string = text();
    } else if (take("true")) {
      made.kind = Json::Kind::boolean;
      made.truth = true;
    } else if (take("false"))
      made.kind = Json::Kind::boolean;
    else if (!take("null"))
      number(made);
    return made;
  }

  void object(Json &made, int depth) {
    made.kind = Json::Kind::object;
    if (take("}"))
      return;
    do {
      expect("\"", "a name");
      std::string name = text();
      expect(":", "a colon");
      made.named.emplace_back(std::move(name), value(depth + 1));
    } while (take(","));
    expect("}", "a brace");
  }

  void list(Json &made, int depth) {
    made.kind = Json::Kind::list;
    if (take("]"))
      return;
    do
      made.values.push_back(value(depth + 1));
    while (take(","));
    expect("]", "a bracket");
  }

  void number(Json &made) {
    size_t size = 0;
    while (size < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[size])) ||
                                  std::string_view("+-.").find(rest[size]) != std::string_view::npos))
      ++size;
    std::string digits(rest.substr(0, size));
    char *end = nullptr;
    made.value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end)
      fail("a value");
    made.whole = std::strtoll(digits.c_str(), &end, 10);
    made.kind = Json::Kind::number;
    rest.remove_prefix(size);
  }

  /// The rest of a text, after its quote. Other characters than ASCII stand in no name that is compared here.
  std::string text() {
    std::string found;
    while (!rest.empty() && rest.front() != '"') {
      char next = rest.front();
      rest.remove_prefix(1);
      if (next == '\\') {
        if (rest.empty())
          break;
        next = rest.front();
        rest.remove_prefix(1);
        if (next == 'u') {
          if (rest.size() < 4)
            break;
          unsigned long code = std::strtoul(std::string(rest.substr(0, 4)).c_str(), nullptr, 16);
          next = code < 128 ? static_cast<char>(code) : '?';
          rest.remove_prefix(4);
        } else if (size_t place = std::string_view("ntrbf").find(next); place != std::string_view::npos)
          next = "\n\t\r\b\f"[place];
      }
      found += next;
    }
    if (rest.empty())
      fail("a quote");
    rest.remove_prefix(1);
    return found;
  }

  std::string_view rest;
};

Json Json::parse(std::string_view text) { return JsonReader(text).whole(); }

void Json::require(Kind wanted, const char *what) const {
  if (kind != wanted)
    throw std::runtime_error(std::string("expected ") + what + " in the JSON");
}

bool Json::boolean() const {
  require(Kind::boolean, "true or false");
  return truth;
}

int64_t Json::integer() const {
  require(Kind::number, "a number");
  return whole;
}

double Json::number() const {
  require(Kind::number, "a number");
  return value;
}

const std::string &Json::text() const {
  require(Kind::text, "a text");
  return string;
}

const std::vector<Json> &Json::list() const {
  require(Kind::list, "a list");
  return values;
}

const std::vector<std::pair<std::string, Json>> &Json::members() const {
  require(Kind::object, "an object");
  return named;
}

const Json *Json::find(std::string_view name) const {
  for (const auto &[each, found] : members())
    if (each == name)
      return &found;
  return nullptr;
}

const Json &Json::operator[](std::string_view name) const {
  if (const Json *found = find(name))
    return *found;
  throw std::runtime_error("expected a member \"" + std::string(name) + "\" in the JSON");
}

} // namespace tilewright::torch_ops
