// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Scratch.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

using namespace tilewright::runtime;

namespace {

constexpr size_t lineBytes = 64;
constexpr size_t smallPage = size_t{64} << 10;
constexpr size_t hugePage = size_t{2} << 20;
constexpr size_t mostBytes = SIZE_MAX / 4;

class Region;

/// Stands right before every block.
struct alignas(lineBytes) Header {
  Region *owner;    // Null for a block from the C library.
  Header *previous; // The block below it in the region.
  void *start;      // What to give back: to the region its old top, to the C library the pointer.
  std::atomic<bool> freed;
};
static_assert(sizeof(Header) == lineBytes);

uintptr_t alignUp(uintptr_t value, size_t alignment) { return (value + alignment - 1) & ~(uintptr_t{alignment} - 1); }

char *pointer(uintptr_t address) { return reinterpret_cast<char *>(address); }

/// A stack of blocks in mapped memory. One belongs to each thread. Only the thread moves the top; another one may mark
/// a block as free, which the owner sees when it frees the next.
class Region {
public:
  Region() = default;
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  ~Region() {
    popFreed();
    if (!last) // Otherwise something still uses the memory: rather leak it.
      unmap();
  }

  void *allocate(size_t alignment, size_t bytes) noexcept {
    popFreed();
    size_t needed = bytes + alignment + lineBytes;
    if (needed > scratchLimit)
      return nullptr;
    live += needed;
    most = std::max(most, live);
    if (!last && needed > capacity)
      remap(std::min(most, scratchLimit));
    uintptr_t block = alignUp(base + top + sizeof(Header), alignment);
    if (block + bytes > base + capacity)
      return nullptr;
    last = new (pointer(block - sizeof(Header))) Header{this, last, pointer(base + top), false};
    top = alignUp(block + bytes, lineBytes) - base;
    return pointer(block);
  }

  void popFreed() noexcept {
    while (last && last->freed.load(std::memory_order_acquire)) {
      top = reinterpret_cast<uintptr_t>(last->start) - base;
      last = last->previous;
    }
    if (!last)
      live = 0;
  }

  ScratchState state() const noexcept { return {capacity, top}; }

private:
  void unmap() noexcept {
    if (capacity)
      munmap(pointer(base), capacity);
    base = capacity = top = 0;
  }

  /// Replaces the empty region by one of at least `bytes`; on failure it has no capacity.
  void remap(size_t bytes) noexcept {
    unmap();
    bool huge = bytes > hugePage / 2;
    size_t page = huge ? hugePage : smallPage;
    size_t wanted = alignUp(bytes, page);
    size_t mapped = wanted + page;
    void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return;
    uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    base = alignUp(start, page);
    if (base != start)
      munmap(memory, base - start);
    munmap(pointer(base + wanted), start + mapped - base - wanted);
    capacity = wanted;
    if (huge)
      madvise(pointer(base), capacity, MADV_HUGEPAGE);
    // Nothing in it outlives a call: after a fork neither side should copy it.
    madvise(pointer(base), capacity, MADV_WIPEONFORK);
  }

  uintptr_t base = 0;
  size_t capacity = 0;
  size_t top = 0;
  Header *last = nullptr;
  /// Bytes asked for since the region was last empty, and the most that this ever was: how large to make it.
  size_t live = 0;
  size_t most = 0;
};

thread_local Region region;

void *allocateElsewhere(size_t alignment, size_t bytes) noexcept {
  bool huge = bytes >= hugePage;
  size_t aligned = std::max(alignment, huge ? hugePage : lineBytes);
  // The header fits before the block because the block lies one alignment (64 bytes at least) into the memory.
  size_t total = alignUp(aligned + bytes, aligned);
  char *memory = static_cast<char *>(std::aligned_alloc(aligned, total));
  if (!memory)
    return nullptr;
  if (huge)
    madvise(memory, total, MADV_HUGEPAGE);
  char *block = memory + aligned;
  new (block - sizeof(Header)) Header{nullptr, nullptr, memory, false};
  return block;
}

} // namespace

void *tilewright::runtime::allocateScratch(size_t alignment, size_t bytes) noexcept {
  alignment = std::max(alignment, lineBytes);
  if (bytes > mostBytes || alignment > mostBytes || (alignment & (alignment - 1)))
    return nullptr;
  if (void *block = region.allocate(alignment, bytes))
    return block;
  return allocateElsewhere(alignment, bytes);
}

void tilewright::runtime::freeScratch(void *block) noexcept {
  if (!block)
    return;
  Header *header = reinterpret_cast<Header *>(static_cast<char *>(block) - sizeof(Header));
  if (!header->owner) {
    std::free(header->start);
    return;
  }
  Region *owner = header->owner;
  header->freed.store(true, std::memory_order_release);
  // Only compared, never followed: the owning thread may be gone.
  if (owner == &region)
    region.popFreed();
}

ScratchState tilewright::runtime::scratchState() noexcept {
  region.popFreed();
  return region.state();
}
