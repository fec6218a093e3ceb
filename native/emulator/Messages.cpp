// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Machine.h"

using namespace tilewright::emulator;

namespace {

constexpr size_t mostLookedAt = sizeof(uint64_t);

/// What both have released.
std::shared_ptr<const View> joined(const std::shared_ptr<const View> &one, const std::shared_ptr<const View> &other) {
  if (!one || !other || one == other)
    return one ? one : other;
  auto both = std::make_shared<View>(*one);
  both->join(*other);
  return both;
}

/// A view of which only what `safe` has is known by scopes wide enough: null for nothing.
View narrowed(const View &all, const View *safe) {
  View found = all;
  found.scoped = std::make_shared<const Clock>(safe ? safe->safely() : Clock(all.generic.size()));
  if (!all.elsewhere || safe)
    return found;
  auto others = *all.elsewhere;
  for (auto &[cluster, known] : others)
    known.scoped = Clock();
  found.elsewhere = std::make_shared<const std::map<uint32_t, Elsewhere>>(std::move(others));
  return found;
}

} // namespace

void Cluster::take(Thread &thread, const Message &message, uint32_t scope) {
  for (const Message::Part &part : message.parts) {
    uint32_t needed = part.cluster != number ? ofDevice : part.block != thread.block->rank ? ofCluster : ofBlock;
    const View &all = *part.released[ofBlock];
    const View *safe = scope >= needed ? part.released[needed].get() : nullptr;
    View learned = safe == &all ? all : narrowed(all, safe);
    if (part.cluster == number) {
      thread.acquire(learned);
      continue;
    }
    View others(laneTimes.size());
    others.elsewhere = learned.elsewhere;
    others.join(part.cluster, {learned.generic, learned.safely()});
    thread.acquire(others);
  }
}

void Cluster::fence(Thread &thread, uint32_t scope) {
  for (const auto &[address, message] : thread.taken)
    take(thread, message, scope);
  if (scope >= ofDevice)
    thread.taken.clear(); // Nothing of it can be learned by a wider one.
  for (uint32_t each = ofBlock; each <= scope; ++each)
    thread.released[each] = thread.snapshot();
  thread.release();
}

void Cluster::synchronize(Thread &thread, const Site &site, const std::byte *address, size_t bytes) {
  if (site.kind != aStore) {
    uint64_t value = 0;
    std::memcpy(&value, address, std::min(bytes, mostLookedAt));
    if (thread.looked.site == &site && thread.looked.address == address && thread.looked.value == value) {
      thread.poll();
      std::memcpy(&value, address, std::min(bytes, mostLookedAt));
    }
    thread.looked = {&site, address, value};
  }
  auto &told = messagesAt(address);
  auto found = told.find(address);
  if (site.kind != aStore && found != told.end()) {
    if (site.strength & acquires)
      take(thread, found->second, site.scope);
    thread.taken.insert_or_assign(address, found->second);
  }
  if (site.kind == aLoad)
    return;
  Message::Part part{number, thread.block->rank, thread.released};
  if (site.strength & releases)
    for (uint32_t each = ofBlock; each <= site.scope; ++each)
      part.released[each] = thread.snapshot();
  if (site.kind == aStore)
    told.erase(address);
  if (!part.released[ofBlock])
    return;
  // An atomic operation hands on what came with the value that it changes.
  std::vector<Message::Part> &parts = told[address].parts;
  auto same = std::find_if(parts.begin(), parts.end(), [&](const Message::Part &each) {
    return each.cluster == part.cluster && each.block == part.block;
  });
  if (same == parts.end())
    parts.push_back(std::move(part));
  else
    for (uint32_t each = ofBlock; each < scopes; ++each)
      same->released[each] = joined(same->released[each], part.released[each]);
  thread.release();
}

void Cluster::record(const std::byte *address, size_t bytes, Agent agent, Time begun, Time done) {
  if (grid.trace)
    return;
  auto first = reinterpret_cast<uintptr_t>(address) / GlobalMemory::word;
  auto last = (reinterpret_cast<uintptr_t>(address) + bytes - 1) / GlobalMemory::word;
  for (uintptr_t word = first; word <= last; ++word)
    global.written.insert_or_assign(word, Written{number, agent, begun, done});
}

void Cluster::checkWritten(const Thread &thread, const std::byte *address, size_t bytes) {
  if (global.written.empty())
    return;
  auto first = reinterpret_cast<uintptr_t>(address) / GlobalMemory::word;
  auto last = (reinterpret_cast<uintptr_t>(address) + bytes - 1) / GlobalMemory::word;
  for (uintptr_t word = first; word <= last; ++word) {
    auto found = global.written.find(word);
    if (found == global.written.end())
      continue;
    const Written &written = found->second;
    const Clock *all = &thread.view.generic, *safe = &thread.view.safely();
    if (written.cluster != number) {
      if (!thread.view.elsewhere || !thread.view.elsewhere->contains(written.cluster))
        continue;
      const Elsewhere &known = thread.view.elsewhere->at(written.cluster);
      all = &known.all, safe = &known.scoped;
    }
    if ((*all)[written.agent] < written.begun)
      continue; // Nothing orders the two: the value may be one that is not used.
    std::string what = thread.doing("loading") + " touches global memory that " + agentName(written.agent) +
                       (written.cluster == number ? "" : " of cluster " + std::to_string(written.cluster));
    if (written.done == Written::never)
      report.add("unwaited: " + what +
                 " has begun a bulk store to, of which nobody has waited for more than its reads");
    else if (written.agent != thread.agent || written.cluster != number)
      if (safe->size() <= written.agent || (*safe)[written.agent] < written.done)
        report.add("scope: " + what + " writes, known by fences or operations whose scope does not have both");
  }
}

void Cluster::countAccess(const Thread &thread, const std::byte *address, size_t bytes, bool atomic) {
  const std::byte *stack = thread.stack.get();
  bool isGlobal = !owner(address);
  if (!grid.counts || (isGlobal && (!grid.trace || (address >= stack && address < stack + stackBytes))))
    return;
  auto place = static_cast<uint32_t>(isGlobal ? reinterpret_cast<uintptr_t>(address) : offset(address));
  grid.counts->access(*thread.site, thread.agent / warpThreads, thread.lane(), place, static_cast<uint32_t>(bytes),
                      atomic, isGlobal);
  trace(thread, accessed, reinterpret_cast<uintptr_t>(thread.site), thread.site->kind == aLoad);
}
