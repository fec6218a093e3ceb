// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensor memory of a block: what of it is allocated, and a record of who touched each part of it last. Source: the
// PTX ISA manual, "Tensor Memory".

#ifndef TILEWRIGHT_EMULATOR_TENSORMEMORY_H
#define TILEWRIGHT_EMULATOR_TENSORMEMORY_H

#include "Clocks.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::emulator {

class Report;

/// Who touches tensor memory, and which deeds it knows to be done, by the fences between.
struct TensorToucher {
  Agent agent;
  Time time;
  const Clock &known;
  std::string what;
};

/// An operation on tensor memory that has been begun: a product, or the arrival at a barrier object when all products
/// that the same thread has begun before are complete.
struct TensorOperation {
  Agent agent;
  unsigned block;
  std::byte *barrier; // Null for a product.
  // Of a product.
  unsigned sums, kind, shape; // Where the sums are, and the instruction's kind and descriptor.
  unsigned group;             // Blocks that it is of, from `block` on.
  uint64_t a, b;
  bool adds;
  std::shared_ptr<const View> begun, fenced;
  std::string what;
};

class TensorMemory {
public:
  static constexpr unsigned lanes = 128, columns = 512;
  /// Lanes that a warp can read: the number of its four that it has in its group of four warps.
  static constexpr unsigned quarterLanes = 32, quarters = lanes / quarterLanes;

  TensorMemory(unsigned rank, Report &report) : rank(rank), report(report) {}

  /// The first of so many columns that a warp now has; nothing when there are too few.
  std::optional<unsigned> allocate(unsigned warp, unsigned count);
  /// Gives columns back. Returns what is wrong with that, or nothing.
  std::string free(unsigned warp, unsigned first, unsigned count);
  bool isAllocated() const { return !allocations.empty(); }

  uint32_t &at(unsigned lane, unsigned column) { return words[lane * columns + column]; }

  /// Records an access to columns in one quarter of the lanes, or in all; reports a race with an earlier one, what was
  /// never written, and what is not allocated. Returns whether the columns are there.
  bool touch(unsigned first, unsigned count, std::optional<unsigned> quarter, const TensorToucher &who, bool writes);

  /// Whether some warp of the block has said that it allocates no more.
  bool relinquished = false;
  /// How often the block has allocated columns, and given some back.
  unsigned allocated = 0, freed = 0;

private:
  struct Allocation {
    unsigned warp, first, count;
  };
  struct Touch {
    Agent agent;
    Time time;
  };
  struct Part {
    std::optional<Touch> written;
    std::vector<Touch> reads;
  };

  bool isFree(unsigned first, unsigned count) const;
  void touchPart(unsigned column, Part &part, const TensorToucher &who, bool writes);

  unsigned rank;
  Report &report;
  std::vector<Allocation> allocations;
  std::vector<uint32_t> words;
  std::vector<Part> parts; // By column, and quarter of the lanes.
};

} // namespace tilewright::emulator

#endif // TILEWRIGHT_EMULATOR_TENSORMEMORY_H
