// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of torch's namespace "tilewright", registered by torch's stable ABI: one binary serves many versions of
// torch.

#include "Attention.h"
#include "Chain.h"
#include "Convolution.h"
#include "Product.h"
#include "Registry.h"
#include "Stack.h"

#include <torch/csrc/stable/library.h>

namespace tilewright::torch_ops {

namespace {

constexpr size_t mostResults = 8;

/// Views of tensors that an op was given, in order.
std::vector<View> viewsOf(const std::vector<Owned> &tensors) {
  std::vector<View> views;
  views.reserve(tensors.size());
  for (const Owned &each : tensors)
    views.push_back(viewOf(each.get()));
  return views;
}

void requireResults(const Kernel &kernel, size_t most) {
  if (kernel.results() > most)
    throw std::runtime_error("tilewright kernel " + kernel.name() + " has " + std::to_string(kernel.results()) +
                             " results; expected at most " + std::to_string(most));
}

/// call(str kernel, Tensor[] operands) -> Tensor
void call(StableIValue *stack, uint64_t, uint64_t) {
  Text name(stack[0]);
  std::vector<Owned> tensors = takeList(stack[1]);
  const Kernel &kernel = Registry::instance().require(name.get());
  requireResults(kernel, 1);
  std::vector<View> views = viewsOf(tensors);
  Owned made;
  kernel.call(views.data(), views.size(), &made);
  stack[0] = give(std::move(made));
}

/// call_in_order(str kernel, Tensor[] operands, int[] axes) -> Tensor
void callInOrder(StableIValue *stack, uint64_t, uint64_t) {
  Text name(stack[0]);
  std::vector<Owned> tensors = takeList(stack[1]);
  std::vector<int64_t> axes = takeNumbers(stack[2]);
  const Kernel &kernel = Registry::instance().require(name.get());
  requireResults(kernel, 1);
  std::vector<View> views = viewsOf(tensors);
  Owned made;
  kernel.call(views.data(), views.size(), &made, &axes);
  stack[0] = give(std::move(made));
}

/// call_many(str kernel, Tensor[] operands) -> Tensor[]
void callMany(StableIValue *stack, uint64_t, uint64_t) {
  Text name(stack[0]);
  std::vector<Owned> tensors = takeList(stack[1]);
  const Kernel &kernel = Registry::instance().require(name.get());
  requireResults(kernel, mostResults);
  std::vector<View> views = viewsOf(tensors);
  std::vector<Owned> made(kernel.results());
  kernel.call(views.data(), views.size(), made.data());
  stack[0] = giveList(std::move(made));
}

/// call_out(str kernel, Tensor[] operands, Tensor(a!)[] out) -> ()
void callOut(StableIValue *stack, uint64_t, uint64_t) {
  Text name(stack[0]);
  std::vector<Owned> tensors = takeList(stack[1]), results = takeList(stack[2]);
  const Kernel &kernel = Registry::instance().require(name.get());
  std::vector<View> views = viewsOf(tensors), into = viewsOf(results);
  kernel.callInto(views.data(), views.size(), into.data(), into.size());
}

/// call_chain(str chain, Tensor[] operands) -> Tensor
void callChain(StableIValue *stack, uint64_t, uint64_t) {
  Text text(stack[0]);
  std::vector<Owned> made = Chain::of(text.get()).run(takeList(stack[1]));
  if (made.size() != 1)
    throw std::runtime_error("a chain of kernels has " + std::to_string(made.size()) + " results; expected one");
  stack[0] = give(std::move(made.front()));
}

/// call_chain_many(str chain, Tensor[] operands) -> Tensor[]
void callChainMany(StableIValue *stack, uint64_t, uint64_t) {
  Text text(stack[0]);
  stack[0] = giveList(Chain::of(text.get()).run(takeList(stack[1])));
}

/// matmul(Tensor a, Tensor b) -> Tensor
void matmul(StableIValue *stack, uint64_t, uint64_t) {
  Owned a = take(stack[0]), b = take(stack[1]);
  stack[0] = give(compute({a.get(), b.get(), false, {}}));
}

/// What linear layers do after their product.
std::vector<Entry> entriesOf(const Owned &bias, const Text &activation, const Owned &residual) {
  std::vector<Entry> entries;
  if (bias)
    entries.push_back({"bias", bias.get(), "n"});
  if (activation.get() != "none")
    entries.push_back({activation.get()});
  if (residual)
    entries.push_back({"residual", residual.get(), "mn"});
  return entries;
}

/// linear(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str activation) -> Tensor
void linear(StableIValue *stack, uint64_t, uint64_t) {
  Owned x = take(stack[0]), weight = take(stack[1]), bias = takeOptional(stack[2]), residual = takeOptional(stack[3]);
  Text activation(stack[4]);
  stack[0] = give(compute({x.get(), weight.get(), true, entriesOf(bias, activation, residual)}));
}

/// linear_glu(Tensor x, Tensor gate, Tensor up, str activation) -> Tensor
void linearGlu(StableIValue *stack, uint64_t, uint64_t) {
  Owned x = take(stack[0]), gate = take(stack[1]), up = take(stack[2]);
  Text activation(stack[3]);
  stack[0] = give(compute({x.get(), gate.get(), true, {{"glu-" + activation.get(), up.get(), "b"}}}));
}

/// linear_quantized(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, Tensor? bias, Tensor? residual, str element,
/// int group, str activation, str precision) -> Tensor
void linearQuantized(StableIValue *stack, uint64_t, uint64_t) {
  Owned x = take(stack[0]), codes = take(stack[1]), scales = take(stack[2]), zeros = takeOptional(stack[3]),
        bias = takeOptional(stack[4]), residual = takeOptional(stack[5]);
  Text element(stack[6]);
  Text activation(stack[8]), precision(stack[9]);
  Quantized weights{element.get(), torch::stable::detail::to<int64_t>(stack[7]), scales.get(), zeros.get(),
                    precision.get()};
  stack[0] = give(compute({x.get(), codes.get(), true, entriesOf(bias, activation, residual), &weights}));
}

/// linears_quantized(Tensor x, Tensor[] codes, Tensor[] scales, Tensor[] zeros, Tensor[] biases, str element, int
/// group, str precision) -> Tensor
void linearsQuantized(StableIValue *stack, uint64_t, uint64_t) {
  Owned x = take(stack[0]);
  Text element(stack[5]), precision(stack[7]);
  stack[0] =
      give(computeJoined({x.get(), takeList(stack[1]), takeList(stack[2]), takeList(stack[3]), takeList(stack[4]),
                          element.get(), torch::stable::detail::to<int64_t>(stack[6]), precision.get()}));
}

/// conv2d(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, int[] dilation, int
/// groups, str activation) -> Tensor
void conv2d(StableIValue *stack, uint64_t, uint64_t) {
  Owned x = take(stack[0]), weight = take(stack[1]), bias = takeOptional(stack[2]), residual = takeOptional(stack[3]);
  std::vector<int64_t> stride = takeNumbers(stack[4]), padding = takeNumbers(stack[5]),
                       dilation = takeNumbers(stack[6]);
  int64_t groups = torch::stable::detail::to<int64_t>(stack[7]);
  Text activation(stack[8]);
  stack[0] = give(compute(Convolution{x.get(), weight.get(), bias.get(), residual.get(), stride, padding, dilation,
                                      groups, activation.get()}));
}

/// attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale) -> Tensor
void attention(StableIValue *stack, uint64_t, uint64_t) {
  Owned q = take(stack[0]), k = take(stack[1]), v = take(stack[2]), mask = takeOptional(stack[3]);
  bool causal = torch::stable::detail::to<bool>(stack[4]);
  auto scale = torch::stable::detail::to<double>(stack[5]);
  stack[0] = give(compute(Attention{q.get(), k.get(), v.get(), mask.get(), causal, scale}));
}

/// An op of tensors, which is there twice: under its name, with a gradient that Python gives it, and with "_" before
/// it, without one. Calls that need no gradient take the latter, since the former goes through Python first.
struct Op {
  const char *name;
  const char *schema;
  void (*run)(StableIValue *, uint64_t, uint64_t);
};

const Op ops[] = {
    {"matmul", "(Tensor a, Tensor b) -> Tensor", matmul},
    {"linear", "(Tensor x, Tensor weight, Tensor? bias=None, Tensor? residual=None, str activation='none') -> Tensor",
     linear},
    {"linear_quantized",
     "(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, Tensor? bias, Tensor? residual, str element, int group, "
     "str activation, str precision='-') -> Tensor",
     linearQuantized},
    {"conv2d",
     "(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, int[] dilation, int "
     "groups, "
     "str activation) -> Tensor",
     conv2d},
    {"attention", "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale) -> Tensor", attention},
    {"linear_glu", "(Tensor x, Tensor gate, Tensor up, str activation='silu') -> Tensor", linearGlu},
};

} // namespace

STABLE_TORCH_LIBRARY(tilewright, m) {
  m.def("call(str kernel, Tensor[] operands) -> Tensor");
  m.def("call_in_order(str kernel, Tensor[] operands, int[] axes) -> Tensor");
  m.def("call_many(str kernel, Tensor[] operands) -> Tensor[]");
  m.def("call_chain(str chain, Tensor[] operands) -> Tensor");
  m.def("call_chain_many(str chain, Tensor[] operands) -> Tensor[]");
  m.def("call_out(str kernel, Tensor[] operands, Tensor(a!)[] out) -> ()");
  m.def("linears_quantized(Tensor x, Tensor[] codes, Tensor[] scales, Tensor[] zeros, Tensor[] biases, str element, "
        "int group, str precision) -> Tensor");
  for (const Op &op : ops)
    for (const char *prefix : {"", "_"})
      m.def((std::string(prefix) + op.name + op.schema).c_str());
}

STABLE_TORCH_LIBRARY_IMPL(tilewright, CPU, m) {
  m.impl("call", call);
  m.impl("call_in_order", callInOrder);
  m.impl("call_many", callMany);
  m.impl("call_chain", callChain);
  m.impl("call_chain_many", callChainMany);
  m.impl("call_out", callOut);
  m.impl("linears_quantized", linearsQuantized);
  for (const Op &op : ops)
    for (const char *prefix : {"", "_"})
      m.impl((std::string(prefix) + op.name).c_str(), op.run);
}

} // namespace tilewright::torch_ops
