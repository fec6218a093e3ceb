// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Machine.h"

#include <cstdio>

using namespace tilewright::emulator;

namespace {

/// Barrier objects of a cluster at most.
constexpr unsigned mostBarriers = 256;
/// Rounds in which nothing but loads of the same values happens, until nothing else is expected to.
constexpr unsigned mostPolls = 100000;

thread_local Thread *current = nullptr;

} // namespace

Thread *tilewright::emulator::running() { return current; }

/// Whether all boxes have been read from shared memory.
static bool areTaken(const std::deque<std::vector<BoxCopy>> &groups) {
  return std::all_of(groups.begin(), groups.end(), [](const std::vector<BoxCopy> &group) {
    return std::all_of(group.begin(), group.end(), [](const BoxCopy &copy) { return !copy.taken.empty(); });
  });
}

std::string Thread::name() const {
  return "block " + std::to_string(block->rank) + ": thread " + std::to_string(index);
}

std::string Thread::doing(const char *what) const {
  std::string line = site && site->line ? " at line " + std::to_string(site->line) : "";
  return name() + ", " + what + line + ",";
}

void Thread::leave() { block->cluster->leave(*this); }

Cluster::Cluster(const Grid &grid, unsigned number, std::array<unsigned, 3> first, std::byte *arena,
                 GlobalMemory &global, Report &report)
    : grid(grid), number(number), global(global), report(report), threads(grid.clusterBlocks() * grid.threadCount()),
      arena(arena), random(grid.seed) {
  size_t agents = firstOfBarriers() + mostBarriers;
  laneTimes.resize(agents);
  meeting = {0, 0, View(agents), View(agents)};
  unsigned rank = 0;
  for (unsigned z = 0; z < grid.cluster[2]; ++z)
    for (unsigned y = 0; y < grid.cluster[1]; ++y)
      for (unsigned x = 0; x < grid.cluster[0]; ++x, ++rank) {
        std::byte *start = arena + rank * sharedPitch;
        blocks.push_back({this,
                          rank,
                          {first[0] + x, first[1] + y, first[2] + z},
                          SharedMemory(start, grid.sharedBytes, rank, report, !grid.trace),
                          TensorMemory(rank, report),
                          std::vector<Thread>(grid.threadCount()),
                          {},
                          {},
                          {},
                          View(agents)});
        for (unsigned index = 0; index < grid.threadCount(); ++index) {
          Thread &thread = blocks.back().threads[index];
          thread.block = &blocks.back();
          thread.index = index;
          thread.agent = rank * grid.threadCount() + index;
          thread.view = View(agents);
          thread.view.generic[thread.agent] = 1;
        }
      }
  report.name = [this](Agent agent) { return agentName(agent); };
}

std::string Cluster::agentName(Agent agent) const {
  unsigned block = grid.threadCount();
  auto named = [&](unsigned thread) {
    return "thread " + std::to_string(thread % block) + " of block " + std::to_string(thread / block);
  };
  if (agent < threads)
    return named(agent);
  if (agent < 2 * threads)
    return "a cp.async of " + named(agent - threads);
  if (agent < 3 * threads)
    return "a bulk store of " + named(agent - 2 * threads);
  if (agent < firstOfWarps())
    return "a wgmma of warp group " + std::to_string(agent - 3 * threads);
  if (agent < firstOfBarriers()) {
    unsigned number = agent - firstOfWarps();
    return (number % 2 ? "a tcgen05.ld of warp " : "a tcgen05.mma of warp ") + std::to_string(number / 2);
  }
  return "a bulk copy";
}

void Cluster::enter(unsigned high, unsigned low) {
  auto *thread = reinterpret_cast<Thread *>((static_cast<uintptr_t>(high) << 32) | low);
  thread->block->cluster->grid.kernel(thread->block->cluster->grid.arguments);
  Cluster &cluster = *thread->block->cluster;
  if (!thread->copies.open.empty() || !thread->copies.committed.empty())
    cluster.report.add("unwaited: a cp.async is not waited for before the kernel ends");
  if (!thread->stores.open.empty() || !areTaken(thread->stores.committed))
    cluster.report.add("unwaited: a bulk store is not waited for before the kernel ends");
  cluster.settleStores();
  cluster.end(*thread);
  thread->finished = true;
  swapcontext(&thread->context, &cluster.scheduler);
}

