// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Machine.h"

#include <sys/mman.h>

using namespace tilewright::emulator;

namespace {

/// Address space for the shared memories of a cluster, aligned to their pitch.
class Arena {
public:
  explicit Arena(unsigned blocks) : bytes((blocks + 1) * sharedPitch) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
      throw Failure("no memory for shared memory");
  }
  ~Arena() { munmap(mapped, bytes); }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  std::byte *start() const {
    auto address = reinterpret_cast<uintptr_t>(mapped);
    return reinterpret_cast<std::byte *>((address + sharedPitch - 1) / sharedPitch * sharedPitch);
  }

private:
  void *mapped;
  size_t bytes;
};

void runGrid(const Grid &grid, Report &report) {
  GlobalMemory global;
  unsigned number = 0;
  for (unsigned z = 0; z < grid.blocks[2]; z += grid.cluster[2])
    for (unsigned y = 0; y < grid.blocks[1]; y += grid.cluster[1])
      for (unsigned x = 0; x < grid.blocks[0]; x += grid.cluster[0]) {
        Arena arena(grid.clusterBlocks());
        Cluster(grid, number++, {x, y, z}, arena.start(), global, report).run();
        if (grid.counts)
          grid.counts->settle();
        if (grid.trace)
          return;
      }
}

} // namespace

Handler tilewright::emulator::findHandler(std::string_view name) {
  const Row *best = nullptr;
  bool isText = name.find(';') != std::string_view::npos; // Inline PTX.
  for (const auto *rows :
       {&registerRows, &synchronizationRows, &copyRows, &warpRows, &warpGroupRows, &tensorRows, &floatRows})
    for (const Row &row : *rows) {
      bool fits = row.pattern.front() == '.' ? isText && name.find(row.pattern.substr(1)) != std::string_view::npos
                                             : name.starts_with(row.pattern);
      if (fits && (!best || row.pattern.size() > best->pattern.size()))
        best = &row;
    }
  return best ? best->handler : nullptr;
}

uint32_t tilewrightEmulatorVersion() { return 2; }

int tilewrightEmulate(void (*kernel)(void **), void **arguments, const uint32_t sizes[9], uint64_t sharedBytes,
                      const Buffer *buffers, uint32_t bufferCount, uint32_t seed, char *text, uint64_t textBytes,
                      Observed *observed) {
  Report report;
  BankCounts banks;
  bool ended = true;
  Trace trace;
  bool isTraced = observed && observed->events;
  try {
    Grid grid{kernel,
              arguments,
              {sizes[0], sizes[1], sizes[2]},
              {sizes[3], sizes[4], sizes[5]},
              {sizes[6], sizes[7], sizes[8]},
              sharedBytes,
              buffers,
              bufferCount,
              seed,
              observed && observed->counts ? &banks : nullptr,
              isTraced ? &trace : nullptr};
    for (unsigned axis = 0; axis < 3; ++axis)
      if (grid.blocks[axis] % grid.cluster[axis])
        throw Failure("a grid of no whole number of clusters");
    if (sharedBytes > sharedPitch)
      throw Failure("more shared memory than any chip has");
    runGrid(grid, report);
  } catch (const std::exception &error) {
    report.add(error.what());
    ended = false;
  }
  if (observed && observed->counts) {
    std::vector<SharedCount> all = banks.all();
    observed->countsMade = std::min<uint64_t>(all.size(), observed->countRoom);
    std::copy_n(all.begin(), observed->countsMade, observed->counts);
  }
  if (isTraced) {
    observed->eventsMade = trace.all().size(); // More than there is room for: the caller sees that some are left out.
    std::copy_n(trace.all().begin(), std::min(observed->eventsMade, observed->eventRoom), observed->events);
  }
  std::string told = report.text();
  std::snprintf(text, textBytes, "%s", told.c_str());
  return ended ? !report.empty() : 2;
}

void tilewrightPerform(Site *site, uint32_t count, const std::byte *operands, std::byte *result) {
  Thread &thread = *running();
  thread.block->cluster->settleStores();
  thread.site = site;
  if (!site->handler) {
    Handler handler = findHandler(site->name);
    if (!handler)
      thread.block->cluster->fail(thread, "the emulator does not know " + std::string(site->name));
    site->handler = reinterpret_cast<void *>(handler);
  }
  reinterpret_cast<Handler>(site->handler)(thread, {site, site->name, count, operands, result});
}

void tilewrightAccess(const Site *site, const std::byte *address, uint32_t bytes) {
  Thread &thread = *running();
  Cluster &cluster = *thread.block->cluster;
  cluster.settleStores();
  thread.site = site;
  cluster.checkAligned(thread, address, site->alignment, site->name);
  cluster.access(thread, address, bytes, site->kind, site->strength);
  cluster.countAccess(thread, address, bytes, site->kind == atOnce);
  if (site->strength)
    cluster.synchronize(thread, *site, address, bytes);
}

void tilewrightVariable(std::byte *start, uint32_t bytes, uint32_t writable) {
  auto &variables = running()->block->cluster->variables;
  if (std::none_of(variables.begin(), variables.end(), [&](const Buffer &known) { return known.start == start; }))
    variables.push_back({start, bytes, writable});
}

std::byte *tilewrightFromShared(uint32_t address) { return running()->block->cluster->fromShared(address); }

uint32_t tilewrightToShared(const std::byte *place) { return running()->block->cluster->toShared(place); }

std::byte *tilewrightSharedMemory(uint32_t offset) { return running()->block->shared.data() + offset; }
