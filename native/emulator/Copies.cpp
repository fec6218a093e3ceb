// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies that go on by themselves. Each is made as late as may be: when it is waited for, or when nothing else can go
// on.

#include "Machine.h"

using namespace tilewright::emulator;

namespace {

// cp.async: of each thread, in order.

void begin(Thread &thread, const Operation &operation) {
  thread.touchedMemory = true;
  // ...shared.global.BYTES, or with the bytes that are read as a third operand; the rest is zero.
  std::string_view name = operation.name.substr(operation.name.find("global.") + strlen("global."));
  auto bytes = static_cast<size_t>(std::atoi(name.data()));
  size_t read = operation.count > 2 ? operation.operand<unsigned>(2) : bytes;
  // Also of copies that read nothing. Source: PTX ISA, cp.async.
  for (unsigned place : {0, 1})
    thread.block->cluster->checkAligned(thread, operation.operand<std::byte *>(place), bytes, "a cp.async");
  thread.block->cluster->countAccess(thread, operation.operand<std::byte *>(0), bytes, /*atomic=*/false);
  thread.block->cluster->trace(thread, copied, 0, bytes * warpThreads);
  thread.copies.open.push_back({operation.operand<std::byte *>(0), operation.operand<const std::byte *>(1),
                                std::min(read, bytes), bytes, thread.snapshot(), operation.site->line});
}

void complete(Thread &thread, const Copy &copy) {
  Cluster &cluster = *thread.block->cluster;
  std::string what = thread.name() + ", a cp.async" + (copy.line ? " at line " + std::to_string(copy.line) : "") + ",";
  if (copy.bytes && !cluster.checkGlobal(&thread, copy.from, copy.bytes, false, what))
    cluster.fail(thread, "a cp.async from outside of the operands");
  Block *block = cluster.owner(copy.to);
  if (!block || Cluster::offset(copy.to) + copy.filled > block->shared.size())
    cluster.fail(thread, "a cp.async to outside of shared memory");
  Agent agent = cluster.copier(thread);
  block->shared.write(Cluster::offset(copy.to), copy.filled,
                      {agent, ++cluster.laneTimes[agent], *copy.begun, false, what});
  cluster.checkStored(copy.from, copy.bytes, what);
  std::memcpy(copy.to, copy.from, copy.bytes);
  std::memset(copy.to + copy.bytes, 0, copy.filled - copy.bytes);
}

/// Until no more than `left` groups are under way.
void finish(Thread &thread, size_t left) {
  auto &arrivals = thread.block->cluster->copyArrivals; // Which are of earlier groups.
  for (auto arrival = arrivals.begin(); arrival != arrivals.end();) {
    if (arrival->thread != &thread) {
      ++arrival;
      continue;
    }
    complete(*arrival);
    arrival = arrivals.erase(arrival);
  }
  Agent agent = thread.block->cluster->copier(thread);
  for (; thread.copies.committed.size() > left; thread.copies.committed.pop_front())
    for (const Copy &copy : thread.copies.committed.front())
      complete(thread, copy);
  thread.view.learn(agent, thread.block->cluster->laneTimes[agent]);
  thread.release();
}

void commit(Thread &thread, const Operation &) {
  thread.block->cluster->trace(thread, copiesCommit, 0, 0);
  thread.copies.commit();
}
void waitGroup(Thread &thread, const Operation &operation) {
  thread.block->cluster->trace(thread, copiesWait, 0, operation.operand<unsigned>(0));
  finish(thread, operation.operand<unsigned>(0));
}
void waitAll(Thread &thread, const Operation &) {
  thread.block->cluster->trace(thread, copiesCommit, 0, 0);
  thread.block->cluster->trace(thread, copiesWait, 0, 0);
  thread.copies.commit();
  finish(thread, 0);
}

/// An arrival at a barrier object when all copies so far are made; but for .noinc, it is one more than expected.
void arriveBehind(Thread &thread, const Operation &operation) {
  Cluster &cluster = *thread.block->cluster;
  CopyArrival arrival{&thread, {}, operation.operand<std::byte *>(0)};
  PhaseBarrier &barrier = cluster.barrier(thread, arrival.barrier);
  if (operation.name.find(".noinc") == std::string_view::npos) // LLVM's name goes on with where the object is.
    ++barrier.pending;
  thread.copies.commit();
  for (const std::vector<Copy> &group : thread.copies.committed)
    arrival.copies.insert(arrival.copies.end(), group.begin(), group.end());
  thread.copies.committed.clear();
  cluster.copyArrivals.push_back(std::move(arrival));
}

// Boxes of tensors.

uint64_t swizzled(uint64_t address, uint32_t swizzle, uint32_t atom) {
  if (atom == 32) // Of 128 bytes: four rows are a pattern.
    return address ^ (((address >> 7) & 3) << 5);
  uint64_t mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return address ^ (((address >> 7) & mask) << 4);
}

/// The address of an element of a tensor, or null when that is outside.
std::byte *placeOf(const TensorMap &map, const std::array<int64_t, 5> &position) {
  std::byte *address = map.base;
  for (uint32_t axis = 0; axis < map.rank; ++axis) {
    if (position[axis] < 0 || static_cast<uint64_t>(position[axis]) >= map.extents[axis])
      return nullptr;
    address += static_cast<uint64_t>(position[axis]) * map.strides[axis];
  }
  return address;
}

/// Calls action(where in the box, address in the images or null when outside) for each element of patches, channels
/// first. Pixels follow each other by the steps of columns, of rows behind the last column, and of images.
template <typename Action>
void forEachOfPatches(const TensorMap &map, const std::array<int32_t, 5> &at, const std::array<uint16_t, 2> &offsets,
                      const Action &action) {
  std::array<int64_t, 5> first{at[0], at[1], at[2], at[3]};
  uint64_t where = 0;
  for (uint32_t pixel = 0; pixel < map.pixels; ++pixel) {
    for (uint32_t channel = 0; channel < map.box[0]; ++channel, where += map.elementBytes)
      action(where, placeOf(map, {first[0] + channel, first[1] + offsets[0], first[2] + offsets[1], first[3]}));
    uint32_t axis = 0;
    for (; axis < 2; ++axis) {
      int64_t &place = first[axis + 1];
      place += map.steps[axis];
      if (place <= static_cast<int64_t>(map.extents[axis + 1]) - 1 + map.upper[axis])
        break;
      place = map.lower[axis];
    }
    first[3] += axis == 2;
  }
}

/// Calls action(where in the box, address in the tensor or null when outside) for each element, the innermost extent
/// first.
template <typename Action>
void forEach(const TensorMap &map, const std::array<int32_t, 5> &at, const Action &action) {
  std::array<uint32_t, 5> index{};
  uint64_t count = 1;
  for (uint32_t axis = 0; axis < map.rank; ++axis)
    count *= map.box[axis];
  for (uint64_t element = 0; element < count; ++element) {
    std::array<int64_t, 5> position{};
    for (uint32_t axis = 0; axis < map.rank; ++axis)
      position[axis] = int64_t{at[axis]} + index[axis];
    action(element * map.elementBytes, placeOf(map, position));
    for (uint32_t axis = 0; axis < map.rank && ++index[axis] == map.box[axis]; ++axis)
      index[axis] = 0;
  }
}

/// What a card is taken to store at once, and never a part of: on an H200, bytes behind rows of other lengths changed,
/// and behind rows of whole pieces none.
constexpr uint64_t pieceBytes = 16;

uint64_t boxBytes(const TensorMap &map) {
  uint64_t bytes = map.elementBytes;
  if (map.pixels)
    return bytes * map.box[0] * map.pixels;
  for (uint32_t axis = 0; axis < map.rank; ++axis)
    bytes *= map.box[axis];
  return bytes;
}

/// The element in shared memory that is `where` bytes into a box at `box`.
std::byte *element(std::byte *box, uint64_t where, const TensorMap &map) {
  return reinterpret_cast<std::byte *>(swizzled(reinterpret_cast<uintptr_t>(box) + where, map.swizzle, map.atom));
}

/// The axes of a tensor operation, from the 2 of "...tile.2d".
unsigned axes(std::string_view name) { return static_cast<unsigned>(name[name.rfind('d') - 1] - '0'); }

BoxCopy describe(Thread &thread, const Operation &operation, unsigned map, unsigned shared) {
  BoxCopy copy{};
  copy.map = operation.operand<const TensorMapHandle *>(map)->map;
  copy.shared = operation.operand<std::byte *>(shared);
  unsigned rank = axes(operation.name);
  if (rank != copy.map->rank)
    thread.block->cluster->fail(thread, "a box copy of " + std::to_string(rank) + " axes of a tensor of " +
                                            std::to_string(copy.map->rank));
  for (unsigned axis = 0; axis < rank; ++axis)
    copy.at[axis] = operation.operand<int32_t>(map + 1 + axis);
  bool ofPatches = operation.name.find(".im2col") != std::string_view::npos;
  if (ofPatches != (copy.map->pixels != 0) || (ofPatches && rank != 4))
    thread.block->cluster->fail(thread, ofPatches
                                            ? "a copy of patches (im2col) by the map of a tensor, or of images of "
                                              "other axes than rows and columns"
                                            : "a box copy of a tensor by a map of images (im2col)");
  for (unsigned axis = 0; ofPatches && axis < 2; ++axis)
    copy.offsets[axis] = operation.operand<uint16_t>(map + 1 + rank + axis);
  size_t alignment = copy.map->swizzle ? copy.map->swizzle * 8 : 128;
  if (Cluster::offset(copy.shared) % (copy.map->swizzle ? 128 : alignment))
    thread.block->cluster->fail(thread, "a box copy whose place in shared memory is not aligned to 128 bytes");
  copy.begun = thread.snapshot();
  copy.what = thread.doing("a bulk copy");
  return copy;
}

/// The barrier object that a load into block number `rank` tells.
std::byte *barrierIn(Cluster &cluster, const BoxCopy &copy, unsigned rank) {
  return copy.ofPair ? copy.barrier : cluster.inBlock(copy.barrier, rank);
}

void load(Thread &thread, const Operation &operation) {
  thread.touchedMemory = true;
  // (place, barrier, map, coordinates..., offsets of patches, blocks, hint, to several?, hinted?, blocks of tcgen05)
  BoxCopy copy = describe(thread, operation, 2, 0);
  copy.barrier = operation.operand<std::byte *>(1);
  unsigned after = 3 + copy.map->rank + (copy.map->pixels ? 2 : 0);
  bool toSeveral = operation.operand<unsigned>(after + 2) != 0;
  auto mask = operation.operand<uint16_t>(after);
  for (const Block &block : thread.block->cluster->blocks)
    if (toSeveral ? (mask >> block.rank) & 1 : block.rank == thread.block->rank)
      copy.blocks.push_back(block.rank);
  // Behind these, for how many blocks tcgen05 instructions are that wait for it: the barrier object of one for two may
  // be in either.
  copy.ofPair = operation.count > after + 4 && operation.operand<unsigned>(after + 4) == 2;
  const Block *told = thread.block->cluster->owner(copy.barrier);
  if (copy.ofPair && (toSeveral || !told || told->rank / 2 != thread.block->rank / 2))
    thread.block->cluster->fail(thread, "a bulk copy with cta_group::2 to several blocks, which the emulator does not "
                                        "know, or that tells a block outside of the pair");
  for (unsigned rank : copy.blocks)
    thread.block->cluster->fencedBarrier(thread, barrierIn(*thread.block->cluster, copy, rank));
  thread.release();
  for (unsigned rank : copy.blocks) {
    const std::byte *barrier = barrierIn(*thread.block->cluster, copy, rank);
    thread.block->cluster->traceMeeting(thread, rank == copy.blocks.front() ? loadedBox : loadedToOther,
                                        reinterpret_cast<uintptr_t>(barrier),
                                        thread.block->cluster->barrierAt(barrier).phase, boxBytes(*copy.map));
  }
  thread.block->cluster->loads.push_back(std::move(copy));
}

void store(Thread &thread, const Operation &operation) {
  thread.touchedMemory = true;
  // (place, map, coordinates..., hint, hinted?)
  BoxCopy copy = describe(thread, operation, 1, 0);
  if (!thread.block->cluster->owner(copy.shared))
    thread.block->cluster->fail(thread, "a bulk store from outside of shared memory");
  const TensorMap &map = *copy.map;
  if (map.extents[0] * map.elementBytes % pieceBytes != 0 && int64_t{copy.at[0]} + map.box[0] > int64_t(map.extents[0]))
    thread.block->cluster->fail(thread, "a bulk store of rows of " + std::to_string(map.extents[0] * map.elementBytes) +
                                            " bytes, which are no pieces of 16: a card writes behind them");
  Time now = thread.view.generic[thread.agent];
  StoreUnderWay under{nullptr, nullptr, copy.map, copy.at, thread.agent};
  forEach(*copy.map, copy.at, [&](uint64_t, const std::byte *address) {
    if (!address)
      return;
    under.first = under.first ? std::min(under.first, address) : address;
    under.last = std::max(under.last, address + copy.map->elementBytes);
    thread.block->cluster->record(address, copy.map->elementBytes, thread.agent, now, Written::never);
  });
  auto &stores = thread.block->cluster->stores;
  copy.underWay = stores.insert(stores.end(), under);
  thread.block->cluster->trace(thread, storedBox, 0, boxBytes(*copy.map));
  thread.stores.open.push_back(std::move(copy));
}

/// Takes a box out of shared memory, which is free for other things then.
void take(Thread &thread, BoxCopy &copy) {
  if (!copy.taken.empty())
    return;
  Cluster &cluster = *thread.block->cluster;
  Agent agent = cluster.storer(thread);
  Toucher who{agent, ++cluster.laneTimes[agent], *copy.begun, true, copy.what};
  SharedMemory &shared = cluster.owner(copy.shared)->shared;
  copy.taken.resize(boxBytes(*copy.map));
  // What lies outside of the tensor, such as padding, is not looked at.
  forEach(*copy.map, copy.at, [&](uint64_t where, const std::byte *address) {
    if (!address)
      return;
    const std::byte *from = element(copy.shared, where, *copy.map);
    shared.read(Cluster::offset(from), copy.map->elementBytes, who);
    std::memcpy(&copy.taken[where], from, copy.map->elementBytes);
  });
}

/// Makes a store, behind a wait or because all threads have ended.
void complete(Thread &thread, BoxCopy &copy, bool isWaitedFor) {
  Cluster &cluster = *thread.block->cluster;
  Time now = thread.view.generic[thread.agent];
  take(thread, copy);
  cluster.stores.erase(copy.underWay);
  forEach(*copy.map, copy.at, [&](uint64_t where, std::byte *address) {
    if (!address)
      return;
    if (cluster.checkGlobal(&thread, address, copy.map->elementBytes, true, copy.what))
      std::memcpy(address, &copy.taken[where], copy.map->elementBytes);
    if (isWaitedFor)
      cluster.record(address, copy.map->elementBytes, thread.agent, now, now);
  });
}

void commitBulk(Thread &thread, const Operation &) {
  thread.block->cluster->trace(thread, storesCommit, 0, 0);
  thread.stores.commit();
}

/// Until all but the last so many groups are complete; with .read, until they have read shared memory.
void waitBulk(Thread &thread, const Operation &operation) {
  Agent agent = thread.block->cluster->storer(thread);
  auto &groups = thread.stores.committed;
  auto left = operation.operand<unsigned>(0);
  thread.block->cluster->trace(thread, storesWait, operation.name.ends_with(".read"), left);
  if (operation.name.ends_with(".read")) {
    for (size_t group = 0; group + left < groups.size(); ++group)
      for (BoxCopy &copy : groups[group])
        take(thread, copy);
  } else {
    for (; groups.size() > left; groups.pop_front())
      for (BoxCopy &copy : groups.front())
        complete(thread, copy, /*isWaitedFor=*/true);
  }
  thread.view.learn(agent, thread.block->cluster->laneTimes[agent]);
  thread.release();
}

} // namespace

