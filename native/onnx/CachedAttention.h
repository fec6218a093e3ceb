// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with a cache of keys and values that grows by those of new rows: ONNX Runtime's GroupQueryAttention.

#ifndef TILEWRIGHT_ONNX_CACHEDATTENTION_H
#define TILEWRIGHT_ONNX_CACHEDATTENTION_H

#include "Plan.h"

namespace tilewright::onnx {

/// Puts new keys, turned by their positions, and values behind those of the cache, and calls the kernel of a product
/// of queries and keys for each sequence.
class CachedAttention : public Computation {
public:
  /// As for `Kernel`; the group has a cache.
  CachedAttention(const Session &session, const Plan &plan, const Group &group, const Node *fused,
                  const std::vector<const Node *> &nodes);

  void run(KernelContext *context) const override;

private:
  /// A tensor of a run.
  struct Given {
    const void *data = nullptr;
    std::vector<int64_t> shape;
  };
  struct Kept {
    std::optional<size_t> input;
    std::vector<char> constant;
    std::vector<int64_t> shape; // Of a constant.
  };
  Given given(KernelContext *context, size_t slot) const;
  float *made(KernelContext *context, size_t result, const std::vector<int64_t> &shape,
              std::vector<float> &unused) const;

  Session session;
  const Group &group;
  void *one, *many;
  std::vector<Kept> operands;
  std::vector<std::optional<size_t>> results; // Which result of the fused node each is; none for one that nobody reads.
};

} // namespace tilewright::onnx

#endif // TILEWRIGHT_ONNX_CACHEDATTENTION_H
