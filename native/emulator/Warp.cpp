// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the 32 threads of a warp do together. Source of all layouts: the PTX ISA manual, "Matrix Fragments for mma" and
// "ldmatrix".

#include "Elements.h"
#include "Machine.h"

#include <charconv>

using namespace tilewright::emulator;

namespace {

using Members = std::vector<const Operation *>;
constexpr uint64_t everyLane = 0xffffffff;
constexpr unsigned rowBytes = 16; // Of a matrix of ldmatrix and stmatrix.

void elect(Thread &thread, const Operation &operation) {
  auto mask = operation.operand<unsigned>(0);
  auto leader = static_cast<unsigned>(__builtin_ctz(mask));
  operation.give(leader, 0);
  operation.give(uint8_t{thread.lane() == leader}, 4);
}

/// shfl.sync.MODE.TYPE(mask, value, other, bounds).
void shuffle(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, operation.operand<unsigned>(0), 0, [](const Members &members, Thread *) {
    for (unsigned lane = 0; lane < warpThreads; ++lane) {
      if (!members[lane])
        continue;
      const Operation &own = *members[lane];
      auto other = own.operand<unsigned>(2), bounds = own.operand<unsigned>(3);
      unsigned segment = (bounds >> 8) & 31, first = lane & segment, last = first | (bounds & 31 & ~segment);
      std::string_view mode = own.name.substr(strlen("shfl.sync."));
      int from = mode.starts_with("up")     ? static_cast<int>(lane) - static_cast<int>(other)
                 : mode.starts_with("down") ? static_cast<int>(lane + other)
                 : mode.starts_with("bfly") ? static_cast<int>(lane ^ other)
                                            : static_cast<int>(first | (other & ~segment));
      bool inside = mode.starts_with("up") ? from >= static_cast<int>(bounds & 31) : from <= static_cast<int>(last);
      unsigned source = inside ? static_cast<unsigned>(from) : lane;
      own.give(members[source] ? members[source]->operand<unsigned>(1) : 0U);
      if (own.name.ends_with("p"))
        own.give(uint8_t{inside}, 4);
    }
  });
}

/// vote.sync.MODE(mask, predicate).
void vote(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, operation.operand<unsigned>(0), 0, [](const Members &members, Thread *) {
    unsigned present = 0, set = 0;
    for (unsigned lane = 0; lane < warpThreads; ++lane)
      if (members[lane]) {
        present |= 1U << lane;
        set |= static_cast<unsigned>(members[lane]->operand<unsigned>(1) != 0) << lane;
      }
    for (const Operation *member : members) {
      if (!member)
        continue;
      if (member->name.ends_with("ballot"))
        member->give(set);
      else
        member->give(uint8_t{member->name.ends_with("any")   ? set != 0
                             : member->name.ends_with("all") ? set == present
                                                             : set == 0 || set == present});
    }
  });
}

/// redux.sync.HOW.TYPE(mask, value).
void reduce(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, operation.operand<unsigned>(0), 0, [](const Members &members, Thread *) {
    std::optional<uint32_t> all;
    for (const Operation *member : members) {
      if (!member)
        continue;
      auto one = member->operand<uint32_t>(1);
      std::string_view how = member->name.substr(strlen("redux.sync."));
      bool isSigned = how.ends_with("s32");
      uint32_t last = all.value_or(one);
      bool less = isSigned ? static_cast<int32_t>(one) < static_cast<int32_t>(last) : one < last;
      all = !all                             ? one
            : how.starts_with("add")         ? last + one
            : how.starts_with("and")         ? last & one
            : how.starts_with("or")          ? last | one
            : how.starts_with("xor")         ? last ^ one
            : how.starts_with("min") == less ? one
                                             : last;
    }
    for (const Operation *member : members)
      if (member)
        member->give(*all);
  });
}

/// How many matrices of 8×8 elements a ldmatrix or stmatrix moves: the 4 of "x4".
unsigned matrices(std::string_view name) { return static_cast<unsigned>(name[name.find(".x") + 2] - '0'); }

/// Row `row` of the matrix number `matrix`, whose address the thread of that number in the warp has given.
uint16_t *row(const Members &members, unsigned matrix, unsigned row) {
  return members[matrix * 8 + row]->operand<uint16_t *>(0);
}

/// Records an access to a row by the thread that gave its address.
void touchRow(Thread &thread, const void *address, uint32_t kind) {
  if (!thread.block->cluster->owner(address) || reinterpret_cast<uintptr_t>(address) % 16)
    thread.block->cluster->fail(*running(),
                                "a row of ldmatrix or stmatrix that is not 16 aligned bytes of shared memory");
  thread.block->cluster->access(thread, static_cast<const std::byte *>(address), rowBytes, kind);
}

