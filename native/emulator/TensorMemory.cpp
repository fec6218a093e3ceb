// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TensorMemory.h"
#include "Report.h"

using namespace tilewright::emulator;

bool TensorMemory::isFree(unsigned first, unsigned count) const {
  return std::none_of(allocations.begin(), allocations.end(), [&](const Allocation &each) {
    return first < each.first + each.count && each.first < first + count;
  });
}

std::optional<unsigned> TensorMemory::allocate(unsigned warp, unsigned count) {
  // The last ones first: a kernel that takes it for granted where they begin is then wrong.
  for (unsigned end = columns; end >= count; end -= count)
    if (isFree(end - count, count)) {
      allocations.push_back({warp, end - count, count});
      words.resize(size_t{lanes} * columns);
      parts.resize(size_t{columns} * quarters);
      for (unsigned part = (end - count) * quarters; part < end * quarters; ++part)
        parts[part] = {};
      return end - count;
    }
  return std::nullopt;
}

std::string TensorMemory::free(unsigned warp, unsigned first, unsigned count) {
  auto found = std::find_if(allocations.begin(), allocations.end(),
                            [&](const Allocation &each) { return each.first == first && each.count == count; });
  if (found == allocations.end())
    return "a tcgen05.dealloc of " + std::to_string(count) + " columns from " + std::to_string(first) +
           " on, which were not allocated so";
  if (found->warp != warp)
    return "a tcgen05.dealloc by another warp than the one that has allocated";
  allocations.erase(found);
  return "";
}

bool TensorMemory::touch(unsigned first, unsigned count, std::optional<unsigned> quarter, const TensorToucher &who,
                         bool writes) {
  bool isThere = std::any_of(allocations.begin(), allocations.end(), [&](const Allocation &each) {
    return first >= each.first && first + count <= each.first + each.count;
  });
  if (!isThere) {
    report.add("outside: " + who.what + " touches " + std::to_string(count) + " columns of tensor memory from " +
               std::to_string(first) + " on, which are not all allocated");
    return false;
  }
  for (unsigned column = first; column < first + count; ++column)
    for (unsigned each = quarter.value_or(0); each < (quarter ? *quarter + 1 : quarters); ++each)
      touchPart(column, parts[size_t{column} * quarters + each], who, writes);
  return true;
}

void TensorMemory::touchPart(unsigned column, Part &part, const TensorToucher &who, bool writes) {
  auto isKnown = [&](const Touch &earlier) {
    return earlier.agent == who.agent || who.known[earlier.agent] >= earlier.time;
  };
  auto race = [&](const Touch &earlier, const char *did) {
    report.add("race: " + who.what + " touches column " + std::to_string(column) + " of the tensor memory of block " +
               std::to_string(rank) + ", which " + report.name(earlier.agent) + did +
               " at a time that no fence and no wait order");
  };
  if (part.written && !isKnown(*part.written))
    race(*part.written, " writes");
  if (writes) {
    for (const Touch &earlier : part.reads)
      if (!isKnown(earlier))
        race(earlier, " reads");
    part.reads.clear();
    part.written = {who.agent, who.time};
    return;
  }
  if (!part.written)
    report.add("unwritten: " + who.what + " reads column " + std::to_string(column) +
               " of the tensor memory of block " + std::to_string(rank) + ", which nobody has written");
  std::erase_if(part.reads, isKnown);
  part.reads.push_back({who.agent, who.time});
}
