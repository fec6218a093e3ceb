// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What happened before what: vector clocks. Source of the method: C. Flanagan and S. Freund, "FastTrack: Efficient and
// Precise Dynamic Race Detection", PLDI 2009.

#ifndef TILEWRIGHT_EMULATOR_CLOCKS_H
#define TILEWRIGHT_EMULATOR_CLOCKS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::emulator {

/// Whatever reads and writes on its own: a thread, or what a thread starts and later waits for.
using Agent = uint32_t;
using Time = uint32_t;

/// Up to which of its own times the deeds of each agent are known to be done.
class Clock {
public:
  Clock() = default;
  explicit Clock(size_t agents) : times(agents) {}

  Time operator[](Agent agent) const { return times[agent]; }
  Time &operator[](Agent agent) { return times[agent]; }

  /// Learns what `other` knows.
  void join(const Clock &other) {
    times.resize(std::max(times.size(), other.times.size()));
    for (size_t agent = 0; agent < other.times.size(); ++agent)
      times[agent] = std::max(times[agent], other.times[agent]);
  }

  /// Forgets what `other` does not know.
  void meet(const Clock &other) {
    for (size_t agent = 0; agent < times.size(); ++agent)
      times[agent] = std::min(times[agent], other.times[agent]);
  }

private:
  std::vector<Time> times;
};

/// What a thread knows to be done, as its own loads and stores see it, and as the asynchronous proxy does: what copies
/// tensors and multiplies them sees a thread's stores only after a fence between the two.
struct View {
  Clock generic, proxied;

  View() = default;
  explicit View(size_t agents) : generic(agents), proxied(agents) {}

  void join(const View &other) {
    generic.join(other.generic);
    proxied.join(other.proxied);
  }

  void meet(const View &other) {
    generic.meet(other.generic);
    proxied.meet(other.proxied);
  }
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_CLOCKS_H
