// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an emulated launch did wrong.

#ifndef TILEWRIGHT_EMULATOR_REPORT_H
#define TILEWRIGHT_EMULATOR_REPORT_H

#include "Clocks.h"

#include <functional>
#include <set>
#include <string>

namespace tilewright::emulator {

class Report {
public:
  /// How many findings are told in full.
  static constexpr size_t most = 8;

  /// How an agent is called in findings.
  std::function<std::string(Agent)> name;

  bool empty() const { return count == 0; }

  /// A finding. Of those that differ in numbers only, the first is told.
  void add(const std::string &line) {
    ++count;
    std::string kind = line;
    std::erase_if(kind, [](char each) { return each >= '0' && each <= '9'; });
    if (told.insert(kind).second && told.size() <= most)
      lines += line + "\n";
  }

  /// The text of a finding about shared memory.
  static std::string touching(const std::string &kind, unsigned block, const std::string &who, size_t offset,
                              size_t bytes, const std::string &how) {
    return kind + ": " + who + " touches " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
           " of the shared memory of block " + std::to_string(block) + ", " + how;
  }

  /// A finding about shared memory.
  void add(const std::string &kind, unsigned block, const std::string &who, size_t offset, size_t bytes,
           const std::string &how) {
    add(touching(kind, block, who, offset, bytes, how));
  }

  /// All that is told, a line each.
  std::string text() const {
    return told.size() <= most ? lines : lines + std::to_string(told.size() - most) + " more kinds of findings\n";
  }

private:
  size_t count = 0;
  std::set<std::string> told;
  std::string lines;
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_REPORT_H