void tilewright::emulator::finishStores(Thread &thread) {
  for (std::vector<BoxCopy> &group : thread.stores.committed)
    for (BoxCopy &copy : group)
      ::complete(thread, copy, /*isWaitedFor=*/false);
}

void Cluster::checkStored(const std::byte *address, size_t bytes, const std::string &what) {
  for (const StoreUnderWay &store : stores) {
    if (address >= store.last || address + bytes <= store.first)
      continue;
    bool touches = false;
    forEach(*store.map, store.at, [&](uint64_t, const std::byte *stored) {
      touches |= stored && stored < address + bytes && address < stored + store.map->elementBytes;
    });
    if (touches)
      report.add("unwaited: " + what + " touches global memory that a bulk store of " + agentName(store.by) +
                 " writes, which nobody has waited for (cp.async.bulk.wait_group.read waits for shared memory only)");
  }
}

void tilewright::emulator::complete(const CopyArrival &arrival) {
  Cluster &cluster = *arrival.thread->block->cluster;
  PhaseBarrier &barrier = cluster.barrierAt(arrival.barrier);
  for (const Copy &copy : arrival.copies)
    ::complete(*arrival.thread, copy);
  if (!barrier.pending)
    throw Failure("more arrivals at an mbarrier than it expects, by cp.async.mbarrier.arrive");
  Agent agent = cluster.copier(*arrival.thread);
  barrier.gather(agent, cluster.laneTimes[agent]);
  --barrier.pending;
  cluster.settle(barrier);
}

