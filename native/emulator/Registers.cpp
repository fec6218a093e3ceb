// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a thread can ask about itself, and what the emulator has nothing to do for.

#include "Machine.h"

using namespace tilewright::emulator;

namespace {

unsigned part(unsigned index, const std::array<unsigned, 3> &extents, unsigned axis) {
  return axis == 0 ? index % extents[0] : axis == 1 ? index / extents[0] % extents[1] : index / extents[0] / extents[1];
}

const Grid &grid(const Thread &thread) { return thread.block->cluster->grid; }

template <unsigned axis>
struct Of {
  static void threadIndex(Thread &thread, const Operation &operation) {
    operation.give(part(thread.index, grid(thread).threads, axis));
  }
  static void threads(Thread &thread, const Operation &operation) { operation.give(grid(thread).threads[axis]); }
  static void blockIndex(Thread &thread, const Operation &operation) { operation.give(thread.block->index[axis]); }
  static void blocks(Thread &thread, const Operation &operation) { operation.give(grid(thread).blocks[axis]); }
  static void clusterIndex(Thread &thread, const Operation &operation) {
    operation.give(thread.block->index[axis] / grid(thread).cluster[axis]);
  }
  static void clusters(Thread &thread, const Operation &operation) {
    operation.give(grid(thread).blocks[axis] / grid(thread).cluster[axis]);
  }
  static void blockInCluster(Thread &thread, const Operation &operation) {
    operation.give(thread.block->index[axis] % grid(thread).cluster[axis]);
  }
  static void blocksOfCluster(Thread &thread, const Operation &operation) {
    operation.give(grid(thread).cluster[axis]);
  }
};

template <unsigned axis>
void addAxis(std::vector<Row> &rows, const std::array<std::string_view, 8> &names) {
  using Axis = Of<axis>;
  const Handler handlers[] = {Axis::threadIndex,  Axis::threads,  Axis::blockIndex,     Axis::blocks,
                              Axis::clusterIndex, Axis::clusters, Axis::blockInCluster, Axis::blocksOfCluster};
  for (unsigned i = 0; i < names.size(); ++i)
    rows.push_back({names[i], handlers[i]});
}

void nothing(Thread &, const Operation &) {}

std::vector<Row> makeRows() {
  std::vector<Row> rows = {
      {"read.ptx.sreg.laneid", [](Thread &thread, const Operation &operation) { operation.give(thread.lane()); }},
      {"read.ptx.sreg.warpid", [](Thread &thread, const Operation &operation) { operation.give(thread.warp()); }},
      {"read.ptx.sreg.warpsize", [](Thread &, const Operation &operation) { operation.give(warpThreads); }},
      {"read.ptx.sreg.cluster.ctarank",
       [](Thread &thread, const Operation &operation) { operation.give(thread.block->rank); }},
      {"read.ptx.sreg.cluster.nctarank",
       [](Thread &thread, const Operation &operation) { operation.give(grid(thread).clusterBlocks()); }},
      {"mapa",
       [](Thread &thread, const Operation &operation) {
         operation.give(thread.block->cluster->inBlock(operation.operand<void *>(0), operation.operand<unsigned>(1)));
       }},
      {"issue",
       [](Thread &thread, const Operation &operation) {
         thread.block->cluster->trace(thread, issued, 0, operation.operand<unsigned>(0));
       }},
      // Hints, and what only the hardware has.
      {"setmaxnreg", nothing},
      {"prefetch", nothing},
      {"nanosleep", nothing},
      {"trap",
       [](Thread &thread, const Operation &) {
         thread.block->cluster->fail(thread, "trap: " + thread.name() + " ends the kernel");
       }},
      {"outside.of.parameters",
       [](Thread &thread, const Operation &) {
         thread.block->cluster->fail(thread, "outside: " + thread.name() + " accesses a parameter beyond its end");
       }},
  };
  addAxis<0>(rows, {"read.ptx.sreg.tid.x", "read.ptx.sreg.ntid.x", "read.ptx.sreg.ctaid.x", "read.ptx.sreg.nctaid.x",
                    "read.ptx.sreg.clusterid.x", "read.ptx.sreg.nclusterid.x", "read.ptx.sreg.cluster.ctaid.x",
                    "read.ptx.sreg.cluster.nctaid.x"});
  addAxis<1>(rows, {"read.ptx.sreg.tid.y", "read.ptx.sreg.ntid.y", "read.ptx.sreg.ctaid.y", "read.ptx.sreg.nctaid.y",
                    "read.ptx.sreg.clusterid.y", "read.ptx.sreg.nclusterid.y", "read.ptx.sreg.cluster.ctaid.y",
                    "read.ptx.sreg.cluster.nctaid.y"});
  addAxis<2>(rows, {"read.ptx.sreg.tid.z", "read.ptx.sreg.ntid.z", "read.ptx.sreg.ctaid.z", "read.ptx.sreg.nctaid.z",
                    "read.ptx.sreg.clusterid.z", "read.ptx.sreg.nclusterid.z", "read.ptx.sreg.cluster.ctaid.z",
                    "read.ptx.sreg.cluster.nctaid.z"});
  return rows;
}

} // namespace

const std::vector<Row> tilewright::emulator::registerRows = makeRows();
