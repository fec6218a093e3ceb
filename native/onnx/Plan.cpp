// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>

namespace tilewright::onnx {

namespace {

/// The context of the run that this thread is in, whose threads kernels use.
thread_local const KernelContext *running = nullptr;
thread_local const Functions *runningTable = nullptr;

struct Task {
  void (*call)(void *data, int32_t index);
  void *data;
};

void runOne(void *task, size_t index) {
  auto *given = static_cast<Task *>(task);
  given->call(given->data, static_cast<int32_t>(index));
}

/// Runs the tasks of a kernel in the threads of the session, as `NAME_set_pool` wants it.
void runTasks(void *, int32_t count, void (*call)(void *data, int32_t index), void *data) {
  Task task{call, data};
  Status *status = ParallelFor::call(runningTable, running, runOne, static_cast<size_t>(count), 0, &task);
  if (!status)
    return;
  ReleaseStatus::call(runningTable, status); // Before any task ran.
  for (int32_t i = 0; i < count; ++i)
    call(data, i);
}

std::vector<int64_t> integers(const Json &list) {
  std::vector<int64_t> found;
  for (const Json &each : list.list())
    found.push_back(each.integer());
  return found;
}

View viewOf(const Json &given) {
  View view{given["value"].text(),
            {},
            {},
            integers(given["extents"]),
            given["repeated"].boolean(),
            static_cast<uint8_t>(given["kind"].integer()),
            static_cast<uint8_t>(given["bits"].integer()),
            {},
            0,
            0,
            0,
            given.find("halved") != nullptr};
  for (const Json &each : given["split"].list())
    view.split.push_back(each.isNull() ? std::nullopt : std::optional(each.integer()));
  for (const Json &each : given["axes"].list()) {
    view.axes.emplace_back();
    for (int64_t axis : integers(each))
      view.axes.back().push_back(static_cast<size_t>(axis));
  }
  if (const Json *pack = given.find("pack")) {
    view.pack = pack->list().at(0).text();
    view.k = pack->list().at(1).integer();
    view.n = pack->list().at(2).integer();
    view.leading = pack->list().at(3).integer();
  }
  if (view.axes.size() != view.extents.size() + view.isRepeated)
    throw std::runtime_error("a view of " + view.value + " has another number of axes than of extents");
  if (view.isHalved && (view.extents.size() != 2 || std::min(view.extents[0], view.extents[1]) < 1))
    throw std::runtime_error("a view of " + view.value + ", of two elements in a byte, is no matrix");
  return view;
}

std::vector<std::string> texts(const Json &list) {
  std::vector<std::string> found;
  for (const Json &each : list.list())
    found.push_back(each.text());
  return found;
}

Group groupOf(const Json &given) {
  Group group{};
  group.nodes = texts(given["nodes"]);
  if (const Json *cache = given.find("cache")) {
    group.results = texts((*cache)["results"]);
    group.cache = Cache{(*cache)["one"].text(),
                        (*cache)["many"].text(),
                        (*cache)["heads"].integer(),
                        (*cache)["kv_heads"].integer(),
                        (*cache)["head"].integer(),
                        (*cache)["turned"].boolean(),
                        (*cache)["interleaved"].boolean(),
                        texts((*cache)["operands"])};
    if (group.results.size() != 3)
      throw std::runtime_error("attention with a cache has another number of results than three");
    return group;
  }
  group.entry = given["entry"].text();
  group.isPlain = given["plain"].boolean();
  group.result = viewOf(given["result"]);
  group.results = {group.result.value};
  for (int i = 0; i < 2; ++i)
    group.transposed[i] = given["transposed"].list().at(static_cast<size_t>(i)).boolean();
  for (const Json &each : given["operands"].list())
    group.operands.push_back(viewOf(each));
  for (const Json &each : given["shape"].list()) {
    std::vector<int64_t> pair = integers(each);
    if (pair.empty())
      throw std::runtime_error("a group's result has an extent that is nothing");
    if (pair.size() == 2 && static_cast<size_t>(pair[0]) >= group.operands.size())
      throw std::runtime_error("a group's result has an extent of an operand that is not there");
    group.extents.push_back(
        {pair.back(), pair.size() == 2 ? std::optional(static_cast<size_t>(pair[0])) : std::nullopt});
  }
  if (group.isPlain && group.operands.size() != 2)
    throw std::runtime_error("a plain product has other operands than two");
  return group;
}

/// A view of a tensor in a run.
struct Seen {
  std::vector<int64_t> extents, strides;

