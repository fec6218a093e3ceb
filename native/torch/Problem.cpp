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
    if (const Kernel *kernel = Registry::instance().find(problemName(problem)))
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

void forgetProblems() {
  Found &all = found();
  std::unique_lock lock(all.mutex);
  all.kernels.clear();
}

} // namespace tilewright::torch_ops
