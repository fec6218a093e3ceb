// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of matrices in shared memory, with sums in tensor memory, that one thread begins; and how their sums come to
// registers. Source of all layouts: the PTX ISA manual, "TensorCore 5th Generation Family Instructions".

#include "Elements.h"
#include "Machine.h"
#include "SharedMatrix.h"

#include <charconv>

using namespace tilewright::emulator;

namespace {

using Members = std::vector<const Operation *>;
constexpr uint64_t everyLane = 0xffffffff;
constexpr unsigned leastColumns = 32;
constexpr unsigned depthBytes = 32; // Of a row of A that one instruction multiplies.

std::string who(const Thread &thread, const char *what) { return thread.name() + ", " + what + ","; }

/// Checks of how many blocks an instruction is: all of a kernel are of as many, and pairs are blocks of even rank with
/// the next one. Source: the PTX ISA manual, "CTA Pair".
void checkGroup(Thread &thread, unsigned group) {
  Cluster &cluster = *thread.block->cluster;
  if (group == 2 && cluster.blocks.size() % 2)
    cluster.fail(thread, "a tcgen05 instruction with cta_group::2 in a cluster of " +
                             std::to_string(cluster.blocks.size()) + " blocks; expected pairs of them");
  if (cluster.tensorGroup && cluster.tensorGroup != group)
    cluster.fail(thread, "tcgen05 instructions with cta_group::1 and with cta_group::2 in one kernel; expected one");
  cluster.tensorGroup = group;
}

/// The same for one whose name says it.
unsigned groupIn(Thread &thread, const Operation &operation) {
  unsigned group = operation.name.ends_with("cg2") || operation.name.find(".cg2.") != std::string_view::npos ? 2 : 1;
  checkGroup(thread, group);
  return group;
}

/// Waits until the other block of the pair has come as often as this one to what both do together.
void awaitPeer(Thread &thread, unsigned TensorMemory::*times, const char *what) {
  const Block &block = *thread.block, &peer = block.cluster->blocks[block.rank ^ 1];
  unsigned own = block.tensor.*times;
  thread.wait(what, [&] { return peer.tensor.*times >= own; });
}

void allocate(Thread &thread, const Operation &operation) {
  unsigned group = groupIn(thread, operation);
  together(thread, operation, warpThreads, everyLane, 0, [](const Members &members, Thread *threads) {
    Block &block = *threads->block;
    Cluster &cluster = *block.cluster;
    auto count = members[0]->operand<unsigned>(1);
    if (count < leastColumns || count > TensorMemory::columns || (count & (count - 1)))
      cluster.fail(*running(),
                   "a tcgen05.alloc of " + std::to_string(count) + " columns; expected a power of two from 32 to 512");
    if (block.tensor.relinquished)
      cluster.fail(*running(), "a tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    std::optional<unsigned> first = block.tensor.allocate(threads->warp(), count);
    if (!first)
      cluster.fail(*running(), "a tcgen05.alloc of more columns than are left");
    auto *place = members[0]->operand<std::byte *>(0);
    cluster.access(*threads, place, sizeof(unsigned), aStore);
    std::memcpy(place, &*first, sizeof(unsigned));
    ++block.tensor.allocated;
  });
  if (group == 2)
    awaitPeer(thread, &TensorMemory::allocated, "the other block of its pair at a tcgen05.alloc");
}

void relinquish(Thread &thread, const Operation &operation) {
  groupIn(thread, operation);
  thread.block->tensor.relinquished = true;
}

/// What a thread knows of others' deeds in tensor memory: what it knew at its last fence behind a wait.
const View &fencedView(Thread &thread) {
  if (!thread.fenced)
    thread.fenced = std::make_shared<const View>(thread.block->cluster->laneTimes.size());
  return *thread.fenced;
}

void deallocate(Thread &thread, const Operation &operation) {
  unsigned group = groupIn(thread, operation);
  together(thread, operation, warpThreads, everyLane, 0, [](const Members &members, Thread *threads) {
    Block &block = *threads->block;
    Cluster &cluster = *block.cluster;
    auto first = members[0]->operand<unsigned>(0), count = members[0]->operand<unsigned>(1);
    Agent agent = cluster.tensorLoader(*threads);
    TensorToucher toucher{agent, ++cluster.laneTimes[agent], fencedView(*threads).generic,
                          who(*threads, "a tcgen05.dealloc")};
    block.tensor.touch(first, count, std::nullopt, toucher, true);
    std::string wrong = block.tensor.free(threads->warp(), first, count);
    if (!wrong.empty())
      cluster.fail(*running(), wrong);
    ++block.tensor.freed;
  });
  if (group == 2)
    awaitPeer(thread, &TensorMemory::freed, "the other block of its pair at a tcgen05.dealloc");
}

/// The types that a kind of instructions multiplies, by their numbers in the instruction's descriptor; and of sums.
struct Kind {
  std::array<std::string_view, 3> types;
  std::string_view sums;
};
// By LLVM's number of the kind.
constexpr std::array<Kind, 4> kinds{{
    {{"f16", "bf16", ""}, "f32"},
    {{"", "", "tf32"}, "f32"},
    {{"e4m3", "e5m2", ""}, "f32"},
    {{"u8", "s8", ""}, "s32"},
}};
constexpr std::array<std::string_view, 3> sumTypes{"f16", "f32", "s32"};

/// What an instruction's descriptor says.
struct Shape {
  const Element *a, *b;
  unsigned n, k;
  bool integers, aAcross, bAcross;
};

/// Reads the descriptor of an instruction of so many blocks. Throws Failure for what it must not say, or the emulator
/// does not know.
Shape shapeOf(unsigned kind, unsigned descriptor, unsigned group) {
  auto field = [&](unsigned low, unsigned bits) { return (descriptor >> low) & ((1U << bits) - 1); };
  auto wrong = [&](const std::string &what) {
    char text[16];
    std::snprintf(text, sizeof(text), "%08x", descriptor);
    return Failure("the instruction descriptor " + std::string(text) + " of a tcgen05.mma " + what);
  };
  // Sparse, saturating and negated products, and shifts; and bits that mean nothing.
  if (field(0, 4) || field(6, 1) || field(13, 2) || field(23, 1) || field(29, 3))
    throw wrong("sets bits that are 0 or that the emulator does not know");
  const Kind &row = kinds.at(kind);
  unsigned sums = field(4, 2), a = field(7, 3), b = field(10, 3);
  if (sums >= sumTypes.size() || sumTypes[sums] != row.sums)
    throw wrong("does not ask for sums of " + std::string(row.sums));
  if (a >= row.types.size() || b >= row.types.size() || row.types[a].empty() || row.types[b].empty())
    throw wrong("names types that its kind does not have");
  Shape shape{findElement(row.types[a]), findElement(row.types[b]), field(17, 6) * 8, 0,
              row.sums == "s32",         field(15, 1) != 0,         field(16, 1) != 0};
  shape.k = depthBytes * 8 / shape.a->bits;
  unsigned rows = group * TensorMemory::lanes, granule = group * 16;
  if (field(24, 5) * 16 != rows)
    throw wrong("has another number of rows than the " + std::to_string(rows) + " that the emulator knows");
  if (shape.n < granule || shape.n > 256 || shape.n % granule)
    throw wrong("has " + std::to_string(shape.n) + " columns; expected a multiple of " + std::to_string(granule) +
                " up to 256");
  return shape;
}

/// What the descriptor of a matrix in shared memory says.
SharedMatrix matrixOf(uint64_t descriptor, const Element &element, bool across) {
  auto field = [&](unsigned low) { return ((descriptor >> low) & 0x3fff) << 4; };
  auto swizzle = static_cast<unsigned>(descriptor >> 61);
  if (((descriptor >> 46) & 7) != 1 || (descriptor >> 49 & 0xfff) || (descriptor >> 14 & 3) || (descriptor >> 30 & 3))
    throw Failure(
        "the descriptor of a matrix for tcgen05.mma has no 1 at bits 46 to 48, or other bits that it must not, or "
        "the emulator does not know");
  bool isWide = swizzle == 1; // Which is for elements of 32 bits across K, and these need it.
  if (isWide != (across && element.bits == 32) || (swizzle % 2 && !isWide) || swizzle > 6 || (across && !swizzle))
    throw Failure(
        "the descriptor of a matrix for tcgen05.mma has a swizzle that does not go with its elements, or that "
        "the emulator does not know");
  unsigned pitch = isWide ? 128 : swizzle ? 256U >> swizzle / 2 : 16;
  return {field(0), field(16), field(32), pitch, element.bits / 8, across, isWide};
}

void multiply(Thread &thread, const Operation &operation) {
  Cluster &cluster = *thread.block->cluster;
  TensorOperation begun{};
  begun.agent = cluster.tensorMultiplier(thread);
  begun.block = thread.block->rank;
  begun.sums = operation.operand<unsigned>(0);
  begun.a = operation.operand<uint64_t>(1);
  begun.b = operation.operand<uint64_t>(2);
  begun.shape = operation.operand<unsigned>(3);
  begun.adds = operation.operand<unsigned>(4) != 0;
  begun.kind = operation.operand<unsigned>(5);
  begun.group = operation.operand<unsigned>(6);
  checkGroup(thread, begun.group);
  if (thread.block->rank % begun.group)
    cluster.fail(thread, "a tcgen05.mma with cta_group::2 that the second block of a pair begins; expected the first");
  begun.begun = thread.snapshot();
  fencedView(thread);
  begun.fenced = thread.fenced;
  begun.what = who(thread, "a tcgen05.mma");
  cluster.tensorOperations.push_back(std::move(begun));
}

/// Has barrier objects told, of this block, or of those of a mask, when all that the thread has begun is complete.
void commit(Thread &thread, const Operation &operation) {
  groupIn(thread, operation);
  Cluster &cluster = *thread.block->cluster;
  auto *barrier = operation.operand<std::byte *>(0);
  auto mask = operation.count > 1 ? operation.operand<uint16_t>(1) : uint16_t{1} << thread.block->rank;
  for (const Block &block : cluster.blocks)
    if ((mask >> block.rank) & 1) {
      TensorOperation begun{};
      begun.agent = cluster.tensorMultiplier(thread);
      begun.block = thread.block->rank;
      begun.barrier = cluster.inBlock(barrier, block.rank);
      cluster.fencedBarrier(thread, begun.barrier);
      cluster.tensorOperations.push_back(std::move(begun));
    }
}

/// The values of a matrix, of `count` rows (or columns, of B); what lies side by side is recorded at once.
std::vector<double> read(Block &block, const SharedMatrix &matrix, unsigned count, unsigned depth,
                         const Element &element, const Toucher &toucher) {
  std::vector<double> values(size_t{count} * depth);
  constexpr unsigned pieceBytes = 16;
  unsigned per = pieceBytes / matrix.bytes;
  for (unsigned index = 0; index < count; index += matrix.transposed ? per : 1)
    for (unsigned k = 0; k < depth; k += matrix.transposed ? 1 : per) {
      size_t offset = matrix.offset(index, k);
      if (offset + pieceBytes > block.shared.size())
        throw Failure("a tcgen05.mma that reads outside of shared memory");
      block.shared.read(offset, pieceBytes, toucher);
      for (unsigned each = 0; each < per; ++each) {
        uint64_t bits = 0;
        std::memcpy(&bits, block.shared.data() + offset + size_t{each} * matrix.bytes, matrix.bytes);
        size_t at = matrix.transposed ? size_t{index + each} * depth + k : size_t{index} * depth + k + each;
        values[at] = element.value(bits);
      }
    }
  return values;
}

/// Which lanes a warp reads, and how many columns, by a tcgen05.ld of a shape and as often as it says.
struct Loaded {
  unsigned lane, column, columns, lanes;
};

void loadAll(const Members &members, Thread *threads) {
  Block &block = *threads->block;
  Cluster &cluster = *block.cluster;
  const Operation &first = *members[0];
  std::string_view name = first.name.substr(strlen("tcgen05.ld."));
  bool isRows =
      name.starts_with("32x32b."); // A lane each; otherwise the fragments of matrices of 16 lanes by 8 columns.
  if (!isRows && !name.starts_with("16x256b."))
    cluster.fail(*running(), "the emulator does not know " + std::string(first.name));
  unsigned times = 0;
  size_t x = name.find(".x") + 2;
  std::from_chars(name.data() + x, name.data() + name.size(), times);
  auto place = first.operand<unsigned>(0);
  Loaded loaded{place >> 16, place & 0xffff, times * (isRows ? 1 : 8), isRows ? 32U : 16U};
  if (first.operand<unsigned>(1))
    cluster.fail(*running(), "the emulator does not know a tcgen05.ld that packs");
  for (const Operation *member : members)
    if (member->operand<unsigned>(0) != place)
      cluster.fail(*running(), "a tcgen05.ld whose threads name different places");
  unsigned quarter = threads->warp() % TensorMemory::quarters;
  if (loaded.lane / TensorMemory::quarterLanes != quarter || loaded.lane % loaded.lanes)
    cluster.fail(*running(), "a tcgen05.ld from lane " + std::to_string(loaded.lane) + " by warp " +
                                 std::to_string(threads->warp()) +
                                 ", which can read only the quarter of the lanes that "
                                 "is its own");
  Agent agent = cluster.tensorLoader(*threads);
  View known = fencedView(threads[0]);
  for (unsigned lane = 1; lane < warpThreads; ++lane)
    known.meet(fencedView(threads[lane]));
  TensorToucher toucher{agent, ++cluster.laneTimes[agent], known.generic, who(*threads, "a tcgen05.ld")};
  if (!block.tensor.touch(loaded.column, loaded.columns, quarter, toucher, false))
    cluster.fail(*running(), "a tcgen05.ld from columns that are not allocated");
  for (unsigned lane = 0; lane < warpThreads; ++lane)
    for (unsigned i = 0; i < times * (isRows ? 1 : 4); ++i) {
      unsigned down = isRows ? lane : lane / 4 + 8 * (i / 2 % 2);
      unsigned across = isRows ? i : i / 4 * 8 + lane % 4 * 2 + i % 2;
      members[lane]->give(block.tensor.at(loaded.lane + down, loaded.column + across), i);
    }
}

void load(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, everyLane, 0, loadAll);
}

/// What was loaded before is there, and those who come behind a fence and an arrival may know.
void waitLoads(Thread &thread, const Operation &) {
  Cluster &cluster = *thread.block->cluster;
  thread.loaded = cluster.laneTimes[cluster.tensorLoader(thread)];
}

void fenceBefore(Thread &thread, const Operation &) {
  Agent agent = thread.block->cluster->tensorLoader(thread);
  thread.view.learn(agent, thread.loaded);
  thread.release();
}

void fenceAfter(Thread &thread, const Operation &) { thread.fenced = thread.snapshot(); }

/// Makes the rows of a product that are a block's.
void multiplyRows(Block &block, const TensorOperation &operation, const Shape &shape, const std::vector<double> &left,
                  const std::vector<double> &right, Time time) {
  unsigned column = operation.sums & 0xffff;
  if (operation.sums >> 16)
    throw Failure("a tcgen05.mma of 128 rows whose sums do not start at lane 0");
  TensorToucher writer{operation.agent, time, operation.fenced->generic, operation.what};
  if (operation.adds)
    block.tensor.touch(column, shape.n, std::nullopt, writer, false);
  if (!block.tensor.touch(column, shape.n, std::nullopt, writer, true))
    throw Failure("a tcgen05.mma whose sums are in columns that are not allocated");
  for (unsigned row = 0; row < TensorMemory::lanes; ++row)
    for (unsigned each = 0; each < shape.n; ++each) {
      double product = 0;
      for (unsigned k = 0; k < shape.k; ++k)
        product += left[size_t{row} * shape.k + k] * right[size_t{each} * shape.k + k];
      uint32_t &sum = block.tensor.at(row, column + each);
      if (shape.integers)
        sum = (operation.adds ? sum : 0) + static_cast<uint32_t>(static_cast<int64_t>(product));
      else
        sum = static_cast<uint32_t>(
            asBits(static_cast<float>((operation.adds ? double{bitsAs<float>(sum)} : 0) + product)));
    }
}

} // namespace

