// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "CachedAttention.h"

#include <algorithm>
#include <cstring>

namespace tilewright::onnx {

namespace {

/// The inputs of the operator, by their places.
enum Slot { query, key, value, pastKey, pastValue, lengths, longest, cosines, sines, positions, slots };

void require(bool holds, const char *what) {
  if (!holds)
    throw std::runtime_error(std::string("GroupQueryAttention: ") + what);
}

int64_t elements(const std::vector<int64_t> &shape) {
  int64_t total = 1;
  for (int64_t each : shape)
    total *= each;
  return total;
}

/// Turns pairs of elements of a row by the angles of its position.
class Rotation {
public:
  Rotation(const void *cosine, const void *sine, const std::vector<int64_t> &shape, int64_t head, bool interleaved)
      : cosine(static_cast<const float *>(cosine)), sine(static_cast<const float *>(sine)), head(head),
        pairs(cosine ? shape.at(1) : 0), rows(cosine ? shape.at(0) : 0), isInterleaved(interleaved) {
    require(2 * pairs <= head, "cos_cache has more columns than half a head");
  }

  void turn(const float *from, int64_t position, float *to) const {
    if (!pairs) {
      std::memcpy(to, from, static_cast<size_t>(head) * sizeof(float));
      return;
    }
    require(position >= 0 && position < rows, "a position is beyond cos_cache");
    const float *c = cosine + position * pairs, *s = sine + position * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      int64_t first = isInterleaved ? 2 * i : i, second = isInterleaved ? 2 * i + 1 : i + pairs;
      float x = from[first], y = from[second];
      to[first] = x * c[i] - y * s[i];
      to[second] = x * s[i] + y * c[i];
    }
    std::copy(from + 2 * pairs, from + head, to + 2 * pairs);
  }

  bool isNone() const { return pairs == 0; }

private:
  const float *cosine, *sine;
  int64_t head, pairs, rows;
  bool isInterleaved;
};

} // namespace

CachedAttention::CachedAttention(const Session &own, const Plan &plan, const Group &whole, const Node *fused,
                                 const std::vector<const Node *> &nodes)
    : session(own), group(whole), one(plan.function(group.cache->one + "_tensors")),
      many(plan.function(group.cache->many + "_tensors")) {
  Bindings bindings(session, fused, nodes);
  require(group.cache->operands.size() == slots, "the plan has another number of operands");
  for (const std::string &name : group.cache->operands) {
    Kept &kept = operands.emplace_back();
    if (name.empty())
      continue;
    if (const ValueInfo *constant = bindings.constant(name)) {
      const auto *initial = session.get<GetInitializer, const Value *>(constant);
      const auto *data = static_cast<const char *>(session.get<GetTensorData, const void *>(initial));
      kept.constant.assign(data, data + session.get<GetTensorBytes, size_t>(initial));
      kept.shape = shapeOf(session, initial);
    } else
      kept.input = bindings.input(name);
  }
  std::vector<const ValueInfo *> made = session.outputs(fused);
  for (const std::string &name : group.results) {
    auto found =
        std::find_if(made.begin(), made.end(), [&](const ValueInfo *each) { return session.name(each) == name; });
    results.push_back(found == made.end() ? std::nullopt : std::optional(static_cast<size_t>(found - made.begin())));
  }
}

CachedAttention::Given CachedAttention::given(KernelContext *context, size_t slot) const {
  const Kept &kept = operands[slot];
  if (!kept.input)
    return {kept.constant.empty() ? nullptr : kept.constant.data(), kept.shape};
  const auto *tensor = session.get<KernelContextGetInput, const Value *>(context, *kept.input);
  return {session.get<GetTensorData, const void *>(tensor), shapeOf(session, tensor)};
}

float *CachedAttention::made(KernelContext *context, size_t result, const std::vector<int64_t> &shape,
                             std::vector<float> &unused) const {
  if (!results[result]) {
    unused.resize(static_cast<size_t>(elements(shape)));
    return unused.data();
  }
  auto *tensor = session.get<KernelContextGetOutput, Value *>(context, *results[result], shape.data(), shape.size());
  return static_cast<float *>(session.get<GetTensorMutableData, void *>(tensor));
}

