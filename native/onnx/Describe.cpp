// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Session.h"

#include <charconv>
#include <cstdio>

namespace tilewright::onnx {

namespace {

// Described with their elements: single numbers, and lists of integers, which operators have as operands.
constexpr size_t numberBytes = 8, listBytes = 64;
constexpr int int64Type = 7, textType = 8; // Of ONNXTensorElementDataType.

std::string hexadecimal(const void *data, size_t size) {
  static const char digits[] = "0123456789abcdef";
  const auto *bytes = static_cast<const unsigned char *>(data);
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::string number(double value) {
  char place[40];
  // Attributes are of f32. No locale has a say.
  char *end = std::to_chars(place, place + sizeof place, value, std::chars_format::general, 9).ptr;
  std::string text(place, end);
  return text.find_first_of("in") == std::string::npos ? text : quoted(text);
}

template <typename Element, typename Write>
std::string listed(const std::vector<Element> &values, Write write) {
  std::string text = "[";
  for (const Element &each : values)
    text += (text.size() > 1 ? "," : "") + write(each);
  return text + "]";
}

std::string shape(const Session &session, const TensorInfo *info) {
  std::vector<int64_t> sizes(session.get<GetDimensionsCount, size_t>(info));
  std::vector<const char *> names(sizes.size());
  session.call<GetDimensions>(info, sizes.data(), sizes.size());
  session.call<GetSymbolicDimensions>(info, names.data(), names.size());
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool isNamed = names[i] && *names[i];
    text += (i ? "," : "") + (sizes[i] >= 0 ? std::to_string(sizes[i]) : isNamed ? quoted(names[i]) : "null");
  }
  return text + "]";
}

std::string value(const Session &session, const ValueInfo *given) {
  if (!given || session.name(given).empty())
    return "null";
  std::string text = "{\"name\":" + quoted(session.name(given));
  const auto *type = session.get<GetValueInfoTypeInfo, const TypeInfo *>(given);
  const TensorInfo *info = type ? session.get<CastTypeInfoToTensorInfo, const TensorInfo *>(type) : nullptr;
  if (info)
    text += ",\"type\":" + std::to_string(session.get<GetTensorElementType, int>(info)) +
            ",\"shape\":" + shape(session, info);
  if (session.get<IsConstant, bool>(given)) {
    text += ",\"constant\":true";
    const auto *initial = session.get<GetInitializer, const Value *>(given);
    int element = info ? session.get<GetTensorElementType, int>(info) : textType;
    size_t size = initial && element != textType ? session.get<GetTensorBytes, size_t>(initial) : 0;
    bool isList = element == int64Type;
    if (size && size <= (isList ? listBytes : numberBytes))
      text += ",\"data\":\"" + hexadecimal(session.get<GetTensorData, const void *>(initial), size) + "\"";
  }
  return text + "}";
}

/// The bytes of an attribute's value.
std::vector<char> bytesOf(const Session &session, const Attribute *attribute, int kind) {
  std::vector<char> bytes(4096);
  for (int attempt = 0;; ++attempt) {
    size_t size = 0;
    Status *status = ReadAttribute::call(session.table(), attribute, kind, bytes.data(), bytes.size(), &size);
    if (!status) {
      bytes.resize(size);
      return bytes;
    }
    bool isTooSmall = size > bytes.size() && attempt == 0;
    std::string message = GetErrorMessage::call(session.table(), status);
    ReleaseStatus::call(session.table(), status);
    if (!isTooSmall)
      throw std::runtime_error(message);
    bytes.resize(size);
  }
}

template <typename Element>
std::vector<Element> elements(const std::vector<char> &bytes) {
  const auto *data = reinterpret_cast<const Element *>(bytes.data());
  return {data, data + bytes.size() / sizeof(Element)};
}

/// Whether bytes are a text in UTF-8; others would break what is written of them.
bool isText(const std::string &bytes) {
  for (size_t i = 0; i < bytes.size();) {
    auto first = static_cast<unsigned char>(bytes[i++]);
    int more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
    if (more < 0)
      return false;
    for (; more > 0; --more, ++i)
      if (i >= bytes.size() || (static_cast<unsigned char>(bytes[i]) >> 6) != 2)
        return false;
  }
  return true;
}

/// An attribute's value; null for what no operator has whose computation we know.
std::string attributeValue(const Session &session, const Attribute *attribute) {
  int kind = session.get<GetAttributeKind, int>(attribute);
  if (kind < integer || kind > text)
    return "null";
  std::vector<char> bytes = bytesOf(session, attribute, kind);
  auto whole = [](int64_t each) { return std::to_string(each); };
  auto real = [](float each) { return number(each); };
  switch (kind) {
  case integer:
    return whole(elements<int64_t>(bytes).at(0));
  case integers:
    return listed(elements<int64_t>(bytes), whole);
  case onnx::real:
    return real(elements<float>(bytes).at(0));
  case reals:
    return listed(elements<float>(bytes), real);
  default:
    while (!bytes.empty() && !bytes.back()) // Some releases count the zero at the end.
      bytes.pop_back();
    return isText({bytes.begin(), bytes.end()}) ? quoted({bytes.begin(), bytes.end()}) : "null";
  }
}

} // namespace

std::string quoted(const std::string &text) {
  std::string made = "\"";
  for (char each : text) {
    if (each == '"' || each == '\\')
      made += '\\';
    if (static_cast<unsigned char>(each) < ' ') {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", each);
      made += code;
    } else
      made += each;
  }
  return made + "\"";
}

std::string describe(const Session &session, const Node *node) {
  auto of = [&](const ValueInfo *each) { return value(session, each); };
  std::string attributes;
  for (const Attribute *each : session.list<CountAttributes, GetAttributes, const Attribute *>(node))
    attributes += (attributes.empty() ? "" : ",") + quoted(session.get<GetAttributeName, const char *>(each)) + ":" +
                  attributeValue(session, each);
  auto implicit = session.list<CountImplicitInputs, GetImplicitInputs, const ValueInfo *>(node);
  return "{\"op\":" + quoted(session.get<GetOperatorType, const char *>(node)) +
         ",\"domain\":" + quoted(session.get<GetDomain, const char *>(node)) +
         ",\"version\":" + std::to_string(session.get<GetSinceVersion, int>(node)) + ",\"attributes\":{" + attributes +
         "},\"inputs\":" + listed(session.inputs(node), of) + ",\"outputs\":" + listed(session.outputs(node), of) +
         (implicit.empty() ? "" : ",\"implicit\":" + listed(implicit, of)) + "}";
}

} // namespace tilewright::onnx
