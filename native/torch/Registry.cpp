// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Registry.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>

namespace tilewright::torch_ops {

namespace {

constexpr int64_t contentsFormat = 1;

void *findSymbol(void *library, const char *name) { return dlsym(library, name); }

/// The names of the operands of an entry that come packed.
std::vector<std::string> packedOf(const Json &entry) {
  std::vector<std::string> names;
  for (const auto &[name, how] : entry["packings"].members())
    names.push_back(name);
  return names;
}

} // namespace

Registry &Registry::instance() {
  // Never destroyed: ops may run while the process ends.
  static auto *registry = new Registry;
  return *registry;
}

void Registry::add(std::unique_ptr<Kernel> kernel) {
  std::unique_lock lock(mutex);
  named[kernel->name()] = kernel.get();
  kernels.push_back(std::move(kernel));
}

const Kernel *Registry::find(const std::string &name) const {
  std::shared_lock lock(mutex);
  auto found = named.find(name);
  if (found == named.end())
    found = named.find(libraryName(name));
  return found == named.end() ? nullptr : found->second;
}

bool Registry::loadNamed() {
  bool isFirst = false;
  std::call_once(fromVariable, [&] {
    const char *value = std::getenv("TILEWRIGHT_TORCH_LIBRARIES");
    std::istringstream paths(value ? value : "");
    for (std::string path; std::getline(paths, path, ':');)
      if (!path.empty()) {
        load(path);
        isFirst = true;
      }
  });
  return isFirst;
}

const Kernel &Registry::require(const std::string &name) {
  if (const Kernel *found = find(name))
    return *found;
  if (loadNamed())
    if (const Kernel *found = find(name))
      return *found;
  throw std::runtime_error(
      "no kernel of tilewright is called \"" + name +
      "\" in this process; expected one that tilewright.torch.register added, or of a library that "
      "tilewright.torch.load, or TILEWRIGHT_TORCH_LIBRARIES, loaded");
}

void Registry::load(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(std::string("cannot load a library of tilewright: ") + dlerror());
  // The file is called as the library is: libNAME.so.
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.find('.'));
  if (name.compare(0, 3, "lib") == 0)
    name.erase(0, 3);
  auto contentsSymbol = static_cast<const char *>(dlsym(library, (name + "_contents").c_str()));
  if (!contentsSymbol)
    throw std::runtime_error(path + " has no contents; expected a library that tilewright made, under its own name");
  Json contents = Json::parse(contentsSymbol);
  if (contents["format"].integer() != contentsFormat)
    throw std::runtime_error(path + " is of another format; expected one made by this release of tilewright");
  for (const auto &[each, entry] : contents["kernels"].members())
    add(std::make_unique<Kernel>(each, entry["call"], packedOf(entry), each, findSymbol, library));
}

void Registry::setResolver(Resolver given) {
  std::unique_lock lock(mutex);
  resolver = given;
}

void Registry::resolve(const std::string &problem) {
  Resolver ask;
  {
    std::shared_lock lock(mutex);
    ask = resolver;
  }
  if (!ask)
    throw std::runtime_error("no kernel of tilewright for \"" + problem +
                             "\" in this process, and no Python to compile one; expected a library that has it, loaded "
                             "through TILEWRIGHT_TORCH_LIBRARIES (tilewright.torch.library makes it)");
  std::vector<char> error(8192, '\0');
  if (ask(problem.c_str(), error.data(), error.size() - 1))
    throw std::runtime_error(error.data());
}

std::string libraryName(std::string_view name) {
  // A library has as many threads as it was made with, whatever a process would like.
  name = name.substr(0, name.rfind(" threads="));
  // FNV-1a of 64 bits.
  uint64_t hash = 14695981039346656037u;
  for (char each : name) {
    hash ^= static_cast<unsigned char>(each);
    hash *= 1099511628211u;
  }
  const char *digits = "0123456789abcdef";
  std::string made = "tw_";
  for (int shift = 60; shift >= 0; shift -= 4)
    made += digits[hash >> shift & 15];
  return made;
}

} // namespace tilewright::torch_ops
