// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The blocks of one cluster and their threads, each a fiber. They take turns in one thread of the host.

#ifndef TILEWRIGHT_EMULATOR_MACHINE_H
#define TILEWRIGHT_EMULATOR_MACHINE_H

#include "Banks.h"
#include "Emulator.h"
#include "Messages.h"
#include "Report.h"
#include "SharedMemory.h"
#include "TensorMemory.h"
#include "Trace.h"

#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <type_traits>
#include <ucontext.h>

namespace tilewright::emulator {

constexpr unsigned warpThreads = 32;
constexpr unsigned warpGroupThreads = 128;
constexpr size_t stackBytes = 256 << 10; // Of a thread.

struct Thread;
struct Block;
class Cluster;

/// One operation that a thread performs: its operands lie in slots of 16 bytes.
struct Operation {
  const Site *site;
  std::string_view name;
  unsigned count;
  const std::byte *operands;
  std::byte *result;

  template <typename T>
  T operand(unsigned index) const {
    T value;
    std::memcpy(&value, operands + 16 * index, sizeof(T));
    return value;
  }

  template <typename T>
  void give(const T &value, unsigned index = 0) const {
    std::memcpy(result + index * sizeof(T), &value, sizeof(T));
  }
};

/// A copy that a thread has begun and that is made when it is waited for.
struct Copy {
  std::byte *to;
  const std::byte *from;
  size_t bytes, filled; // `filled` - `bytes` zeros follow.
  std::shared_ptr<const View> begun;
  uint32_t line; // Where; 0 where that is not known.
};

/// Copies of a thread behind which an mbarrier is arrived at.
struct CopyArrival {
  Thread *thread;
  std::vector<Copy> copies;
  std::byte *barrier;
};

/// A box of a tensor in global memory that a bulk store writes, as long as nobody knows that it has: between which
/// addresses it is, and which one.
struct StoreUnderWay {
  const std::byte *first, *last;
  const TensorMap *map;
  std::array<int32_t, 5> at;
  Agent by;
};

/// A box of a tensor on its way into shared memory or out of it.
struct BoxCopy {
  const TensorMap *map;
  std::array<int32_t, 5> at;
  std::array<uint16_t, 2> offsets; // Of patches: how far from their first elements those of a box are, columns first.
  std::byte *shared;
  std::vector<unsigned> blocks; // Into which of them, by rank, at the same offset.
  std::byte *barrier;           // Told in each of them; of a pair's copy, where it is.
  bool ofPair;                  // Whether it may tell the other block of a pair.
  std::shared_ptr<const View> begun;
  std::string what;
  std::vector<std::byte> taken;                     // Out of shared memory, once that has been waited for.
  std::list<StoreUnderWay>::iterator underWay = {}; // Of a store.
};

/// Operations that have been begun and are waited for by group, the oldest first.
template <typename T>
struct Groups {
  std::deque<std::vector<T>> committed;
  std::vector<T> open;

  void commit() {
    committed.push_back(std::move(open));
    open.clear();
  }
};

/// Where threads meet. A meeting is over when as many have come as are expected.
struct Meeting {
  unsigned arrived = 0, generation = 0;
  View gathered, published;
};

/// An object of `mbarrier`, whose phases end when as many have arrived, and as many bytes, as are expected.
struct PhaseBarrier {
  unsigned expected, pending;
  int64_t bytes = 0;
  uint64_t phase = 0;
  Agent agent;      // On whose account it is that copies into shared memory write.
  Time initialized; // By `by`.
  Agent by;
  bool valid = true;   // Until mbarrier.inval.
  bool fenced = false; // Whether its initialization is made known to other blocks and the asynchronous proxy.
  View gathered, published;
  /// Of what is gathered, and of what was published, what waits learn whose scope is the block, and a wider one. Where
  /// all arrivals are of the barrier's own block, both learn all of it, and these are left out.
  struct Scoped {
    Clock own, wide;
  };
  std::optional<Scoped> gatheredBy, publishedBy;

  /// Adds what an arriving thread knows.
  void gather(const View &view, bool isRemote, uint32_t scope) {
    if (isRemote && !gatheredBy)
      gatheredBy = Scoped{gathered.safely(), gathered.safely()};
    if (gatheredBy && !isRemote)
      gatheredBy->own.join(view.safely());
    if (gatheredBy && (!isRemote || scope > ofBlock))
      gatheredBy->wide.join(view.safely());
    gathered.join(view);
  }

  /// Adds that a copy is made.
  void gather(Agent copier, Time time) {
    gathered.learn(copier, time);
    if (gatheredBy)
      for (Clock *clock : {&gatheredBy->own, &gatheredBy->wide})
        (*clock)[copier] = std::max((*clock)[copier], time);
  }

