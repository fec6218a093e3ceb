// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Banks.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace tilewright::emulator;

namespace {

constexpr unsigned banks = 32, wordBytes = 4, widestBytes = 16, sectorBytes = 32;
constexpr uint32_t everyLane = 0xffffffff;

} // namespace

unsigned BankRequest::least() const {
  unsigned found = 0, at = threadsAtOnce();
  for (unsigned first = 0; first < banks; first += at)
    found += ((lanes >> first) & (everyLane >> (banks - at))) != 0;
  return found;
}

unsigned BankRequest::sectors() const {
  std::set<uint32_t> found;
  for (unsigned lane = 0; lane < banks; ++lane)
    for (unsigned byte = 0; (lanes >> lane) & 1 && byte < bytes; byte += sectorBytes)
      found.insert((offsets[lane] + byte) / sectorBytes);
  return static_cast<unsigned>(found.size());
}

unsigned BankRequest::passes() const {
  if (isGlobal)
    return sectors();
  unsigned found = 0, at = threadsAtOnce();
  for (unsigned first = 0; first < banks; first += at) {
    std::array<std::multiset<uint32_t>, banks> words;
    for (unsigned lane = first; lane < first + at; ++lane)
      for (unsigned byte = 0; (lanes >> lane) & 1 && byte < std::max(bytes, 1U); byte += wordBytes) {
        uint32_t word = (offsets[lane] + byte) / wordBytes;
        if (atomic || !words[word % banks].contains(word))
          words[word % banks].insert(word);
      }
    size_t most = 0;
    for (const auto &each : words)
      most = std::max(most, each.size());
    found += static_cast<unsigned>(most);
  }
  return found;
}

void BankCounts::access(const Site &site, unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes, bool atomic,
                        bool isGlobal) {
  if (bytes > widestBytes || !bytes)
    return; // A copy of memory as LLVM has it: several instructions, nobody knows which.
  Executions &own = executions[{&site, warp}];
  uint64_t number = own.done[lane]++ - own.first;
  if (number >= own.open.size())
    own.open.resize(number + 1);
  BankRequest &request = own.open[number];
  request.bytes = bytes;
  request.atomic = atomic;
  request.isGlobal = isGlobal;
  request.add(lane, offset);
  for (; !own.open.empty() && own.open.front().lanes == everyLane; ++own.first) {
    add(site, own.open.front());
    own.open.pop_front();
  }
}

void BankCounts::add(const Site &site, const BankRequest &request) {
  SharedCount &count =
      counts.try_emplace(&site, SharedCount{site.name, &site, site.line, request.isGlobal, 0, 0, 0}).first->second;
  ++count.executions;
  count.passes += request.passes();
  count.least += request.least();
}

void BankCounts::settle() {
  for (const auto &[key, own] : executions)
    for (const BankRequest &request : own.open)
      if (request.lanes)
        add(*key.first, request);
  executions.clear();
}

std::vector<SharedCount> BankCounts::all() const {
  std::vector<SharedCount> found;
  for (const auto &[site, count] : counts)
    found.push_back(count);
  std::sort(found.begin(), found.end(), [](const SharedCount &a, const SharedCount &b) {
    return std::tie(a.isGlobal, a.line) < std::tie(b.isGlobal, b.line);
  });
  return found;
}