void tilewright::emulator::loadBox(Cluster &cluster, const BoxCopy &copy) {
  uint64_t bytes = boxBytes(*copy.map);
  for (unsigned rank : copy.blocks) {
    std::byte *place = cluster.inBlock(copy.shared, rank);
    SharedMemory &shared = cluster.owner(place)->shared;
    auto &barrier = cluster.barrierAt(barrierIn(cluster, copy, rank));
    Time time = ++cluster.laneTimes[barrier.agent];
    if (copy.blocks.size() > 1 || copy.ofPair)
      cluster.visit(*cluster.owner(copy.ofPair ? copy.barrier : place), barrier.agent, time);
    shared.write(Cluster::offset(place), bytes, {barrier.agent, time, *copy.begun, true, copy.what});
    if (Cluster::offset(place) + bytes > shared.size())
      throw Failure("a bulk load to outside of shared memory");
    auto bring = [&](uint64_t where, std::byte *address) {
      std::byte *to = element(place, where, *copy.map);
      if (!address)
        std::memset(to, 0, copy.map->elementBytes);
      else if (cluster.checkGlobal(nullptr, address, copy.map->elementBytes, false, copy.what))
        std::memcpy(to, address, copy.map->elementBytes);
      else
        throw Failure("a bulk load from outside of the operands");
      if (address && !cluster.stores.empty())
        cluster.checkStored(address, copy.map->elementBytes, copy.what);
    };
    if (copy.map->pixels)
      forEachOfPatches(*copy.map, copy.at, copy.offsets, bring);
    else
      forEach(*copy.map, copy.at, bring);
    barrier.gather(barrier.agent, time);
    barrier.bytes -= static_cast<int64_t>(bytes);
    cluster.settle(barrier);
  }
}

const std::vector<Row> tilewright::emulator::copyRows = {
    {"cp.async.ca.shared.global", begin},     {"cp.async.cg.shared.global", begin},
    {"cp.async.commit.group", commit},        {"cp.async.wait.group", waitGroup},
    {"cp.async.wait.all", waitAll},           {"cp.async.mbarrier.arrive", arriveBehind},
    {"cp.async.bulk.tensor.g2s.tile", load},  {"cp.async.bulk.tensor.g2s.im2col", load},
    {"cp.async.bulk.tensor.s2g.tile", store}, {"cp.async.bulk.commit.group", commitBulk},
    {"cp.async.bulk.wait.group", waitBulk},
};
