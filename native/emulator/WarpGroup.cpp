// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of matrices in shared memory, by four warps together. Source of all layouts: the PTX ISA manual,
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation".

#include "Elements.h"
#include "Machine.h"
#include "SharedMatrix.h"

#include <charconv>

using namespace tilewright::emulator;

namespace {

constexpr unsigned rows = 64;

/// What "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" says.
struct Shape {
  unsigned n, k;
  const Element *c, *a, *b;
};

Shape shapeOf(Thread &thread, std::string_view text) {
  Shape shape{};
  size_t at = text.find(".m64n");
  const char *end = text.data() + text.size();
  const char *next = std::from_chars(text.data() + at + 5, end, shape.n).ptr;
  next = std::from_chars(next + 1, end, shape.k).ptr;
  std::string_view types = text.substr(static_cast<size_t>(next - text.data()) + 1);
  const Element **places[] = {&shape.c, &shape.a, &shape.b};
  for (const Element **place : places) {
    size_t length = types.find_first_of(". ");
    *place = findElement(types.substr(0, length));
    types.remove_prefix(std::min(length + 1, types.size()));
  }
  if (!shape.a || !shape.b || !shape.c)
    thread.block->cluster->fail(*running(),
                                "the emulator does not know the types of " + std::string(text.substr(at, 40)));
  return shape;
}

/// What a descriptor says of a matrix.
SharedMatrix matrixOf(Thread &thread, uint64_t descriptor, const Element &element, bool transposed) {
  auto field = [&](unsigned low) { return ((descriptor >> low) & 0x3fff) << 4; };
  auto mode = static_cast<unsigned>(descriptor >> 62); // Of 0, 128, 64 or 32 bytes.
  if (transposed && mode == 0)
    thread.block->cluster->fail(*running(), "the emulator knows no transposed matrix without swizzle");
  return {field(0), field(16), field(32), mode == 0 ? 16 : 256U >> mode, element.bits / 8, transposed};
}

void read(Thread *threads, const SharedMatrix &matrix, unsigned count, const Shape &shape, const Element &element,
          const Toucher &who, std::vector<double> &values) {
  values.resize(count * shape.k);
  for (unsigned index = 0; index < count; ++index)
    for (unsigned k = 0; k < shape.k; ++k) {
      size_t offset = matrix.offset(index, k);
      threads->block->shared.read(offset, element.bits / 8, who);
      if (offset + element.bits / 8 > threads->block->shared.size())
        threads->block->cluster->fail(*running(), "a wgmma that reads outside of shared memory");
      uint64_t bits = 0;
      std::memcpy(&bits, threads->block->shared.data() + offset, matrix.bytes);
      values[index * shape.k + k] = element.value(bits);
    }
}

void multiplyAll(const std::vector<const Operation *> &members, Thread *threads) {
  Cluster &cluster = *threads->block->cluster;
  const Operation &first = *members[0];
  Shape shape = shapeOf(*threads, first.name);
  bool halves = shape.a->bits == 16, packed = shape.c->bits == 16;
  unsigned sums = rows * shape.n / warpGroupThreads, registers = packed ? sums / 2 : sums;
  bool integers = shape.c->name == "s32";
  // After the sums: A's descriptor or registers, B's, whether to add, signs unless integers, transpositions of 16-bit
  // types.
  unsigned tail = 1 + (integers ? 0 : 2);
  bool inRegisters = first.count >= registers + 4 + 1 + tail;
  unsigned b = registers + (inRegisters ? 4 : 1);
  auto transposed = [&](unsigned which) { return halves && first.operand<unsigned>(b + 1 + tail + which) != 0; };
  for (unsigned warp = 0; warp < 4; ++warp)
    if (!threads[warp * warpThreads].productsFenced)
      cluster.report.add("unfenced: " + threads[warp * warpThreads].name() +
                         " begins a wgmma without a wgmma.fence since it could last change its registers");
  if (cluster.grid.trace) {
    unsigned read = ((inRegisters ? 0 : rows) + shape.n) * shape.k * shape.a->bits / 8 / 4;
    for (unsigned warp = 0; warp < 4; ++warp)
      cluster.trace(threads[warp * warpThreads], multiplied, read, shape.n * shape.k * shape.a->bits / 8);
    return;
  }
  View view = threads[0].view;
  for (unsigned warp = 1; warp < 4; ++warp)
    view.meet(threads[warp * warpThreads].view);
  Agent agent = cluster.multiplier(threads[0]);
  Toucher who{agent, ++cluster.laneTimes[agent], view, true, threads->name() + "'s warp group, a wgmma,"};
  std::vector<double> left, right;
  if (inRegisters) {
    left.resize(rows * shape.k);
    unsigned width = 32 / shape.a->bits;
    for (unsigned thread = 0; thread < warpGroupThreads; ++thread)
      for (unsigned i = 0; i < 4 * width; ++i) {
        unsigned at = i / width, lane = thread % warpThreads;
        unsigned down = thread / warpThreads * 16 + lane / 4 + 8 * (at % 2);
        unsigned across = lane % 4 * width + i % width + at / 2 * 4 * width;
        uint32_t bits = members[thread]->operand<uint32_t>(registers + at);
        left[down * shape.k + across] =
            shape.a->value((bits >> (i % width * shape.a->bits)) & ((uint64_t{1} << shape.a->bits) - 1));
      }
  } else {
    SharedMatrix matrix = matrixOf(*threads, first.operand<uint64_t>(registers), *shape.a, transposed(0));
    read(threads, matrix, rows, shape, *shape.a, who, left);
  }
  SharedMatrix matrix = matrixOf(*threads, first.operand<uint64_t>(b), *shape.b, transposed(inRegisters ? 0 : 1));
  read(threads, matrix, shape.n, shape, *shape.b, who, right);
  bool adds = first.operand<unsigned>(b + 1) != 0;
  double sign = integers ? 1 : first.operand<int32_t>(b + 2) * first.operand<int32_t>(b + 3);
  for (unsigned thread = 0; thread < warpGroupThreads; ++thread) {
    const Operation &own = *members[thread];
    unsigned lane = thread % warpThreads;
    for (unsigned i = 0; i < sums; ++i) {
      unsigned down = thread / warpThreads * 16 + lane / 4 + 8 * (i / 2 % 2), across = i / 4 * 8 + lane % 4 * 2 + i % 2;
      double product = 0;
      for (unsigned k = 0; k < shape.k; ++k)
        product += left[down * shape.k + k] * right[across * shape.k + k];
      product *= sign;
      if (packed) {
        uint32_t bits = own.operand<uint32_t>(i / 2) >> (16 * (i % 2));
        own.give(static_cast<_Float16>((adds ? shape.c->value(bits & 0xffff) : 0) + product), i);
      } else if (integers) {
        int64_t sum = (adds ? own.operand<int32_t>(i) : 0) + static_cast<int64_t>(product);
        own.give(static_cast<int32_t>(sum), i);
      } else {
        own.give(static_cast<float>((adds ? double{own.operand<float>(i)} : 0) + product), i);
      }
    }
  }
}

void multiply(Thread &thread, const Operation &operation) {
  together(thread, operation, warpGroupThreads, ~uint64_t{0}, ~uint64_t{0}, multiplyAll);
}

/// The groups before the last so many are done.
void waitGroup(Thread &thread, const Operation &operation) {
  Cluster &cluster = *thread.block->cluster;
  cluster.trace(thread, productsWait, 0, operation.operand<uint64_t>(0));
  Agent agent = cluster.multiplier(thread);
  auto &marks = thread.products;
  size_t left = operation.operand<uint64_t>(0);
  thread.productsFenced = thread.productsFenced && left > 0;
  for (; marks.size() > left; marks.pop_front())
    thread.view.learn(agent, marks.front());
  thread.release();
}

void commit(Thread &thread, const Operation &) {
  Cluster &cluster = *thread.block->cluster;
  cluster.trace(thread, committed, 0, 0);
  thread.products.push_back(cluster.laneTimes[cluster.multiplier(thread)]);
}

} // namespace

const std::vector<Row> tilewright::emulator::warpGroupRows = {
    {".wgmma.mma_async", multiply},
    {"wgmma.mma_async", multiply},
    {"wgmma.commit_group", commit},
    {"wgmma.wait_group", waitGroup},
};