void CachedAttention::run(KernelContext *context) const {
  const Cache &cache = *group.cache;
  std::vector<Given> all;
  for (size_t slot = 0; slot < slots; ++slot)
    all.push_back(given(context, slot));
  const int64_t head = cache.head, heads = cache.heads, kvHeads = cache.kvHeads;
  bool isPacked = operands[key].input == std::nullopt && operands[key].constant.empty();
  const std::vector<int64_t> &shape = all[query].shape;
  int64_t width = (isPacked ? heads + 2 * kvHeads : heads) * head, kvWidth = isPacked ? width : kvHeads * head;
  require(shape.size() == 3 && shape[2] == width, "the query has another width than the model says");
  int64_t batch = shape[0], rows = shape[1];
  std::vector<int64_t> ofNew{batch, rows, kvWidth};
  require(isPacked || (all[key].shape == ofNew && all[value].shape == ofNew), "key or value do not fit the query");
  int64_t past = 0;
  if (all[pastKey].shape.size() == 4) {
    past = all[pastKey].shape[2];
    std::vector<int64_t> ofPast{batch, kvHeads, past, head};
    require(all[pastKey].shape == ofPast && all[pastValue].shape == ofPast, "past_key or past_value do not fit");
  }
  require(elements(all[lengths].shape) == batch && elements(all[longest].shape) == 1,
          "seqlens_k or total_sequence_length have another number of elements");
  const auto *ends = static_cast<const int32_t *>(all[lengths].data);
  int64_t total = *static_cast<const int32_t *>(all[longest].data), room = std::max(total, past);
  require(total >= rows, "total_sequence_length is smaller than the number of new rows");
  require(all[positions].shape.empty() || elements(all[positions].shape) == batch * rows,
          "position_ids have another number of elements");
  const auto *numbers = static_cast<const int64_t *>(all[positions].data);
  require(!cache.isTurned || (all[cosines].shape.size() == 2 && all[sines].shape == all[cosines].shape),
          "cos_cache and sin_cache do not fit");
  Rotation rotation(cache.isTurned ? all[cosines].data : nullptr, all[sines].data, all[cosines].shape, head,
                    cache.isInterleaved);

  std::vector<float> unused[3];
  float *out = made(context, 0, {batch, rows, heads * head}, unused[0]);
  const auto *queries = static_cast<const float *>(all[query].data);
  const float *newRows[] = {isPacked ? queries + heads * head : static_cast<const float *>(all[key].data),
                            isPacked ? queries + (heads + kvHeads) * head
                                     : static_cast<const float *>(all[value].data)};
  const float *pasts[] = {static_cast<const float *>(all[pastKey].data),
                          static_cast<const float *>(all[pastValue].data)};
  float *presents[2];
  for (size_t i = 0; i < 2; ++i)
    presents[i] = made(context, i + 1, {batch, kvHeads, room, head}, unused[i + 1]);
  std::vector<float> turned(rotation.isNone() ? 0 : static_cast<size_t>(rows * heads * head));
  Running run(session.table(), context);
  for (int64_t b = 0; b < batch; ++b) {
    // The first rows of a cache start it, whatever is in it, and may end with rows that nobody reads.
    int64_t before = rows == total ? 0 : int64_t{ends[b]} + 1 - rows;
    require(before >= 0 && before <= past && before + rows <= room, "seqlens_k says more keys than the cache has");
    auto position = [&](int64_t row) { return numbers ? numbers[b * rows + row] : before + row; };
    for (size_t i = 0; i < 2; ++i)
      for (int64_t h = 0; h < kvHeads; ++h) {
        float *to = presents[i] + (b * kvHeads + h) * room * head;
        const float *from = pasts[i] ? pasts[i] + (b * kvHeads + h) * past * head : nullptr;
        if (from != to) { // Otherwise the session keeps both in one place.
          std::copy(from, from + before * head, to);
          std::fill(to + (before + rows) * head, to + room * head, 0.0F);
        }
        for (int64_t row = 0; row < rows; ++row) {
          const float *fresh = newRows[i] + (b * rows + row) * kvWidth + h * head;
          if (i == 0)
            rotation.turn(fresh, position(row), to + (before + row) * head);
          else
            std::copy(fresh, fresh + head, to + (before + row) * head);
        }
      }
    const float *q = queries + b * rows * width;
    for (int64_t row = 0; row < rows && !rotation.isNone(); ++row)
      for (int64_t h = 0; h < heads; ++h)
        rotation.turn(q + row * width + h * head, position(row), turned.data() + (row * heads + h) * head);
    int64_t step = rotation.isNone() ? width : heads * head, keys = before + rows;
    auto *from = const_cast<float *>(rotation.isNone() ? q : turned.data());
    int64_t extents[][3] = {{heads, rows, head}, {kvHeads, keys, head}};
    int64_t strides[][3] = {{head, step, 1}, {room * head, head, 1}, {head, heads * head, 1}};
    auto tensor = [&](float *data, int64_t *sizes, int64_t *steps) {
      return Tensor{data, {runtime::dlpack::cpu, 0}, 3, {2, 32, 1}, sizes, steps, 0}; // Of f32.
    };
    Tensor tensors[] = {tensor(from, extents[0], strides[0]),
                        tensor(presents[0] + b * kvHeads * room * head, extents[1], strides[1]),
                        tensor(presents[1] + b * kvHeads * room * head, extents[1], strides[1]),
                        tensor(out + b * rows * heads * head, extents[0], strides[2])};
    const Tensor *pointers[] = {&tensors[0], &tensors[1], &tensors[2], &tensors[3]};
    if (rows)
      checkStatus(reinterpret_cast<TensorEntry *>(rows == 1 ? one : many)(pointers),
                  rows == 1 ? cache.one : cache.many);
  }
}

} // namespace tilewright::onnx