/// Records the accesses to so many rows, and counts them.
void touchRows(const Members &members, Thread *threads, unsigned count, uint32_t kind) {
  BankRequest request;
  request.bytes = rowBytes;
  for (unsigned lane = 0; lane < count; ++lane) {
    auto *address = members[lane]->operand<std::byte *>(0);
    touchRow(threads[lane], address, kind);
    request.add(lane, static_cast<uint32_t>(Cluster::offset(address)));
  }
  const Cluster &cluster = *threads->block->cluster;
  if (cluster.grid.counts)
    cluster.grid.counts->add(*members[0]->site, request);
  cluster.trace(*threads, accessed, reinterpret_cast<uintptr_t>(members[0]->site), kind == aLoad);
}

/// Where an element of the lower (0) or upper (1) half of a register of `lane` is in its matrix.
std::pair<unsigned, unsigned> place(unsigned lane, unsigned half, bool transposed) {
  unsigned outer = lane / 4, inner = lane % 4 * 2 + half;
  return transposed ? std::pair{inner, outer} : std::pair{outer, inner};
}

void loadMatrices(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, everyLane, 0, [](const Members &members, Thread *threads) {
    unsigned count = matrices(members[0]->name);
    bool transposed = members[0]->name.find(".trans") != std::string_view::npos;
    touchRows(members, threads, 8 * count, aLoad);
    for (unsigned lane = 0; lane < warpThreads; ++lane)
      for (unsigned matrix = 0; matrix < count; ++matrix)
        for (unsigned half = 0; half < 2; ++half) {
          auto [down, across] = place(lane, half, transposed);
          members[lane]->give(row(members, matrix, down)[across], 2 * matrix + half);
        }
  });
}

void storeMatrices(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, everyLane, 0, [](const Members &members, Thread *threads) {
    unsigned count = matrices(members[0]->name);
    bool transposed = members[0]->name.find(".trans") != std::string_view::npos;
    touchRows(members, threads, 8 * count, aStore);
    for (unsigned lane = 0; lane < warpThreads; ++lane)
      for (unsigned matrix = 0; matrix < count; ++matrix)
        for (unsigned half = 0; half < 2; ++half) {
          auto [down, across] = place(lane, half, transposed);
          row(members, matrix, down)[across] =
              static_cast<uint16_t>(members[lane]->operand<uint32_t>(1 + matrix) >> (16 * half));
        }
  });
}

/// What the name of an mma says: "mma.m16n8k16.row.col.f32.bf16.bf16.f32", or without types where they follow.
struct Shape {
  unsigned m = 0, n = 0, k = 0;
  const Element *a = nullptr, *b = nullptr, *c = nullptr;
  bool saturates = false;
};

std::vector<std::string_view> parts(std::string_view name) {
  std::vector<std::string_view> found;
  for (size_t start = 0; start <= name.size();) {
    size_t end = std::min(name.find('.', start), name.size());
    found.push_back(name.substr(start, end - start));
    start = end + 1;
  }
  return found;
}

Shape shapeOf(std::string_view name) {
  Shape shape;
  std::vector<const Element *> types;
  for (std::string_view part : parts(name)) {
    if (const Element *element = findElement(part))
      types.push_back(element);
    else if (part == "satfinite")
      shape.saturates = true;
    else if (part.size() > 4 && part[0] == 'm' && std::isdigit(part[1])) {
      const char *end = part.data() + part.size();
      const char *at = std::from_chars(part.data() + 1, end, shape.m).ptr;
      at = std::from_chars(at + 1, end, shape.n).ptr;
      std::from_chars(at + 1, end, shape.k);
    }
  }
  // Intrinsics name as few types as tell them apart: f16's, both sums'; f64's, none but its own; others', the
  // operands'.
  if (types.size() == 4) {
    shape.c = types[0], shape.a = types[1], shape.b = types[2];
  } else if (types.size() == 2 && types[0]->bits >= 16 && types[0]->name != "bf16" && types[0]->name != "tf32") {
    shape.c = types[0], shape.a = shape.b = findElement("f16");
  } else if (!types.empty()) {
    shape.a = types.front(), shape.b = types.back();
    bool integer = shape.a->name == "s8" || shape.a->name == "u8";
    shape.c = findElement(integer ? "s32" : shape.a->bits == 64 ? "f64" : "f32");
  }
  return shape;
}

