// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Problem.h"

namespace tilewright::torch_ops {

namespace {

struct Found {
  std::shared_mutex mutex;
  std::unordered_map<std::string, const Kernel *> kernels;
};

Found &found() {
  static auto *all = new Found;
  return *all;
}

/// The kernel of the registry that serves a problem: of the fewest open extents; null where there is none.
const Kernel *registered(const std::function<std::string(Open)> &text) {
  for (Open open : {Open::none, Open::rows, Open::all}) {
    std::string problem = text(open);
    if (problem.empty())
      continue;
    if (const Kernel *kernel = Registry::instance().find(problem))
      return kernel;
  }
  return nullptr;
}

} // namespace

const Kernel &kernelFor(const std::string &key, const std::function<std::string(Open)> &text) {
  Found &all = found();
  {
    std::shared_lock lock(all.mutex);
    auto known = all.kernels.find(key);
    if (known != all.kernels.end())
      return *known->second;
  }
  const Kernel *kernel = registered(text);
  if (!kernel && Registry::instance().loadNamed())
    kernel = registered(text);
  if (!kernel) {
    std::string problem = text(Open::none);
    Registry::instance().resolve(problem);
    kernel = registered(text);
    if (!kernel)
      throw std::runtime_error("no kernel of tilewright was made for \"" + problem + "\"");
  }
  std::unique_lock lock(all.mutex);
  all.kernels[key] = kernel;
  return *kernel;
}

Words &Words::add(const char *name, const std::string &value) {
  text += std::string(" ") + name + "=" + value;
  return *this;
}

Words &Words::add(const char *name, int64_t value, bool isOpen) {
  return add(name, isOpen ? std::string("?") : std::to_string(value));
}

Words &Words::add(const char *name, const std::vector<int64_t> &sizes, bool isOpen) {
  std::string all;
  for (int64_t size : sizes)
    all += (all.empty() ? "" : "x") + (isOpen && size != 1 ? std::string("?") : std::to_string(size));
  return add(name, all.empty() ? std::string("-") : all);
}

const char *elementOf(int32_t type) {
  struct Name {
    int32_t (*number)();
    const char *name;
  };
  static const Name names[] = {{aoti_torch_dtype_float32, "f32"},
                               {aoti_torch_dtype_bfloat16, "bf16"},
                               {aoti_torch_dtype_float16, "f16"},
                               {aoti_torch_dtype_float64, "f64"},
                               {aoti_torch_dtype_int8, "i8"},
                               {aoti_torch_dtype_uint8, "u8"},
                               {aoti_torch_dtype_int32, "i32"},
                               {aoti_torch_dtype_int64, "i64"},
                               {aoti_torch_dtype_complex64, "c64"},
                               {aoti_torch_dtype_complex128, "c128"},
                               {aoti_torch_dtype_float8_e4m3fn, "f8E4M3FN"},
                               {aoti_torch_dtype_float8_e5m2, "f8E5M2"}};
  for (const Name &each : names)
    if (each.number() == type)
      return each.name;
  throw std::runtime_error("a tensor is of " + typeName(type) +
                           "; expected floats of 8 to 64 bits, int8, uint8, int32, int64, or complex numbers");
}

int32_t resultType(int32_t type) {
  return type == aoti_torch_dtype_int8() || type == aoti_torch_dtype_uint8() ? aoti_torch_dtype_int32() : type;
}

int64_t threadCount() {
  uint32_t threads = 1;
  check(torch_get_num_threads(&threads), "tell its number of threads");
  return threads;
}

} // namespace tilewright::torch_ops
