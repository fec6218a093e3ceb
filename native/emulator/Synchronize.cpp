// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers of blocks, warps and clusters, barrier objects in shared memory, and fences.

#include "Machine.h"

using namespace tilewright::emulator;

namespace {

/// What traces call the meetings of all blocks of a cluster.
constexpr uint64_t ofWholeCluster = ~uint64_t{0};

/// Arrives; what is `told` is published when the meeting is over: what the thread did until now, or some of it. Returns
/// the generation to wait for.
unsigned arrive(Thread &thread, Meeting &meeting, unsigned expected, const View &told) {
  meeting.gathered.join(told);
  thread.release();
  unsigned generation = meeting.generation;
  if (++meeting.arrived == expected) {
    meeting.arrived = 0;
    ++meeting.generation;
    meeting.published = meeting.gathered;
  }
  return generation;
}

void await(Thread &thread, Meeting &meeting, unsigned generation, const char *what) {
  thread.wait(what, [&] { return meeting.generation != generation; });
  thread.acquire(meeting.published);
}

void meet(Thread &thread, unsigned id, unsigned count, bool waits) {
  if (id > 15 || count == 0 || count % warpThreads)
    thread.block->cluster->fail(thread, "barrier " + std::to_string(id) + " of " + std::to_string(count) +
                                            " threads; expected one of 16 and a multiple of 32 threads");
  Meeting &meeting = thread.block->meetings[id];
  uint64_t place = thread.block->rank * 16 + id;
  thread.block->cluster->traceMeeting(thread, arrived, place, meeting.generation);
  if (waits)
    thread.block->cluster->traceMeeting(thread, awaited, place, meeting.generation);
  unsigned generation = arrive(thread, meeting, count, thread.view);
  if (waits)
    await(thread, meeting, generation, "the others at a barrier");
}

unsigned everybody(const Thread &thread) { return static_cast<unsigned>(thread.block->threads.size()); }

void barrierZero(Thread &thread, const Operation &) { meet(thread, 0, everybody(thread), true); }

void barrierAll(Thread &thread, const Operation &operation) {
  meet(thread, operation.operand<unsigned>(0), everybody(thread), true);
}

void barrierCount(Thread &thread, const Operation &operation) {
  meet(thread, operation.operand<unsigned>(0), operation.operand<unsigned>(1), true);
}

void barrierArrive(Thread &thread, const Operation &operation) {
  meet(thread, operation.operand<unsigned>(0), operation.operand<unsigned>(1), false);
}

void warpBarrier(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, operation.operand<unsigned>(0), 0,
           [&](const auto &members, Thread *threads) {
             View view = thread.view;
             for (unsigned lane = 0; lane < warpThreads; ++lane)
               if (members[lane])
                 view.join(threads[lane].view);
             for (unsigned lane = 0; lane < warpThreads; ++lane)
               if (members[lane]) {
                 threads[lane].acquire(view);
                 threads[lane].release();
               }
           });
}

void arriveInCluster(Thread &thread, const View &told) {
  Cluster &cluster = *thread.block->cluster;
  cluster.traceMeeting(thread, arrived, ofWholeCluster, cluster.meeting.generation);
  thread.clusterGeneration = arrive(thread, cluster.meeting, cluster.grid.clusterBlocks() * everybody(thread), told);
}

void clusterArrive(Thread &thread, const Operation &) { arriveInCluster(thread, thread.view); }

/// Publishes nothing but what a fence has released before: initializations of barrier objects.
void clusterArriveRelaxed(Thread &thread, const Operation &) { arriveInCluster(thread, thread.barriersFenced); }

void clusterWait(Thread &thread, const Operation &) {
  thread.block->cluster->traceMeeting(thread, awaited, ofWholeCluster, thread.clusterGeneration);
  await(thread, thread.block->cluster->meeting, thread.clusterGeneration, "the others at a cluster barrier");
}

void initialize(Thread &thread, const Operation &operation) {
  thread.block->cluster->initialize(thread, operation.operand<std::byte *>(0), operation.operand<unsigned>(1));
}

/// The scope that an operation's name says; `otherwise` where it says none.
uint32_t scopeIn(std::string_view name, uint32_t otherwise) {
  constexpr std::pair<std::string_view, uint32_t> named[] = {
      {".cta", ofBlock}, {".cluster", ofCluster}, {".gpu", ofDevice}, {".gl", ofDevice}, {".sys", ofSystem}};
  for (auto [text, scope] : named)
    if (name.ends_with(text) || name.find(std::string(text) + ".") != std::string_view::npos)
      return scope;
  return otherwise;
}

/// The scope of an operation on a barrier object: without its ".space…", which says where that is, the name has it.
uint32_t scopeOfBarrier(std::string_view name) {
  size_t at = name.find(".scope.");
  return at == std::string_view::npos ? uint32_t{ofBlock}
                                      : scopeIn(name.substr(at + 6, name.find(".space.", at) - at - 6), ofBlock);
}

