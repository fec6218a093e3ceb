// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `tilewright.onnx.build` made of a model: groups of nodes, and for each the kernel of a library that computes it.

#ifndef TILEWRIGHT_ONNX_PLAN_H
#define TILEWRIGHT_ONNX_PLAN_H

#include "../runtime/DLPack.h"
#include "../torch/Json.h"
#include "Session.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::onnx {

using runtime::dlpack::Tensor;
using torch_ops::Json;

/// How a kernel sees a tensor of the model: its axes are split, then put in another order, then neighbors are joined.
struct View {
  std::string value;
  /// Extents after splitting: a number; -1 - i for that of axis i of the tensor; none where the others leave it open.
  std::vector<std::optional<int64_t>> split;
  /// By axis of the kernel's operand, the axes after splitting that are joined to it.
  std::vector<std::vector<size_t>> axes;
  /// What the kernel takes: a number; or -1 - i for the extent i, which is one number in all operands.
  std::vector<int64_t> extents;
  /// The kernel is called for each index of the first axis, which is not in `extents`.
  bool isRepeated;
  uint8_t kind, bits; // DLPack's.
  /// The name of the entries that pack a constant, and its matrix; empty: it is taken as it is.
  std::string pack;
  int64_t k, n, leading;
  /// A constant matrix of bytes that has two elements in a byte, in rows of whole bytes, the first in the low half.
  bool isHalved;
};

/// An extent of a result in the model: a number, or that of an axis of an operand.
struct Extent {
  int64_t number;
  std::optional<size_t> operand;
};

/// Attention with a cache of f32, ONNX Runtime's GroupQueryAttention.
struct Cache {
  std::string one, many; // The kernels for one row of queries, and for any number.
  int64_t heads, kvHeads, head;
  bool isTurned, isInterleaved;      // By their positions; pairs are neighbors.
  std::vector<std::string> operands; // By their places; empty: not there.
};

/// Nodes that one kernel computes.
struct Group {
  std::vector<std::string> nodes;   // As `describe` has them.
  std::vector<std::string> results; // Their names. The first one names the group.
  std::optional<Cache> cache;       // Where there is one, nothing below is used.
  std::string entry;
  bool isPlain; // The entry is that of a product of two matrices.
  bool transposed[2];
  std::vector<View> operands;
  View result;
  std::vector<Extent> extents; // Of the result.
};

/// A plan and its library. Immutable after construction.
class Plan {
public:
  /// Reads a file that `tilewright.onnx.build` wrote, and loads the library beside it. Throws std::runtime_error.
  explicit Plan(const std::string &path);
  ~Plan();
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  const std::vector<Group> &groups() const { return all; }
  /// A function of the library. Throws std::runtime_error where it has none of the name.
  void *function(const std::string &name) const;

private:
  std::vector<Group> all;
  void *library = nullptr;
};

/// Where the values of a group come from: the inputs of the node in its place, or constants of the model.
class Bindings {
public:
  Bindings(const Session &session, const Node *fused, const std::vector<const Node *> &nodes);

  /// A constant of that name, or null.
  const ValueInfo *constant(const std::string &name) const;
  /// Which input has the name. Throws std::runtime_error where none has.
  size_t input(const std::string &name) const;

private:
  std::map<std::string, size_t> inputs;
  std::map<std::string, const ValueInfo *> constants;
};

std::vector<int64_t> shapeOf(const Session &session, const Value *value);

/// The entry of a kernel that takes tensors, the result last.
using TensorEntry = int32_t(const Tensor *const *tensors);
/// Throws std::runtime_error where an entry returned another status than 0.
void checkStatus(int32_t status, const std::string &name);

/// Tells kernels in which run this thread is, whose threads they use.
struct Running {
  Running(const Functions *table, const KernelContext *context);
  ~Running();
};

/// What computes a group in a session.
class Computation {
public:
  virtual ~Computation() = default;
  /// Computes the results of a run. Throws std::runtime_error.
  virtual void run(KernelContext *context) const = 0;
};

/// A group in a session: its kernel, and copies of its constants, packed where the kernel takes them so.
class Kernel : public Computation {
public:
  /// `fused` is the node in place of the group, `nodes` are those of the group. Throws std::runtime_error.
  Kernel(const Session &session, const Plan &plan, const Group &group, const Node *fused,
         const std::vector<const Node *> &nodes);

  void run(KernelContext *context) const override;

private:
  struct Free {
    void operator()(void *memory) const;
  };
  struct Bound {
    std::optional<size_t> input;
    std::unique_ptr<void, Free> constant;
    std::vector<int64_t> shape; // Of a constant.
  };
  void keep(Bound &bound, const View &view, const ValueInfo *value);

  Session session;
  const Plan &plan;
  const Group &group;
  void *entry;
  std::vector<Bound> operands;
};

} // namespace tilewright::onnx

#endif // TILEWRIGHT_ONNX_PLAN_H