  /// What a wait of a scope learns whatever other scopes there are.
  const Clock &publishedTo(uint32_t scope) const {
    return !publishedBy ? published.safely() : scope > ofBlock ? publishedBy->wide : publishedBy->own;
  }
};

/// Threads of a warp, or of four, that have come to do something together.
struct Gathering {
  std::string_view name;
  uint64_t members[2] = {0, 0};
  unsigned count = 0;
  std::vector<const Operation *> operations;
  std::vector<bool *> done;
};

struct Thread {
  Block *block;
  unsigned index; // In the block.
  Agent agent;    // In the cluster.
  View view;
  Groups<Copy> copies;
  Groups<BoxCopy> stores;
  std::deque<Time> products;   // Of each committed group of wgmma, its last one.
  bool productsFenced = false; // Whether wgmma may take the registers as they are now.
  View barriersFenced;         // What it knew when it last fenced initializations of barrier objects.
  unsigned clusterGeneration = 0;
  std::shared_ptr<const View> fenced;         // What it knew at its last fence behind a wait, for tensor memory.
  Time loaded = 0;                            // Up to which load from tensor memory it has waited for.
  Released released;                          // What it had done at its last fences.
  std::map<const std::byte *, Message> taken; // With values that it has loaded, until a fence makes them known to it.
  const Site *site = nullptr;                 // What it executes.
  struct {
    const Site *site = nullptr;
    const std::byte *address = nullptr;
    uint64_t value = 0;
  } looked; // What it saw at its last atomic operation, or load that others' stores are meant for.

  ucontext_t context;
  std::unique_ptr<std::byte[]> stack;
  bool touchedMemory = false; // Whether it has begun an access to global memory.
  bool finished = false;
  bool polls = false; // Whether it has let others run because it sees the same value again and again.
  const char *waitsFor = nullptr;
  bool (*isReady)(const void *) = nullptr; // Whether what it waits for has come.
  const void *readiness = nullptr;

  unsigned lane() const { return index % warpThreads; }
  unsigned warp() const { return index / warpThreads; }

  /// Everything that the thread has done is done for those who join with its view; what it does next is not.
  void release() {
    view.learn(agent, view.generic[agent] + 1);
    kept.reset();
  }

  /// Learns what `other` knows.
  void acquire(const View &other) { acquire(other, other.safely()); }
  void acquire(const View &other, const Clock &otherScoped) {
    view.join(other, otherScoped);
    kept.reset();
  }

  /// What is written is now known to the asynchronous proxy.
  void fenceProxy() {
    view.proxied.join(view.generic);
    release();
  }

  /// The view as it is now.
  std::shared_ptr<const View> snapshot() {
    if (!kept)
      kept = std::make_shared<const View>(view);
    return kept;
  }

  /// Lets others run until `condition()` holds.
  template <typename Condition>
  void wait(const char *what, const Condition &condition) {
    if (condition())
      return;
    waitsFor = what;
    readiness = &condition;
    isReady = [](const void *state) { return (*static_cast<const Condition *>(state))(); };
    leave();
    waitsFor = nullptr;
    isReady = nullptr;
  }

  /// Lets others run: what it waits for is a value in memory.
  void poll() {
    polls = true;
    leave();
    polls = false;
  }

  std::string name() const;
  /// The same with what it does, or has begun, and in which line of the source: "block 0: thread 1, storing at line
  /// 3,".
  std::string doing(const char *what) const;

private:
  void leave();

  std::shared_ptr<const View> kept;
};

struct Block {
  Cluster *cluster;
  unsigned rank;
  std::array<unsigned, 3> index;
  SharedMemory shared;
  TensorMemory tensor;
  std::vector<Thread> threads;
  std::map<unsigned, Meeting> meetings;
  std::map<unsigned, std::vector<Gathering>> gatherings; // By warp; those of four warps by theirs and `fourWarps`.
  std::map<Agent, Time> visits;                          // By agents of other blocks, when last.
  View ended;                                            // What its threads knew that have ended.
  size_t endedThreads = 0;

  static constexpr unsigned fourWarps = 1 << 16;
};

/// A launch's kernel, sizes and operands.
struct Grid {
  void (*kernel)(void **);
  void **arguments;
  std::array<unsigned, 3> blocks, threads, cluster;
  size_t sharedBytes;
  const Buffer *buffers;
  unsigned bufferCount;
  unsigned seed;
  BankCounts *counts; // Null: nothing is counted.
  Trace *trace;       // Null: there is none.

