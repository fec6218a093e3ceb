// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What takes time in a cluster, for a model of how long it takes.

#ifndef TILEWRIGHT_EMULATOR_TRACE_H
#define TILEWRIGHT_EMULATOR_TRACE_H

#include "Emulator.h"

#include <map>
#include <vector>

namespace tilewright::emulator {

/// What `key` and `amount` of an event mean.
enum EventKind : uint32_t {
  issued,        // -, instructions.
  accessed,      // The instruction, 1 for a load.
  multiplied,    // Bytes read from shared memory by the warp, columns times bytes along K: of wgmma.
  committed,     // -, -: of wgmma.
  productsWait,  // -, groups that may be under way.
  multipliedNow, // -, products of the warp's mma.
  loadedBox,     // The meeting that it is part of, bytes; of several blocks, one event each.
  loadedToOther, // The same for boxes that have left the L2 cache for another block already.
  storedBox,     // -, bytes.
  storesCommit,  // -, -.
  storesWait,    // 1 for reads only, groups that may be under way.
  arrived,       // The meeting, 1 for that of another block.
  awaited,       // The meeting, -.
  copied,        // -, bytes of the warp: of cp.async.
  copiesCommit,  // -, -.
  copiesWait,    // -, groups that may be under way.
};

class Trace {
public:
  void add(uint32_t warp, EventKind kind, uint64_t key, uint64_t amount) {
    size_t &last = lastOf[warp];
    if (kind == issued && last && events[last - 1].kind == issued) {
      events[last - 1].amount += amount;
      return;
    }
    events.push_back({warp, kind, key, amount});
    last = events.size();
  }

  /// The number of a meeting: the generation of whatever has an address or a number in a block.
  uint64_t meeting(uint64_t place, uint64_t generation) {
    return meetings.try_emplace({place, generation}, meetings.size()).first->second;
  }

  const std::vector<TraceEvent> &all() const { return events; }

private:
  std::vector<TraceEvent> events;
  std::map<uint32_t, size_t> lastOf; // The number of events up to the last one of each warp.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> meetings;
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_TRACE_H
