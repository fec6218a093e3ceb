// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shared memory of a block, with a record of who touched each byte last.

#ifndef TILEWRIGHT_EMULATOR_SHAREDMEMORY_H
#define TILEWRIGHT_EMULATOR_SHAREDMEMORY_H

#include "Clocks.h"

#include <string>

namespace tilewright::emulator {

/// Bytes between the shared memories of a cluster's blocks: more than any chip has, and a multiple of what descriptors
/// of matrices can address, so that the low bits of an address are the offset.
constexpr size_t sharedPitch = 1 << 18;

/// Who touches memory, and what it knows to be done by then.
struct Toucher {
  Agent agent;
  Time time;
  const View &view;
  bool async; // Through the asynchronous proxy.
  std::string what;
  bool atomic = false; // Does not race with others like it.
  bool plain = false;  // A thread's own store: several of the same value do no harm.
  uint32_t line = 0;   // Of the source; 0 where that is not known.
};

class Report;

class SharedMemory {
public:
  /// Where accesses are not to be judged, nothing of them is recorded.
  SharedMemory(std::byte *start, size_t bytes, unsigned rank, Report &report, bool isJudged)
      : start(start), bytes(bytes), rank(rank), report(report), isJudged(isJudged),
        granules((bytes + granule - 1) / granule) {}

  std::byte *data() const { return start; }
  size_t size() const { return bytes; }

  /// Records accesses of `count` bytes at `offset`; reports a race with an earlier one, what was never written, and
  /// what lies outside.
  void read(size_t offset, size_t count, const Toucher &who) { touch(offset, count, who, false); }
  void write(size_t offset, size_t count, const Toucher &who) { touch(offset, count, who, true); }

  /// Reports those races between stores that have turned out to change what was there. To be called before anything
  /// else happens.
  void settle();

private:
  static constexpr size_t granule = 4;

  struct Touch {
    Agent agent;
    Time time;
    uint8_t bytes; // Which ones of the granule.
    bool async, atomic, plain;
    uint32_t line;
  };
  /// A race, if it stores something else than what is there.
  struct Suspect {
    size_t offset, count;
    std::byte before[granule];
    std::string finding;
  };
  struct Granule {
    std::vector<Touch> writes, reads;
  };

  void touch(size_t offset, size_t count, const Toucher &who, bool writes);
  std::string nameOf(const Touch &touch, const char *what) const;
  static bool isKnown(const Touch &touch, const Toucher &who, bool wrote);

  std::byte *start;
  size_t bytes;
  unsigned rank;
  Report &report;
  bool isJudged;
  std::vector<Granule> granules;
  std::vector<Suspect> suspects;
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_SHAREDMEMORY_H