  Seen(const View &view, const std::vector<int64_t> &shape) {
    std::vector<int64_t> split, steps;
    int64_t total = 1, known = 1;
    for (int64_t each : shape)
      total *= each;
    size_t open = view.split.size();
    for (size_t i = 0; i < view.split.size(); ++i) {
      int64_t size = 1;
      if (!view.split[i])
        open = i;
      else
        size = *view.split[i] >= 0 ? *view.split[i] : shape.at(static_cast<size_t>(-1 - *view.split[i]));
      split.push_back(size);
      known *= size;
    }
    if (open < split.size())
      known *= split[open] = known ? total / known : 0;
    if (known != total)
      throw std::runtime_error("\"" + view.value + "\" has another number of elements than the model says");
    steps.resize(split.size());
    for (size_t i = split.size(); i-- > 0;)
      steps[i] = i + 1 < split.size() ? steps[i + 1] * std::max<int64_t>(split[i + 1], 1) : 1;
    for (const std::vector<size_t> &joined : view.axes) {
      extents.push_back(1);
      strides.push_back(1);
      for (size_t axis : joined) {
        extents.back() *= split.at(axis);
        strides.back() = steps.at(axis);
      }
    }
  }

  /// Compares them with what the kernel takes, and with those of operands before.
  void check(const View &view, std::vector<int64_t> &numbers) const {
    for (size_t i = 0; i < view.extents.size(); ++i) {
      int64_t wanted = view.extents[i], found = extents[i + view.isRepeated];
      if (wanted < 0) {
        auto place = static_cast<size_t>(-1 - wanted);
        if (numbers.size() <= place)
          numbers.resize(place + 1, -1);
        if (numbers[place] < 0)
          numbers[place] = found;
        wanted = numbers[place];
      }
      if (found != wanted)
        throw std::runtime_error("\"" + view.value + "\" has an extent of " + std::to_string(found) + "; expected " +
                                 std::to_string(wanted) + ", as the model says");
    }
  }
};

using PlainEntry = int32_t(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                           void *c, int64_t ldc);
using PackEntry = int32_t(int64_t k, int64_t n, const void *b, int64_t ldb, void *packed);
using BytesEntry = int64_t(int64_t k, int64_t n);

constexpr size_t alignment = 64;

/// A matrix of bytes from one of two elements in a byte.
void unpack(const unsigned char *halves, int64_t rows, int64_t columns, unsigned char *into) {
  for (int64_t row = 0; row < rows; ++row, halves += (columns + 1) / 2)
    for (int64_t column = 0; column < columns; ++column)
      *into++ = column % 2 ? halves[column / 2] >> 4 : halves[column / 2] & 15;
}

} // namespace

void checkStatus(int32_t status, const std::string &name) {
  static const char *const reasons[] = {"",
                                        "was compiled for other extents",
                                        "found no memory",
                                        "got a matrix that other code packed",
                                        "got an operand of another kind",
                                        "got an index out of range",
                                        "has no code for this processor"};
  if (status)
    throw std::runtime_error("the kernel " + name + " " + (status > 0 && status < 7 ? reasons[status] : "failed"));
}

Running::Running(const Functions *table, const KernelContext *context) {
  running = context;
  runningTable = table;
}

Running::~Running() { running = nullptr; }

std::vector<int64_t> shapeOf(const Session &session, const Value *value) {
  auto *info = session.get<GetTensorTypeAndShape, TensorInfo *>(value);
  std::vector<int64_t> shape(session.get<GetDimensionsCount, size_t>(info));
  session.call<GetDimensions>(info, shape.data(), shape.size());
  ReleaseTensorInfo::call(session.table(), info);
  return shape;
}

Bindings::Bindings(const Session &session, const Node *fused, const std::vector<const Node *> &nodes) {
  for (const ValueInfo *each : session.inputs(fused))
    inputs.emplace(session.name(each), inputs.size());
  for (const Node *node : nodes)
    for (const ValueInfo *each : session.inputs(node))
      if (each && session.get<IsConstant, bool>(each))
        constants[session.name(each)] = each;
}

const ValueInfo *Bindings::constant(const std::string &name) const {
  auto found = constants.find(name);
  return found == constants.end() ? nullptr : found->second;
}

size_t Bindings::input(const std::string &name) const {
  auto found = inputs.find(name);
  if (found == inputs.end())
    throw std::runtime_error("no value is called \"" + name + "\"");
  return found->second;
}

Plan::Plan(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    throw std::runtime_error("cannot read \"" + path + "\"; expected the plan that tilewright.onnx.build wrote");
  try {
    Json plan = Json::parse(text.str());
    if (plan["format"].integer() != 1)
      throw std::runtime_error("it is of another format");
    for (const Json &each : plan["groups"].list())
      all.push_back(groupOf(each));
    if (all.empty())
      return;
    const std::string &name = plan["library"].text();
    std::string place = path.substr(0, path.find_last_of('/') + 1) + "lib" + name + ".so";
    library =
        dlopen(place.find('/') == std::string::npos ? ("./" + place).c_str() : place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(dlerror());
    using SetPool = void(void (*)(void *, int32_t, void (*)(void *, int32_t), void *), void *, int32_t);
    if (void *setPool = dlsym(library, (name + "_set_pool").c_str()))
      reinterpret_cast<SetPool *>(setPool)(runTasks, nullptr, static_cast<int32_t>(plan["threads"].integer()));
  } catch (const std::exception &error) {
    throw std::runtime_error("\"" + path + "\": " + error.what() +
                             ". Build the kernels again by tilewright.onnx.build");
  }
}

Plan::~Plan() {
  if (library)
    dlclose(library);
}

void *Plan::function(const std::string &name) const {
  void *found = dlsym(library, name.c_str());
  if (!found)
    throw std::runtime_error("the library has no function " + name);
  return found;
}

void Kernel::Free::operator()(void *memory) const { std::free(memory); }

Kernel::Kernel(const Session &given, const Plan &whole, const Group &own, const Node *fused,
               const std::vector<const Node *> &nodes)
    : session(given), plan(whole), group(own), entry(plan.function(own.entry + (own.isPlain ? "" : "_tensors"))) {
  Bindings bindings(session, fused, nodes);
  for (const View &view : group.operands) {
    Bound &bound = operands.emplace_back();
    if (const ValueInfo *constant = bindings.constant(view.value))
      keep(bound, view, constant);
    else
      bound.input = bindings.input(view.value);
  }
}

void Kernel::keep(Bound &bound, const View &view, const ValueInfo *value) {
  const auto *initial = session.get<GetInitializer, const Value *>(value);
  const auto *data = session.get<GetTensorData, const void *>(initial);
  bound.shape = shapeOf(session, initial);
  auto size = static_cast<int64_t>(session.get<GetTensorBytes, size_t>(initial));
  if (view.isHalved) {
    int64_t rows = view.extents[0], columns = view.extents[1];
    if (size != rows * ((columns + 1) / 2))
      throw std::runtime_error("\"" + view.value + "\" has another number of elements than the model says");
    bound.shape = {rows, columns};
    size = rows * columns;
  } else if (!view.pack.empty())
    size = reinterpret_cast<BytesEntry *>(plan.function(view.pack + "_packed_b_bytes"))(view.k, view.n);
  if (size < 0)
    throw std::runtime_error("the kernel " + group.entry + " packs no matrix for this processor");
  auto room = (static_cast<size_t>(size) + alignment) / alignment * alignment;
  bound.constant.reset(std::aligned_alloc(alignment, room));
  if (!bound.constant)
    throw std::runtime_error("no memory for a constant of " + std::to_string(size) + " bytes");
  if (view.isHalved)
    unpack(static_cast<const unsigned char *>(data), bound.shape[0], bound.shape[1],
           static_cast<unsigned char *>(bound.constant.get()));
  else if (view.pack.empty())
    std::memcpy(bound.constant.get(), data, static_cast<size_t>(size));
  else
    checkStatus(reinterpret_cast<PackEntry *>(plan.function(view.pack + "_pack_b"))(view.k, view.n, data, view.leading,
                                                                                    bound.constant.get()),
                group.entry);
}

void Kernel::run(KernelContext *context) const {
  std::vector<std::vector<int64_t>> shapes;
  std::vector<Seen> seen;
  std::vector<void *> places;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Bound &bound = operands[i];
    shapes.push_back(bound.shape);
    if (bound.input) {
      const auto *value = session.get<KernelContextGetInput, const Value *>(context, *bound.input);
      shapes.back() = shapeOf(session, value);
      places.push_back(const_cast<void *>(session.get<GetTensorData, const void *>(value)));
    } else
      places.push_back(bound.constant.get());
    seen.emplace_back(group.operands[i], shapes.back());
    seen.back().check(group.operands[i], numbers);
  }
  std::vector<int64_t> shape;
  for (const Extent &each : group.extents)
    shape.push_back(each.operand ? shapes[*each.operand].at(static_cast<size_t>(each.number)) : each.number);
  auto *made = session.get<KernelContextGetOutput, Value *>(context, size_t{0}, shape.data(), shape.size());
  places.push_back(session.get<GetTensorMutableData, void *>(made));
  seen.emplace_back(group.result, shape);
  seen.back().check(group.result, numbers);

  int64_t repeats = group.result.isRepeated ? seen.back().extents[0] : 1;
  std::vector<Tensor> tensors;
  std::vector<const Tensor *> pointers;
  for (size_t i = 0; i < seen.size(); ++i) {
    const View &view = i < operands.size() ? group.operands[i] : group.result;
    if (view.isRepeated && seen[i].extents[0] != repeats)
      throw std::runtime_error("\"" + view.value + "\" has another extent along its first axis than the result");
    auto rank = static_cast<int32_t>(view.pack.empty() ? view.extents.size() : 0);
    tensors.push_back({places[i],
                       {runtime::dlpack::cpu, 0},
                       rank,
                       {view.kind, view.bits, 1},
                       seen[i].extents.data() + view.isRepeated,
                       seen[i].strides.data() + view.isRepeated,
                       0});
  }
  for (const Tensor &each : tensors)
    pointers.push_back(&each);
  Running run(session.table(), context);
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    if (group.isPlain) {
      const Tensor &a = tensors[0], &b = tensors[1], &c = tensors[2];
      checkStatus(reinterpret_cast<PlainEntry *>(entry)(c.shape[0], c.shape[1], a.shape[!group.transposed[0]], a.data,
                                                        a.strides[0], b.data, b.strides[0], c.data, c.strides[0]),
                  group.entry);
    } else
      checkStatus(reinterpret_cast<TensorEntry *>(entry)(pointers.data()), group.entry);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const View &view = i < operands.size() ? group.operands[i] : group.result;
      if (view.isRepeated)
        tensors[i].data = static_cast<char *>(tensors[i].data) + seen[i].strides[0] * view.bits / 8;
    }
  }
}

} // namespace tilewright::onnx
