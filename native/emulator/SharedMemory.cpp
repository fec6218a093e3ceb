// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SharedMemory.h"
#include "Report.h"

#include <cstring>

using namespace tilewright::emulator;

/// Whether `who` knows that an earlier access is done. What a thread wrote is known to the asynchronous proxy after a
/// fence.
bool SharedMemory::isKnown(const Touch &touch, const Toucher &who, bool wrote) {
  if (touch.atomic && who.atomic)
    return true;
  const Clock &clock = who.async && wrote && !touch.async ? who.view.proxied : who.view.generic;
  return touch.agent == who.agent ? touch.async == who.async || clock[touch.agent] >= touch.time
                                  : clock[touch.agent] >= touch.time;
}

/// Whether `who` knows that a thread's store is done that it loads, but by fences or operations of too narrow scopes.
static bool isKnownTooNarrowly(Agent agent, Time time, const Toucher &who) {
  return agent != who.agent && who.view.safely()[agent] < time;
}

std::string SharedMemory::nameOf(const Touch &touch, const char *what) const {
  return "which " + report.name(touch.agent) + what + (touch.line ? " at line " + std::to_string(touch.line) : "");
}

void SharedMemory::settle() {
  for (const Suspect &suspect : suspects)
    if (std::memcmp(suspect.before, start + suspect.offset, suspect.count) != 0)
      report.add(suspect.finding);
  suspects.clear();
}

void SharedMemory::touch(size_t offset, size_t count, const Toucher &who, bool writes) {
  if (offset + count > bytes) {
    report.add("outside", rank, who.what, offset, count, "which is outside of its " + std::to_string(bytes) + " bytes");
    return;
  }
  for (size_t at = offset; isJudged && at < offset + count;) {
    size_t first = at % granule, last = std::min(granule, first + offset + count - at);
    auto mask = static_cast<uint8_t>(((1U << last) - 1) & ~((1U << first) - 1));
    Granule &touched = granules[at / granule];
    uint8_t written = 0;
    for (const Touch &earlier : touched.writes) {
      if (!(earlier.bytes & mask))
        continue;
      written |= earlier.bytes;
      if (isKnown(earlier, who, /*wrote=*/true)) {
        if (!writes && !who.async && !earlier.async && !who.atomic &&
            isKnownTooNarrowly(earlier.agent, earlier.time, who))
          report.add("scope", rank, who.what, at, last - first,
                     nameOf(earlier, " writes") + ", known by fences or operations whose scope does not have both");
        continue;
      }
      std::string finding = Report::touching("race", rank, who.what, at, last - first,
                                             nameOf(earlier, " writes") + " at a time that nothing orders");
      if (writes && who.plain && earlier.plain) {
        suspects.push_back({at, last - first, {}, std::move(finding)});
        std::memcpy(suspects.back().before, start + at, last - first);
      } else {
        report.add(finding);
      }
    }
    if (writes) {
      for (const Touch &earlier : touched.reads)
        if ((earlier.bytes & mask) && !isKnown(earlier, who, /*wrote=*/false))
          report.add("race", rank, who.what, at, last - first,
                     nameOf(earlier, " reads") + " at a time that nothing orders");
      for (Touch &earlier : touched.writes)
        if (earlier.agent == who.agent || !(earlier.atomic && who.atomic)) // Others' atomic ones stay to be ordered.
          earlier.bytes &= static_cast<uint8_t>(~mask);
      for (Touch &earlier : touched.reads)
        earlier.bytes &= static_cast<uint8_t>(~mask);
      std::erase_if(touched.writes, [](const Touch &touch) { return !touch.bytes; });
      std::erase_if(touched.reads, [](const Touch &touch) { return !touch.bytes; });
      touched.writes.push_back({who.agent, who.time, mask, who.async, who.atomic, who.plain, who.line});
    } else {
      if ((written & mask) != mask)
        report.add("unwritten", rank, who.what, at, last - first, "which nobody has written");
      // What this reader knows to be read needs no record of its own: whoever waits for it waits for them.
      std::erase_if(touched.reads, [&](const Touch &earlier) {
        return (earlier.bytes & ~mask) == 0 && isKnown(earlier, who, /*wrote=*/false);
      });
      touched.reads.push_back({who.agent, who.time, mask, who.async, who.atomic, who.plain, who.line});
    }
    at += last - first;
  }
}