/// Arrives at a barrier object and returns the phase, which is what waits by state go by.
void arriveAt(Thread &thread, const Operation &operation, int64_t bytes, unsigned count) {
  PhaseBarrier &barrier = thread.block->cluster->barrier(thread, operation.operand<std::byte *>(0));
  uint64_t phase = barrier.phase;
  if (barrier.pending < count)
    thread.block->cluster->fail(thread, "more arrivals at an mbarrier than it expects");
  bool isRemote = thread.block->cluster->owner(operation.operand<std::byte *>(0)) != thread.block;
  if (count)
    thread.block->cluster->traceMeeting(thread, arrived, operation.operand<uint64_t>(0), phase, isRemote);
  barrier.gather(thread.view, isRemote, scopeOfBarrier(operation.name));
  thread.release();
  barrier.bytes += bytes;
  barrier.pending -= count;
  thread.block->cluster->settle(barrier);
  if (operation.result)
    operation.give(phase);
}

void arriveOne(Thread &thread, const Operation &operation) { arriveAt(thread, operation, 0, 1); }

void arriveCount(Thread &thread, const Operation &operation) {
  arriveAt(thread, operation, 0, operation.operand<unsigned>(1));
}

void arriveExpecting(Thread &thread, const Operation &operation) {
  arriveAt(thread, operation, operation.operand<int32_t>(1), 1);
}

void invalidate(Thread &thread, const Operation &operation) {
  thread.block->cluster->invalidate(thread, operation.operand<std::byte *>(0));
}

void expect(Thread &thread, const Operation &operation) {
  arriveAt(thread, operation, operation.operand<int32_t>(1), 0);
}

/// Waits for the phase of a parity, or of a state, to end. A test would tell when it has not; here it never does.
void awaitPhase(Thread &thread, const Operation &operation, bool parity) {
  PhaseBarrier &barrier = thread.block->cluster->barrier(thread, operation.operand<std::byte *>(0));
  // Compilers give any odd number for the parity of 1.
  auto wanted = parity ? operation.operand<unsigned>(1) & 1 : operation.operand<uint64_t>(1);
  thread.wait("a phase of an mbarrier",
              [&] { return parity ? (barrier.phase & 1) != wanted : barrier.phase != wanted; });
  // The last phase that has the parity, or the number.
  uint64_t phase = parity ? barrier.phase - 1 : wanted;
  if (barrier.phase)
    thread.block->cluster->traceMeeting(thread, awaited, operation.operand<uint64_t>(0), phase);
  thread.acquire(barrier.published, barrier.publishedTo(scopeOfBarrier(operation.name)));
  if (operation.result)
    operation.give(uint8_t{1});
}

void awaitParity(Thread &thread, const Operation &operation) { awaitPhase(thread, operation, true); }
void awaitState(Thread &thread, const Operation &operation) { awaitPhase(thread, operation, false); }

/// Of those of proxies that nothing here has, nothing is told.
void fence(Thread &thread, const Operation &operation) {
  if (operation.name.find("proxy") == std::string_view::npos)
    thread.block->cluster->fence(thread, scopeIn(operation.name, ofSystem));
  else
    thread.release();
}
void fenceBarriers(Thread &thread, const Operation &) {
  thread.block->cluster->fenceBarriers(thread);
  thread.barriersFenced = thread.view;
  thread.release();
}
/// A kernel is launched here when those before it have ended. What it does before it waits for them would not be behind
/// them on a card.
void awaitGrids(Thread &thread, const Operation &) {
  if (thread.touchedMemory)
    thread.block->cluster->report.add("early: " + thread.name() +
                                      " accesses global memory before griddepcontrol.wait, where kernels before may "
                                      "still write it");
}
void letOthersBegin(Thread &, const Operation &) {}

void fenceProducts(Thread &thread, const Operation &) {
  thread.productsFenced = true;
  thread.release();
}
void fenceProxy(Thread &thread, const Operation &) { thread.fenceProxy(); }

} // namespace

const std::vector<Row> tilewright::emulator::synchronizationRows = {
    {"barrier0", barrierZero},
    {"barrier.cta.sync.aligned.all", barrierAll},
    {"barrier.cta.sync.all", barrierAll},
    {"barrier.cta.sync.aligned.count", barrierCount},
    {"barrier.cta.sync.count", barrierCount},
    {"barrier.cta.arrive.aligned.count", barrierArrive},
    {"barrier.cta.arrive.count", barrierArrive},
    {".bar.arrive", barrierArrive},
    {".barrier.arrive", barrierArrive},
    {"bar.warp.sync", warpBarrier},
    {"barrier.cluster.arrive", clusterArrive},
    {"barrier.cluster.arrive.relaxed", clusterArriveRelaxed},
    {"barrier.cluster.wait", clusterWait},
    {"mbarrier.init", initialize},
    {"mbarrier.inval", invalidate},
    {"mbarrier.arrive", arriveOne},
    {"mbarrier.arrive.scope", arriveCount},
    {"mbarrier.arrive.expect.tx", arriveExpecting},
    {"mbarrier.expect.tx", expect},
    {"mbarrier.test.wait", awaitState},
    {"mbarrier.try.wait", awaitState},
    {"mbarrier.test.wait.parity", awaitParity},
    {"mbarrier.try.wait.parity", awaitParity},
    {".mbarrier.try_wait.parity", awaitParity},
    {".mbarrier.init", initialize},
    {"fence", fence},
    {"membar", fence},
    {"fence.proxy.async", fenceProxy},
    {"fence.mbarrier_init", fenceBarriers},
    {"wgmma.fence", fenceProducts},
    {"griddepcontrol.wait", awaitGrids},
    {"griddepcontrol.launch.dependents", letOthersBegin},
};
