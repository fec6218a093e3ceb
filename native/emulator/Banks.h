// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many passes through the banks of shared memory the instructions of a launch take.

#ifndef TILEWRIGHT_EMULATOR_BANKS_H
#define TILEWRIGHT_EMULATOR_BANKS_H

#include "Emulator.h"

#include <array>
#include <bit>
#include <deque>
#include <map>
#include <vector>

namespace tilewright::emulator {

/// What the threads of a warp access by one instruction: so many bytes each, at offsets in shared memory.
struct BankRequest {
  uint32_t lanes = 0; // Which threads take part.
  uint32_t bytes = 0;
  bool atomic = false;
  bool isGlobal = false; // Then the offsets are the lower halves of addresses.
  std::array<uint32_t, 32> offsets{};

  void add(unsigned lane, uint32_t offset) {
    lanes |= 1U << lane;
    offsets[lane] = offset;
  }

  /// How often the banks are passed through. There are 32 of 4 bytes, and a pass takes one word from each. Of 8 bytes a
  /// thread, half a warp is served at a time, and of 16 a quarter of one; those that want the same word are served
  /// together, but for atomic operations. Source: CUDA C++ Programming Guide, "Shared Memory"; NVIDIA's developer
  /// forum, thread 77228, on the requests of loads of 128 bits.
  unsigned passes() const;
  /// The same if there were no conflicts.
  unsigned least() const;

private:
  unsigned sectors() const;
  unsigned threadsAtOnce() const { return 32 / std::bit_ceil(std::max(bytes / 4, 1U)); }
};

/// The counts of a launch.
class BankCounts {
public:
  /// One thread's part of an instruction. Threads run one after another: that of a warp's instruction are those that
  /// execute it for the same time.
  void access(const Site &site, unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes, bool atomic,
              bool isGlobal);
  /// A whole warp's.
  void add(const Site &site, const BankRequest &request);
  /// Counts what not all threads of a warp have executed: none of the others will. To be called behind each cluster.
  void settle();

  /// The counts, by line.
  std::vector<SharedCount> all() const;

private:
  /// The executions of an instruction by a warp that have been begun: the oldest is its number `first`.
  struct Executions {
    std::array<uint64_t, 32> done{};
    uint64_t first = 0;
    std::deque<BankRequest> open;
  };

  std::map<std::pair<const Site *, unsigned>, Executions> executions;
  std::map<const Site *, SharedCount> counts;
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_BANKS_H
