// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JITLink without ORC's sessions and layers around it: one object, linked at once in the calling thread, needs neither,
// and they cost more than the link.

#include "ObjectCode.h"
#include "ElfCheck.h"
#include "OpenMP.h"
#include "Scratch.h"
#include "Team.h"

#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

#include <dlfcn.h>
#include <utility>

using namespace llvm;
using namespace llvm::jitlink;
using namespace tilewright::runtime;

namespace {

extern "C" {
void *tilewrightAlloc(size_t bytes) { return allocateScratch(1, bytes); }
void *tilewrightAlignedAlloc(size_t alignment, size_t bytes) { return allocateScratch(alignment, bytes); }
void tilewrightFree(void *block) { freeScratch(block); }
}

/// What the runtime itself defines for kernels: the names that MLIR's lowering of memref.alloc calls.
const std::pair<StringRef, void *> ownSymbols[] = {
    {"_mlir_memref_to_llvm_alloc", reinterpret_cast<void *>(&tilewrightAlloc)},
    {"_mlir_memref_to_llvm_aligned_alloc", reinterpret_cast<void *>(&tilewrightAlignedAlloc)},
    {"_mlir_memref_to_llvm_free", reinterpret_cast<void *>(&tilewrightFree)},
};

void *resolve(StringRef symbol) {
  for (const auto &[name, address] : ownSymbols)
    if (name == symbol)
      return address;
  std::string name = symbol.str();
  if (name == pushNumThreads && findOpenMP(name))
    return reinterpret_cast<void *>(&tilewrightPushNumThreads);
  return isOpenMP(name) ? findOpenMP(name) : dlsym(RTLD_DEFAULT, name.c_str());
}

Symbol *findEntry(LinkGraph &graph, StringRef name) {
  for (Symbol *symbol : graph.defined_symbols())
    if (symbol->hasName() && *symbol->getName() == name && symbol->isCallable())
      return symbol;
  return nullptr;
}

/// What one link leaves behind. JITLink calls back in this thread before link() returns.
struct Outcome {
  std::map<std::string, void *> functions; // Those to be called, by name.
  JITLinkMemoryManager::FinalizedAlloc allocation;
  std::string failure;
};

class Context final : public JITLinkContext {
public:
  Context(JITLinkMemoryManager &manager, Outcome &outcome, const std::map<std::string, uintptr_t> &given)
      : JITLinkContext(/*JD=*/nullptr), manager(manager), outcome(outcome), given(given) {}

  JITLinkMemoryManager &getMemoryManager() override { return manager; }

  void notifyFailed(Error error) override { outcome.failure = toString(std::move(error)); }

  void lookup(const LookupMap &symbols, std::unique_ptr<JITLinkAsyncLookupContinuation> continuation) override {
    AsyncLookupResult found;
    std::string missing;
    for (const auto &[symbol, flags] : symbols) {
      auto known = given.find((*symbol).str());
      void *address = known == given.end() ? resolve(*symbol) : reinterpret_cast<void *>(known->second);
      if (!address && flags == SymbolLookupFlags::RequiredSymbol)
        missing += (missing.empty() ? "" : ", ") + (*symbol).str();
      found[symbol] = {orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
    }
    if (missing.empty())
      continuation->run(std::move(found));
    else
      continuation->run(createStringError("undefined symbols: " + missing +
                                          (isOpenMP(missing) ? "; expected LLVM's OpenMP runtime, libomp" : "")));
  }

  Error notifyResolved(LinkGraph &graph) override {
    for (auto &[name, address] : outcome.functions)
      address = findEntry(graph, name)->getAddress().toPtr<void *>();
    return Error::success();
  }

  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc allocation) override {
    outcome.allocation = std::move(allocation);
  }

  Error modifyPassConfig(LinkGraph &, PassConfiguration &passes) override {
    // In place of the passes that prepare unwind tables: nothing unwinds through a kernel. What the functions to
    // be called do not reach, these tables among it, is left out.
    passes.PrePrunePasses.clear();
    passes.PrePrunePasses.push_back([this](LinkGraph &graph) {
      for (const auto &[name, address] : outcome.functions)
        findEntry(graph, name)->setLive(true);
      return Error::success();
    });
    return Error::success();
  }

private:
  JITLinkMemoryManager &manager;
  Outcome &outcome;
  const std::map<std::string, uintptr_t> &given;
};

std::unique_ptr<LinkGraph> readGraph(StringRef object, std::shared_ptr<orc::SymbolStringPool> pool) {
  constexpr char unreadable[] = "not an object file, or a damaged one: ";
  if (Error error = checkElf(object))
    throw InvalidObject(unreadable + toString(std::move(error)));
  auto graph = createLinkGraphFromObject(MemoryBufferRef(object, "kernel"), std::move(pool));
  if (!graph)
    throw InvalidObject(unreadable + toString(graph.takeError()));
  return std::move(*graph);
}

} // namespace

struct ObjectCode::Memory {
  std::unique_ptr<InProcessMemoryManager> manager;
  Outcome outcome;

  ~Memory() {
    if (outcome.allocation)
      consumeError(manager->deallocate(std::move(outcome.allocation)));
  }
};

ObjectCode::ObjectCode(std::string entry, std::unique_ptr<Memory> linked)
    : name(std::move(entry)), memory(std::move(linked)), entryAddress(address(name)) {}

ObjectCode::~ObjectCode() = default;

const void *ObjectCode::address(const std::string &function) const {
  auto found = memory->outcome.functions.find(function);
  return found == memory->outcome.functions.end() ? nullptr : found->second;
}

std::shared_ptr<const ObjectCode> ObjectCode::link(std::string_view object, const std::string &entry,
                                                   const std::vector<std::string> &further,
                                                   const std::map<std::string, uintptr_t> &given) {
  auto pool = std::make_shared<orc::SymbolStringPool>(); // Names outlive the graph while JITLink returns.
  std::unique_ptr<LinkGraph> graph = readGraph(StringRef(object.data(), object.size()), pool);
  Triple machine(sys::getProcessTriple());
  const Triple &made = graph->getTargetTriple();
  if (made.getArch() != machine.getArch() || made.getObjectFormat() != machine.getObjectFormat())
    throw InvalidObject("the object is for " + made.str() + "; expected one for this machine, " + machine.str());
  auto memory = std::make_unique<Memory>();
  memory->outcome.functions.emplace(entry, nullptr);
  for (const std::string &name : further)
    memory->outcome.functions.emplace(name, nullptr);
  for (const auto &[name, address] : memory->outcome.functions)
    if (!findEntry(*graph, name))
      throw InvalidObject("the object defines no function \"" + name + "\"");
  Expected<std::unique_ptr<InProcessMemoryManager>> manager = InProcessMemoryManager::Create();
  if (!manager)
    throw LinkFailure(toString(manager.takeError()));
  memory->manager = std::move(*manager);
  jitlink::link(std::move(graph), std::make_unique<Context>(*memory->manager, memory->outcome, given));
  if (!memory->outcome.failure.empty() || !memory->outcome.functions[entry])
    throw LinkFailure("cannot link the object: " + memory->outcome.failure);
  return std::shared_ptr<const ObjectCode>(new ObjectCode(entry, std::move(memory)));
}