  unsigned threadCount() const { return threads[0] * threads[1] * threads[2]; }
  unsigned clusterBlocks() const { return cluster[0] * cluster[1] * cluster[2]; }
};

/// The operations came to no end, or one of them is not known: nothing more of the launch is run.
class Failure : public std::exception {
public:
  explicit Failure(std::string text) : text(std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }

private:
  std::string text;
};

class Cluster {
public:
  Cluster(const Grid &grid, unsigned number, std::array<unsigned, 3> first, std::byte *arena, GlobalMemory &global,
          Report &report);

  /// Runs all threads to their end. Throws Failure.
  void run();

  /// Gives the host's thread to the others until `thread` can go on.
  void leave(Thread &thread);
  /// Ends the launch; called in a fiber.
  [[noreturn]] void fail(Thread &thread, const std::string &what);

  /// The block in whose shared memory `address` is; null when it is in none.
  Block *owner(const void *address);
  /// `address`, which is in the shared memory of some block, in that of block number `rank`.
  std::byte *inBlock(const void *address, unsigned rank);
  /// PTX's 32-bit address of a place in the cluster's shared memory, or all ones, and the place of one.
  uint32_t toShared(const std::byte *place) { return owner(place) ? static_cast<uint32_t>(place - arena) : ~0U; }
  std::byte *fromShared(uint32_t address) { return arena + address; }
  static size_t offset(const void *address) { return reinterpret_cast<uintptr_t>(address) % sharedPitch; }

  /// Ends the launch, as a card does, where an address is no multiple of the bytes that are moved at once.
  void checkAligned(Thread &thread, const void *address, size_t alignment, const char *what);
  /// An access by `thread` to memory of any kind.
  void access(Thread &thread, const std::byte *address, size_t bytes, uint32_t kind, uint32_t strength = 0);
  /// Counts an access to shared memory by the instruction that the thread executes.
  void countAccess(const Thread &thread, const std::byte *address, size_t bytes, bool atomic);
  /// What an access means to other threads that is made to be seen by them; or lets them run where it sees the same
  /// value again.
  void synchronize(Thread &thread, const Site &site, const std::byte *address, size_t bytes);
  /// A fence: what the thread did is told by the values that it stores from now on, and it learns what was told by
  /// those that it has loaded.
  void fence(Thread &thread, uint32_t scope);
  /// Reports bytes of global memory that are outside of all operands, or are written and may only be read.
  bool checkGlobal(const Thread *thread, const std::byte *address, size_t bytes, bool writes, const std::string &what);

  /// Judges stores that have been made since they were announced.
  void settleStores() {
    for (Block &block : blocks)
      block.shared.settle();
  }

  /// Reports an access to global memory that a bulk store may not have written yet.
  void checkStored(const std::byte *address, size_t bytes, const std::string &what);
  /// Records who wrote to global memory: an agent of the cluster, from one of its times to another.
  void record(const std::byte *address, size_t bytes, Agent agent, Time begun, Time done);
  /// Reports a load of what another thread wrote where fences and operations order the two, but not by scopes wide
  /// enough, or behind a wait for a bulk store's reads only.
  void checkWritten(const Thread &thread, const std::byte *address, size_t bytes);

  /// Records that `agent`, which is not of `block`, touches its shared memory: it must not have ended by then.
  void visit(Block &block, Agent agent, Time time);
  /// Records that a thread has ended; of a block's last one, reports visits that may come later.
  void end(Thread &thread);

  PhaseBarrier &barrier(Thread &thread, const std::byte *address);
  /// The same for what another block or the asynchronous proxy does with it.
  PhaseBarrier &fencedBarrier(Thread &thread, const std::byte *address);
  /// Makes initializations by `thread` known to other blocks and the asynchronous proxy.
  void fenceBarriers(const Thread &thread);
  /// The object at `address`, which is one.
  PhaseBarrier &barrierAt(const std::byte *address) { return barriers.at(address); }
  void initialize(Thread &thread, std::byte *address, unsigned expected);
  void invalidate(Thread &thread, std::byte *address) { barrier(thread, address).valid = false; }
  void settle(PhaseBarrier &barrier);

  /// Agents that stand for what a thread, or its warp group, has begun.
  Agent copier(const Thread &thread) const { return threads + thread.agent; }
  Agent storer(const Thread &thread) const { return 2 * threads + thread.agent; }
  Agent multiplier(const Thread &thread) const { return 3 * threads + thread.agent / warpGroupThreads; }
  Agent tensorMultiplier(const Thread &thread) const { return firstOfWarps() + 2 * (thread.agent / warpThreads); }
  Agent tensorLoader(const Thread &thread) const { return tensorMultiplier(thread) + 1; }