void tilewright::emulator::complete(Cluster &cluster, const TensorOperation &operation) {
  if (operation.barrier) {
    PhaseBarrier &barrier = cluster.barrierAt(operation.barrier);
    if (!barrier.pending)
      throw Failure("more arrivals at an mbarrier than it expects, by tcgen05.commit");
    Time &known = barrier.gathered.generic[operation.agent];
    known = std::max(known, cluster.laneTimes[operation.agent]);
    --barrier.pending;
    cluster.settle(barrier);
    return;
  }
  Shape shape = shapeOf(operation.kind, operation.shape, operation.group);
  Time time = ++cluster.laneTimes[operation.agent];
  Toucher toucher{operation.agent, time, *operation.begun, true, operation.what};
  SharedMatrix a = matrixOf(operation.a, *shape.a, shape.aAcross), b = matrixOf(operation.b, *shape.b, shape.bAcross);
  // Of a pair, each block has a half of the columns of B, at the same place.
  std::vector<double> right;
  for (unsigned rank = operation.block; rank < operation.block + operation.group; ++rank) {
    std::vector<double> part = read(cluster.blocks[rank], b, shape.n / operation.group, shape.k, *shape.b, toucher);
    right.insert(right.end(), part.begin(), part.end());
  }
  for (unsigned rank = operation.block; rank < operation.block + operation.group; ++rank) {
    Block &block = cluster.blocks[rank];
    if (rank != operation.block)
      cluster.visit(block, operation.agent, time);
    multiplyRows(block, operation, shape, read(block, a, TensorMemory::lanes, shape.k, *shape.a, toucher), right, time);
  }
}

const std::vector<Row> tilewright::emulator::tensorRows = {
    {"tcgen05.alloc.shared.cg", allocate},
    {"tcgen05.relinq.alloc.permit.cg", relinquish},
    {"tcgen05.dealloc.cg", deallocate},
    {"tcgen05.mma.shared", multiply},
    {"tcgen05.commit.shared.cg", commit},
    {"tcgen05.commit.mc.shared.cg", commit},
    {"tcgen05.ld.", load},
    {"tcgen05.wait.ld", waitLoads},
    {"tcgen05.fence.before.thread.sync", fenceBefore},
    {"tcgen05.fence.after.thread.sync", fenceAfter},
};