/// Element number `index` of fragments that lie in operands from `first` on, 32 bits an operand, or 64 for f64.
uint64_t elementOf(const Operation &operation, unsigned first, unsigned index, const Element &element) {
  if (element.bits == 64)
    return operation.operand<uint64_t>(first + index);
  unsigned perRegister = 32 / element.bits;
  uint32_t bits = operation.operand<uint32_t>(first + index / perRegister);
  return (bits >> (index % perRegister * element.bits)) & ((uint64_t{1} << element.bits) - 1);
}

unsigned perRegister(const Element &element) { return element.bits == 64 ? 1 : 32 / element.bits; }
/// Operands that `count` elements of a thread lie in.
unsigned operandsFor(unsigned count, const Element &element) { return count / perRegister(element); }

void multiplyAll(const Members &members, const Shape &shape) {
  unsigned m = shape.m, n = shape.n, k = shape.k;
  std::vector<double> a(m * k), b(k * n), c(m * n);
  unsigned perA = m * k / warpThreads, perB = k * n / warpThreads, perC = m * n / warpThreads;
  unsigned firstB = operandsFor(perA, *shape.a), firstC = firstB + operandsFor(perB, *shape.b);
  unsigned width = perRegister(*shape.a), high = m / 8;
  auto rowOfC = [&](unsigned lane, unsigned i) { return lane / 4 + 8 * (i / 2 % high); };
  auto columnOfC = [](unsigned lane, unsigned i) { return lane % 4 * 2 + i % 2; };
  for (unsigned lane = 0; lane < warpThreads; ++lane) {
    const Operation &own = *members[lane];
    for (unsigned i = 0; i < perA; ++i) {
      unsigned at = i / width;
      unsigned down = lane / 4 + 8 * (at % high), across = lane % 4 * width + i % width + at / high * 4 * width;
      a[down * k + across] = shape.a->value(elementOf(own, 0, i, *shape.a));
    }
    for (unsigned i = 0; i < perB; ++i) {
      unsigned down = lane % 4 * width + i % width + i / width * 4 * width;
      b[down * n + lane / 4] = shape.b->value(elementOf(own, firstB, i, *shape.b));
    }
    for (unsigned i = 0; i < perC; ++i)
      c[rowOfC(lane, i) * n + columnOfC(lane, i)] = shape.c->value(elementOf(own, firstC, i, *shape.c));
  }
  for (unsigned i = 0; i < m; ++i)
    for (unsigned j = 0; j < n; ++j) {
      double sum = c[i * n + j];
      for (unsigned x = 0; x < k; ++x)
        sum += a[i * k + x] * b[x * n + j];
      c[i * n + j] = sum;
    }
  for (unsigned lane = 0; lane < warpThreads; ++lane)
    for (unsigned i = 0; i < perC; ++i) {
      double sum = c[rowOfC(lane, i) * n + columnOfC(lane, i)];
      const Operation &own = *members[lane];
      if (shape.c->name == "f64")
        own.give(sum, i);
      else if (shape.c->name == "f16")
        own.give(static_cast<_Float16>(sum), i);
      else if (shape.c->name == "f32")
        own.give(static_cast<float>(sum), i);
      else // Of so few products of bytes a double is exact; the sum wraps around, or, as the instruction says,
           // saturates.
        own.give(shape.saturates ? static_cast<int32_t>(std::clamp(sum, -2147483648.0, 2147483647.0))
                                 : static_cast<int32_t>(static_cast<int64_t>(sum)),
                 i);
    }
}

void multiply(Thread &thread, const Operation &operation) {
  together(thread, operation, warpThreads, everyLane, 0, [](const Members &members, Thread *threads) {
    Shape shape = shapeOf(members[0]->name);
    if (!shape.a || !shape.m || shape.m % 8 || shape.n != 8)
      threads->block->cluster->fail(*running(), "the emulator does not know " + std::string(members[0]->name));
    const Cluster &cluster = *threads->block->cluster;
    cluster.trace(*threads, multipliedNow, 0, shape.m * shape.n * shape.k * shape.a->bits / 16);
    if (!cluster.grid.trace)
      multiplyAll(members, shape);
  });
}

} // namespace

const std::vector<Row> tilewright::emulator::warpRows = {
    {"elect.sync", elect},
    {"shfl.sync", shuffle},
    {"vote.sync", vote},
    {"redux.sync", reduce},
    {"ldmatrix.sync.aligned.m8n8", loadMatrices},
    {"stmatrix.sync.aligned.m8n8", storeMatrices},
    {"mma.m", multiply},
};