  /// Adds an event to the trace, if there is one and the thread is the first of its warp.
  void trace(const Thread &thread, EventKind kind, uint64_t key, uint64_t amount) const {
    if (grid.trace && thread.lane() == 0)
      grid.trace->add(thread.agent / warpThreads, kind, key, amount);
  }
  /// The same of one that is part of a meeting: the generation of something that has an address, or a number in a
  /// block.
  void traceMeeting(const Thread &thread, EventKind kind, uint64_t place, uint64_t generation,
                    uint64_t amount = 0) const {
    if (grid.trace && thread.lane() == 0)
      trace(thread, kind, grid.trace->meeting(place, generation), amount);
  }

  std::string agentName(Agent agent) const;

  const Grid &grid;
  unsigned number; // In the grid.
  GlobalMemory &global;
  Report &report;
  std::deque<Block> blocks;
  std::deque<BoxCopy> loads;                    // Begun, and not made yet: they are made when nothing else can go on.
  std::deque<TensorOperation> tensorOperations; // Likewise; each thread's in order.
  std::deque<CopyArrival> copyArrivals;         // Likewise.
  unsigned tensorGroup = 0;                     // Blocks that tcgen05 instructions are of, once there was one.
  Meeting meeting;
  std::list<StoreUnderWay> stores; // Bulk stores that nobody knows to be complete.
  std::vector<Buffer> variables;   // The module's own, in global memory.
  std::vector<Time> laneTimes;     // Of the agents that are no threads.

private:
  PhaseBarrier &initialized(Thread &thread, const std::byte *address);
  void runThreads();
  void completeOldest();
  void take(Thread &thread, const Message &message, uint32_t scope);
  std::map<const std::byte *, Message> &messagesAt(const std::byte *address) {
    return owner(address) ? messages : global.messages;
  }
  Agent firstOfWarps() const { return 3 * threads + threads / warpGroupThreads + 1; }
  Agent firstOfBarriers() const { return firstOfWarps() + 2 * (threads / warpThreads + 1); }
  void start(Thread &thread);
  static void enter(unsigned high, unsigned low);

  unsigned threads;
  std::map<const std::byte *, PhaseBarrier> barriers;
  std::map<const std::byte *, Message> messages; // In shared memory.
  std::byte *arena;
  ucontext_t scheduler;
  std::string failure;
  std::minstd_rand random;
};

/// The thread that runs now.
Thread *running();

/// Completes the bulk stores of a thread that are under way when all threads have ended. Throws Failure.
void finishStores(Thread &thread);

/// Makes a box copy; for those into shared memory, tells the barriers.
void loadBox(Cluster &cluster, const BoxCopy &copy);

/// Makes the copies, and arrives.
void complete(const CopyArrival &arrival);

/// Makes a product whose sums are in tensor memory, or tells a barrier object that those before are complete. Throws
/// Failure.
void complete(Cluster &cluster, const TensorOperation &operation);

/// Performs an operation, whatever it takes. Throws nothing: what cannot be done ends the launch.
using Handler = void (*)(Thread &, const Operation &);
Handler findHandler(std::string_view name);

// By subject, the rows that findHandler() looks through: what a name begins with, or, where it starts with a dot,
// contains.
struct Row {
  std::string_view pattern;
  Handler handler;
};
extern const std::vector<Row> registerRows, synchronizationRows, copyRows, warpRows, warpGroupRows, tensorRows,
    floatRows;

/// Performs `action` for all of the threads in `mask` of the warp (or of four) of `thread`, when they have come
/// together.
template <typename Action>
void together(Thread &thread, const Operation &operation, unsigned size, uint64_t low, uint64_t high,
              const Action &action) {
  unsigned group = thread.index / size;
  auto &gatherings = thread.block->gatherings[size == warpThreads ? group : Block::fourWarps + group];
  auto found = std::find_if(gatherings.begin(), gatherings.end(), [&](const Gathering &each) {
    return each.name == operation.name && each.members[0] == low && each.members[1] == high &&
           !each.operations[thread.index % size];
  });
  if (found == gatherings.end()) {
    Gathering fresh;
    fresh.name = operation.name;
    fresh.members[0] = low;
    fresh.members[1] = high;
    fresh.operations.resize(size);
    fresh.done.resize(size);
    found = gatherings.insert(gatherings.end(), std::move(fresh));
  }
  bool done = false;
  found->operations[thread.index % size] = &operation;
  found->done[thread.index % size] = &done;
  unsigned wanted = static_cast<unsigned>(__builtin_popcountll(low) + __builtin_popcountll(high));
  if (++found->count < wanted) {
    thread.wait("the other threads of its warp or warp group", [&] { return done; });
    return;
  }
  Gathering complete = std::move(*found);
  gatherings.erase(found);
  action(complete.operations, &thread.block->threads[group * size]);
  for (bool *flag : complete.done)
    if (flag)
      *flag = true;
}

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_MACHINE_H
