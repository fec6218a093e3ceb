// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of ONNX Runtime's C API whose failures are exceptions here, and exceptions that become statuses there.

#ifndef TILEWRIGHT_ONNX_SESSION_H
#define TILEWRIGHT_ONNX_SESSION_H

#include "OnnxRuntime.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::onnx {

/// ONNX Runtime's functions.
class Session {
public:
  explicit Session(const Functions *table) : functions(table) {}

  const Functions *table() const { return functions; }

  /// Calls a function that returns a status. Throws std::runtime_error where that is none of success.
  template <typename Function, typename... Arguments>
  void call(Arguments... arguments) const {
    if (Status *status = Function::call(functions, arguments...)) {
      std::string message = GetErrorMessage::call(functions, status);
      ReleaseStatus::call(functions, status);
      throw std::runtime_error(message);
    }
  }

  /// What a function writes to its last argument.
  template <typename Function, typename Result, typename... Arguments>
  Result get(Arguments... arguments) const {
    Result found{};
    call<Function>(arguments..., &found);
    return found;
  }

  /// The elements of a list, by the functions that count them and that write them.
  template <typename Count, typename Get, typename Element, typename Owner>
  std::vector<Element> list(const Owner *owner) const {
    std::vector<Element> found(get<Count, size_t>(owner));
    call<Get>(owner, found.data(), found.size());
    return found;
  }

  std::vector<const ValueInfo *> inputs(const Node *node) const {
    return list<CountInputs, GetInputs, const ValueInfo *>(node);
  }
  std::vector<const ValueInfo *> outputs(const Node *node) const {
    return list<CountOutputs, GetOutputs, const ValueInfo *>(node);
  }
  /// The name of a value; empty for an optional one that is not there.
  std::string name(const ValueInfo *value) const { return value ? get<GetValueInfoName, const char *>(value) : ""; }

  /// Does `body`, whose exceptions become a status.
  template <typename Body>
  Status *guarded(Body body) const {
    try {
      body();
      return nullptr;
    } catch (const std::exception &error) {
      return CreateStatus::call(functions, genericFailure, (std::string("tilewright: ") + error.what()).c_str());
    }
  }

private:
  const Functions *functions;
};

/// A node in words, in JSON: its operator and attributes, and names, types, shapes of its operands and results, with
/// the elements of small constants. Equal words mean the same computation. Throws std::runtime_error.
std::string describe(const Session &session, const Node *node);

/// A text in JSON.
std::string quoted(const std::string &text);

} // namespace tilewright::onnx

#endif // TILEWRIGHT_ONNX_SESSION_H
