// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What happened before what: vector clocks. Source of the method: C. Flanagan and S. Freund, "FastTrack: Efficient and
// Precise Dynamic Race Detection", PLDI 2009.

#ifndef TILEWRIGHT_EMULATOR_CLOCKS_H
#define TILEWRIGHT_EMULATOR_CLOCKS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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

  /// Whether it knows all that `other` does.
  bool covers(const Clock &other) const {
    return std::equal(other.times.begin(), other.times.end(), times.begin(),
                      times.begin() + static_cast<std::ptrdiff_t>(std::min(times.size(), other.times.size())),
                      [](Time theirs, Time own) { return own >= theirs; });
  }

  size_t size() const { return times.size(); }

  /// Forgets what `other` does not know.
  void meet(const Clock &other) {
    for (size_t agent = 0; agent < times.size(); ++agent)
      times[agent] = std::min(times[agent], other.times[agent]);
  }

private:
  std::vector<Time> times;
};

/// What is known of another cluster: all, and what of it by fences and operations of scopes wide enough.
struct Elsewhere {
  Clock all, scoped;
};

/// What a thread knows to be done, as its own loads and stores see it, and as the asynchronous proxy does: what copies
/// tensors and multiplies them sees a thread's stores only after a fence between the two.
struct View {
  Clock generic, proxied;
  /// What of `generic` is known by fences and operations whose scopes have the threads of both sides; null for all.
  std::shared_ptr<const Clock> scoped;
  /// What is known of other clusters, by their numbers; null for nothing.
  std::shared_ptr<const std::map<uint32_t, Elsewhere>> elsewhere;

  View() = default;
  explicit View(size_t agents) : generic(agents), proxied(agents) {}

  /// What of `generic` is known whatever the scopes.
  const Clock &safely() const { return scoped ? *scoped : generic; }

  /// Learns that what an agent did up to a time is done.
  void learn(Agent agent, Time time) {
    generic[agent] = std::max(generic[agent], time);
    if (!scoped)
      return;
    Clock more = *scoped;
    more[agent] = std::max(more[agent], time);
    scoped = std::make_shared<const Clock>(std::move(more));
  }

  void join(const View &other) { join(other, other.safely()); }

  /// The same where only some of what the other one knows is learned by scopes wide enough.
  void join(const View &other, const Clock &otherScoped) {
    if (scoped || &otherScoped != &other.generic) {
      Clock both = safely();
      both.join(otherScoped);
      generic.join(other.generic);
      scoped = both.covers(generic) ? nullptr : std::make_shared<const Clock>(std::move(both));
    } else {
      generic.join(other.generic);
    }
    proxied.join(other.proxied);
    if (other.elsewhere && other.elsewhere != elsewhere)
      for (const auto &[cluster, known] : *other.elsewhere)
        join(cluster, known);
  }

  /// Learns something of another cluster.
  void join(uint32_t cluster, const Elsewhere &known) {
    auto more = elsewhere ? *elsewhere : std::map<uint32_t, Elsewhere>();
    more[cluster].all.join(known.all);
    more[cluster].scoped.join(known.scoped);
    elsewhere = std::make_shared<const std::map<uint32_t, Elsewhere>>(std::move(more));
  }

  void meet(const View &other) {
    if (scoped || other.scoped) {
      Clock both = safely();
      both.meet(other.safely());
      scoped = std::make_shared<const Clock>(std::move(both));
    }
    generic.meet(other.generic);
    proxied.meet(other.proxied);
  }
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_CLOCKS_H
