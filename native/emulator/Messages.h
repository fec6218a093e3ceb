// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How threads tell each other what is done by what they store and load: releases, acquires, fences, and their scopes.
// Source of all rules: the PTX ISA manual, "Memory Consistency Model".

#ifndef TILEWRIGHT_EMULATOR_MESSAGES_H
#define TILEWRIGHT_EMULATOR_MESSAGES_H

#include "Clocks.h"

#include <array>
#include <cstddef>
#include <map>
#include <unordered_map>

namespace tilewright::emulator {

/// As `Site` numbers them.
enum AccessKind : uint32_t { aLoad, aStore, atOnce };
enum Strength : uint32_t { isStrong = 1, acquires = 2, releases = 4 };
enum Scope : uint32_t { ofBlock, ofCluster, ofDevice, ofSystem, scopes };

/// What a thread has released, by the scope that it did so with, or with a wider one; null for nothing.
using Released = std::array<std::shared_ptr<const View>, scopes>;

/// What comes with a value that a thread has stored, or several have, one upon the other.
struct Message {
  struct Part {
    uint32_t cluster, block; // By number in the grid, and by rank in the cluster.
    Released released;
  };
  std::vector<Part> parts;
};

/// Who wrote a word of global memory last.
struct Written {
  uint32_t cluster;
  Agent agent;
  Time begun, done; // Of its own times; `done` is `never` for a bulk store that nobody has waited for.
  static constexpr Time never = ~Time{0};
};

/// What is kept of global memory for the whole launch.
struct GlobalMemory {
  static constexpr uintptr_t word = 4;

  std::map<const std::byte *, Message> messages;  // By where the value is.
  std::unordered_map<uintptr_t, Written> written; // By the number of the word.
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_MESSAGES_H