void Cluster::start(Thread &thread) {
  thread.stack = std::make_unique_for_overwrite<std::byte[]>(stackBytes);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = stackBytes;
  thread.context.uc_link = nullptr;
  auto address = reinterpret_cast<uintptr_t>(&thread);
  makecontext(&thread.context, reinterpret_cast<void (*)()>(&Cluster::enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
}

void Cluster::leave(Thread &thread) { swapcontext(&thread.context, &scheduler); }

void Cluster::fail(Thread &thread, const std::string &what) {
  failure = what;
  swapcontext(&thread.context, &scheduler);
  __builtin_unreachable();
}

void Cluster::run() {
  for (Block &block : blocks)
    for (Thread &thread : block.threads)
      start(thread);
  runThreads();
  for (Block &block : blocks)
    for (Thread &thread : block.threads)
      finishStores(thread);
  if (!loads.empty())
    report.add("unwaited: a bulk load is not waited for before the kernel ends");
  if (!copyArrivals.empty())
    report.add("unwaited: a cp.async that arrives at an mbarrier is not waited for before the kernel ends");
  if (!tensorOperations.empty())
    report.add("unwaited: a tcgen05.mma or tcgen05.commit is not waited for before the kernel ends");
}

void Cluster::runThreads() {
  std::vector<Thread *> waiting;
  for (Block &block : blocks)
    for (Thread &thread : block.threads)
      waiting.push_back(&thread);
  std::shuffle(waiting.begin(), waiting.end(), random);
  unsigned polled = 0; // Rounds without anything else.
  while (!waiting.empty()) {
    bool progress = false, polling = false;
    for (Thread *thread : waiting) {
      if (thread->isReady && !thread->isReady(thread->readiness))
        continue;
      current = thread;
      swapcontext(&scheduler, &thread->context);
      current = nullptr;
      (thread->polls ? polling : progress) = true;
      if (!failure.empty())
        throw Failure(failure);
    }
    std::erase_if(waiting, [](const Thread *thread) { return thread->finished; });
    polled = progress ? 0 : polled + 1;
    if (progress)
      continue;
    if (!loads.empty() || !tensorOperations.empty() || !copyArrivals.empty())
      completeOldest();
    else if (!polling || polled > mostPolls)
      throw Failure(
          "deadlock: " + std::to_string(waiting.size()) + " threads wait; " +
          (waiting.front()->polls ? waiting.front()->doing("loading") : waiting.front()->name()) + " for " +
          (waiting.front()->polls ? "a value that no thread of its cluster stores" : waiting.front()->waitsFor));
  }
}

void Cluster::completeOldest() {
  if (loads.empty() && !copyArrivals.empty()) {
    CopyArrival arrival = std::move(copyArrivals.front());
    copyArrivals.pop_front();
    complete(arrival);
    return;
  }
  if (loads.empty()) {
    TensorOperation operation = std::move(tensorOperations.front());
    tensorOperations.pop_front();
    complete(*this, operation);
    return;
  }
  BoxCopy copy = std::move(loads.front());
  loads.pop_front();
  loadBox(*this, copy);
}

Block *Cluster::owner(const void *address) {
  auto distance = static_cast<const std::byte *>(address) - arena;
  if (distance < 0 || static_cast<size_t>(distance) >= blocks.size() * sharedPitch)
    return nullptr;
  return &blocks[static_cast<size_t>(distance) / sharedPitch];
}

std::byte *Cluster::inBlock(const void *address, unsigned rank) { return arena + rank * sharedPitch + offset(address); }

void Cluster::checkAligned(Thread &thread, const void *address, size_t alignment, const char *what) {
  if (reinterpret_cast<uintptr_t>(address) % alignment)
    fail(thread, std::string("misaligned: ") + what + " at an address that is no multiple of " +
                     std::to_string(alignment) + " bytes");
}

void Cluster::access(Thread &thread, const std::byte *address, size_t bytes, uint32_t kind, uint32_t strength) {
  bool writes = kind != aLoad, atomic = kind == atOnce || strength;
  if (Block *block = owner(address)) {
    Toucher who{thread.agent,
                thread.view.generic[thread.agent],
                thread.view,
                false,
                thread.doing(kind == atOnce ? "an atomic operation"
                             : writes       ? "storing"
                                            : "loading"),
                atomic,
                writes && !atomic,
                thread.site ? thread.site->line : 0};
    if (block != thread.block)
      visit(*block, thread.agent, who.time);
    if (writes)
      block->shared.write(offset(address), bytes, who);
    else
      block->shared.read(offset(address), bytes, who);
    if (offset(address) + bytes > block->shared.size())
      fail(thread, "an access outside of shared memory");
    return;
  }
  const std::byte *stack = thread.stack.get();
  if (address >= stack && address + bytes <= stack + stackBytes)
    return;
  thread.touchedMemory = true;
  if (!checkGlobal(&thread, address, bytes, writes, thread.doing(writes ? "storing" : "loading")))
    fail(thread, "an access outside of the operands");
  if (writes) // Loads at addresses that were clamped to what there is may find anything there.
    checkStored(address, bytes, thread.doing("storing"));
  if (kind == aStore && !strength)
    record(address, bytes, thread.agent, thread.view.generic[thread.agent], thread.view.generic[thread.agent]);
  if (kind == aLoad && !strength)
    checkWritten(thread, address, bytes);
}

bool Cluster::checkGlobal(const Thread *, const std::byte *address, size_t bytes, bool writes,
                          const std::string &what) {
  auto allows = [&](const Buffer &buffer) {
    return address >= buffer.start && address + bytes <= buffer.start + buffer.bytes && (buffer.writable || !writes);
  };
  if (std::any_of(grid.buffers, grid.buffers + grid.bufferCount, allows) ||
      std::any_of(variables.begin(), variables.end(), allows))
    return true;
  report.add("outside: " + what + (writes ? " writes " : " reads ") + std::to_string(bytes) +
             " bytes of global memory that are outside of every operand that it may " + (writes ? "write" : "read"));
  return false;
}

void Cluster::visit(Block &block, Agent agent, Time time) {
  if (block.endedThreads == block.threads.size())
    report.add("ended: " + agentName(agent) + " touches the shared memory of block " + std::to_string(block.rank) +
               " of the cluster, which has ended");
  block.visits[agent] = time;
}

void Cluster::end(Thread &thread) {
  Block &block = *thread.block;
  block.ended.join(thread.view);
  if (++block.endedThreads < block.threads.size())
    return;
  if (block.tensor.isAllocated())
    report.add("allocated: block " + std::to_string(block.rank) +
               " of the cluster ends without a tcgen05.dealloc of all tensor memory that it has");
  for (auto [agent, time] : block.visits)
    if (block.ended.generic[agent] < time)
      report.add("ended: block " + std::to_string(block.rank) +
                 " of the cluster ends at a time that nothing orders with " + agentName(agent) +
                 ", which touches its shared memory");
}

void Cluster::initialize(Thread &thread, std::byte *address, unsigned expected) {
  Agent agent = firstOfBarriers() + static_cast<Agent>(barriers.size());
  if (barriers.contains(address))
    agent = barriers.at(address).agent;
  else if (barriers.size() == mostBarriers)
    fail(thread, "more than " + std::to_string(mostBarriers) + " barrier objects");
  if (barriers.contains(address) && barriers.at(address).valid)
    fail(thread, "an mbarrier.init of a barrier object without mbarrier.inval before it");
  access(thread, address, 8, aStore);
  View nothing(laneTimes.size());
  barriers.insert_or_assign(address,
                            PhaseBarrier{expected, expected, 0, 0, agent, thread.view.generic[thread.agent],
                                         thread.agent, true, false, nothing, nothing, std::nullopt, std::nullopt});
}

PhaseBarrier &Cluster::initialized(Thread &thread, const std::byte *address) {
  auto found = barriers.find(address);
  if (found == barriers.end())
    fail(thread, "an mbarrier operation on what is no initialized barrier object");
  PhaseBarrier &barrier = found->second;
  if (!barrier.valid)
    fail(thread, "an mbarrier operation behind mbarrier.inval");
  if (thread.view.generic[barrier.by] < barrier.initialized)
    report.add("race: " + thread.name() + " uses an mbarrier before " + agentName(barrier.by) +
               " is known to have initialized it");
  return barrier;
}

PhaseBarrier &Cluster::barrier(Thread &thread, const std::byte *address) {
  Block *block = owner(address);
  if (!block || block == thread.block)
    return initialized(thread, address);
  visit(*block, thread.agent, thread.view.generic[thread.agent]);
  return fencedBarrier(thread, address);
}

PhaseBarrier &Cluster::fencedBarrier(Thread &thread, const std::byte *address) {
  PhaseBarrier &barrier = initialized(thread, address);
  if (!barrier.fenced)
    report.add("unfenced: " + thread.name() + " has an mbarrier used outside of the block, or by copies, that " +
               agentName(barrier.by) + " has initialized without fence.mbarrier_init");
  return barrier;
}

void Cluster::fenceBarriers(const Thread &thread) {
  for (auto &[address, barrier] : barriers)
    if (barrier.by == thread.agent)
      barrier.fenced = true;
}

void Cluster::settle(PhaseBarrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.published = barrier.gathered;
  barrier.publishedBy = barrier.gatheredBy;
}
