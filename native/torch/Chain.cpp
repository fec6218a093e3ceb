// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Chain.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tilewright::torch_ops {

namespace {

constexpr int64_t largePage = 1 << 21;

/// Memory of this thread that grows and is kept: torch's own of some megabytes may go back to the system at each call,
/// and each page is cleared then.
class Memory {
public:
  char *get(int64_t wanted) {
    if (wanted <= size)
      return data;
    std::free(data);
    size = 0;
    int64_t rounded = (wanted + largePage - 1) / largePage * largePage;
    data = static_cast<char *>(std::aligned_alloc(largePage, static_cast<size_t>(rounded)));
    if (!data)
      throw std::runtime_error("there is no memory of " + std::to_string(rounded) + " bytes for results of kernels");
#ifdef __linux__
    madvise(data, static_cast<size_t>(rounded), MADV_HUGEPAGE);
#endif
    size = rounded;
    return data;
  }
  ~Memory() { std::free(data); }

private:
  char *data = nullptr;
  int64_t size = 0;
};

thread_local Memory memory;

View viewFrom(const Json &sizes, const Json &strides, int32_t type) {
  View view;
  view.rank = static_cast<int64_t>(sizes.list().size());
  view.type = type;
  if (view.rank > mostDimensions || strides.list().size() != sizes.list().size())
    throw std::runtime_error("a tensor of a chain has " + std::to_string(view.rank) + " sizes and " +
                             std::to_string(strides.list().size()) + " strides; expected as many, at most " +
                             std::to_string(mostDimensions));
  for (int64_t axis = 0; axis < view.rank; ++axis) {
    view.sizes[axis] = sizes.list()[axis].integer();
    view.strides[axis] = strides.list()[axis].integer();
    if (view.sizes[axis] < 0 || view.strides[axis] < 0)
      throw std::runtime_error("a tensor of a chain has a size or a stride below zero; expected none");
  }
  return view;
}

/// Elements from the first to the last one of a view.
int64_t span(const View &view) {
  int64_t last = 0;
  for (int64_t axis = 0; axis < view.rank; ++axis) {
    if (view.sizes[axis] <= 0)
      return 0;
    last += (view.sizes[axis] - 1) * view.strides[axis];
  }
  return last + 1;
}

int64_t itemBytes(const View &view) { return static_cast<int64_t>(aoti_torch_dtype_element_size(view.type)); }

} // namespace

const Chain &Chain::of(const std::string &text) {
  static std::shared_mutex mutex;
  static std::unordered_map<std::string, std::unique_ptr<Chain>> known;
  {
    std::shared_lock lock(mutex);
    auto found = known.find(text);
    if (found != known.end())
      return *found->second;
  }
  std::string json = text;
  std::replace(json.begin(), json.end(), '`', '"');
  auto made = std::make_unique<Chain>(Json::parse(json));
  std::unique_lock lock(mutex);
  return *known.try_emplace(text, std::move(made)).first->second;
}

Chain::Chain(const Json &text) {
  operandCount = static_cast<size_t>(text["operands"].integer());
  bytes = text["bytes"].integer();
  for (const Json &each : text["steps"].list()) {
    Step step{each["kernel"].text(), {}, {}, each["start"].integer(), {}, -1};
    int32_t type = typeOf(each["type"].text());
    if (type < 0)
      type = typeOf("ml_dtypes." + each["type"].text());
    if (type < 0)
      throw std::runtime_error("a step of a chain makes " + each["type"].text() + "; expected a type that torch has");
    step.result = viewFrom(each["sizes"], each["strides"], type);
    for (const Json &axis : each["axes"].list())
      step.axes.push_back(axis.integer());
    if (step.start >= 0 && step.start + span(step.result) * itemBytes(step.result) > bytes)
      throw std::runtime_error("a result of a chain lies outside of its " + std::to_string(bytes) + " bytes");
    for (const Json &from : each["operands"].list()) {
      int64_t number = from["number"].integer();
      bool isResult = from["result"].boolean();
      if (number < 0 || number >= static_cast<int64_t>(isResult ? steps.size() : operandCount))
        throw std::runtime_error("a step of a chain takes " + std::string(isResult ? "result " : "operand ") +
                                 std::to_string(number) + "; expected one that is there before");
      Source source{number, isResult, 0, {}};
      if (isResult) {
        const View &whole = steps[number].result;
        source.offset = from["offset"].integer();
        source.view = viewFrom(from["sizes"], from["strides"], whole.type);
        if (source.offset < 0 || source.offset + span(source.view) > span(whole))
          throw std::runtime_error("a step of a chain reads elements that result " + std::to_string(number) +
                                   " does not have");
      }
      step.operands.push_back(source);
    }
    steps.push_back(std::move(step));
  }
  for (const Json &each : text["left"].list()) {
    int64_t number = each.integer();
    if (number < 0 || number >= static_cast<int64_t>(steps.size()) || steps[number].start >= 0)
      throw std::runtime_error("result " + std::to_string(number) + " of a chain is left; expected a new tensor");
    steps[number].left = static_cast<int64_t>(resultCount++);
  }
  if (std::any_of(steps.begin(), steps.end(), [](const Step &each) { return each.start < 0 && each.left < 0; }))
    throw std::runtime_error("a chain makes a new tensor that is not left; expected one that lies in its memory");
}

std::vector<Owned> Chain::run(const std::vector<Owned> &operands) const {
  if (operands.size() != operandCount)
    throw std::runtime_error("a chain of kernels takes " + std::to_string(operandCount) + " operands; there are " +
                             std::to_string(operands.size()));
  std::vector<View> given, made(steps.size()), views;
  given.reserve(operands.size());
  for (const Owned &each : operands)
    given.push_back(viewOf(each.get()));
  std::vector<Owned> left(resultCount);
  char *base = bytes ? memory.get(bytes) : nullptr;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    views.clear();
    for (const Source &each : step.operands) {
      if (!each.isResult) {
        views.push_back(given[each.number]);
        continue;
      }
      views.push_back(each.view);
      views.back().data = static_cast<char *>(made[each.number].data) + each.offset * itemBytes(each.view);
    }
    const Kernel &kernel = Registry::instance().require(step.kernel);
    made[i] = step.result;
    if (step.start >= 0) {
      made[i].data = base + step.start;
      kernel.callAt(views.data(), views.size(), made[i]);
      continue;
    }
    if (kernel.results() != 1)
      throw std::runtime_error("tilewright kernel " + step.kernel + " has " + std::to_string(kernel.results()) +
                               " results; expected one");
    Owned &result = left[step.left];
    kernel.call(views.data(), views.size(), &result, step.axes.empty() ? nullptr : &step.axes);
    View real = viewOf(result.get());
    bool isAsSaid = real.rank == step.result.rank && real.type == step.result.type &&
                    std::equal(real.sizes.begin(), real.sizes.begin() + real.rank, step.result.sizes.begin());
    if (!isAsSaid)
      throw std::runtime_error("tilewright kernel " + step.kernel + " made a tensor of shape " +
                               shapeText(real.sizes.data(), real.rank) + "; expected " +
                               shapeText(step.result.sizes.data(), step.result.rank));
    made[i].data = real.data;
  }
  return left;
}

} // namespace tilewright::torch_ops
