// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Kernels.h"

#include <mutex>

using namespace tilewright::jax;

void Kernels::add(const std::string &name, Kernel kernel) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  known[name] = std::move(kernel);
}

void Kernels::ask(Finder *whom) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  finder = whom;
}

Kernel Kernels::look(const std::string &name) {
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto found = known.find(name);
  return found == known.end() ? Kernel() : found->second;
}

Kernel Kernels::find(const std::string &name, const std::string &spec) {
  Kernel found = look(name);
  if (found.isHere())
    return found;
  Finder *whom;
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    whom = finder;
  }
  if (!whom)
    return found;
  whom(name.c_str(), spec.c_str());
  return look(name);
}

Kernels &tilewright::jax::kernels() {
  // Never destroyed: threads of XLA may call kernels while the process ends.
  static Kernels *all = new Kernels;
  return *all;
}

/// Adds a kernel whose entry takes an array of tensors.
extern "C" void tilewright_jax_add_tensors(const char *name, TensorEntry *entry) {
  Kernel kernel;
  kernel.tensors = entry;
  kernels().add(name, kernel);
}

/// Adds a product of two matrices. `types` are DLPack's DLDataTypes of A, B and the result; `transposed`, whether A and
/// B are stored so.
extern "C" void tilewright_jax_add_matrices(const char *name, MatrixEntry *entry, const ElementCode *types,
                                            const uint8_t *transposed) {
  Kernel kernel;
  kernel.matrices = entry;
  for (int i = 0; i < 3; ++i)
    kernel.types[i] = types[i];
  for (int i = 0; i < 2; ++i)
    kernel.transposed[i] = transposed[i];
  kernels().add(name, kernel);
}

/// Says why there is no kernel of a name.
extern "C" void tilewright_jax_refuse(const char *name, const char *why) {
  Kernel kernel;
  kernel.refusal = why;
  kernels().add(name, kernel);
}

/// From now on, calls of kernels that were not added ask `finder` for them.
extern "C" void tilewright_jax_ask(Finder *finder) { kernels().ask(finder); }
