// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Codegen.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

using namespace llvm;
using namespace tilewright::codegen;

namespace {

/// How many calls of guarded() this thread is in: only then may a fatal error become an exception.
thread_local int guardDepth = 0;

void throwFatalError(void *, const char *reason, bool) {
  if (guardDepth > 0)
    throw CodegenError(std::string("LLVM cannot compile this: ") + reason);
}

/// What a function runs for a call by LLVM's guess: all its instructions, those that move a value from register to
/// register, to the stack or from there, and of these the ones of the stack.
struct Runs {
  double instructions = 0, moves = 0, spills = 0;
};
using Functions = StringMap<Runs>;

/// Collects errors, and what the register allocator says of its moves where `functions` counts them.
struct DiagnosticCollector final : DiagnosticHandler {
  DiagnosticCollector(std::string &errors, Functions *&functions) : errors(errors), functions(functions) {}

  bool isAnyRemarkEnabled() const override { return functions; }
  bool isMissedOptRemarkEnabled(StringRef pass) const override { return pass == "regalloc"; }

  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getKind() == DK_MachineOptimizationRemarkMissed)
      addMoves(cast<DiagnosticInfoOptimizationBase>(info));
    if (info.getSeverity() == DS_Error) {
      raw_string_ostream stream(errors);
      DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
      stream << '\n';
    }
    return true; // Nothing goes to stderr.
  }

  /// Adds a function's moves; those of its loops, which are remarks of their own, are among them.
  void addMoves(const DiagnosticInfoOptimizationBase &remark) {
    if (!functions || remark.getRemarkName() != "SpillReloadCopies")
      return;
    Runs &runs = (*functions)[remark.getFunction().getName()];
    for (const DiagnosticInfoOptimizationBase::Argument &said : remark.getArgs()) {
      double cost;
      StringRef what = said.Key;
      if (!what.ends_with("Cost") || StringRef(said.Val).getAsDouble(cost))
        continue;
      runs.moves += cost;
      if (!what.contains("Copies"))
        runs.spills += cost;
    }
  }

  std::string &errors;
  Functions *&functions;
};

/// One module on its way through LLVM. It lives on the heap, because it is leaked when LLVM fails half-way.
struct Compilation {
  std::string errors;
  /// Where moves are counted, if they are.
  Functions *functions = nullptr;
  LLVMContext context;
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Module> module;

  Compilation() { context.setDiagnosticHandler(std::make_unique<DiagnosticCollector>(errors, functions)); }

  void throwOnErrors() const {
    if (!errors.empty())
      throw CodegenError(StringRef(errors).rtrim().str());
  }
};

/// Throws unless `machine` names what `target` knows: LLVM itself would only warn on stderr, and compile for another
/// one.
void checkMachine(const Target &target, const Triple &triple, const Machine &machine) {
  std::unique_ptr<MCSubtargetInfo> subtarget(target.createMCSubtargetInfo(triple, "", ""));
  if (!subtarget)
    throw CodegenError("LLVM has no code generator for triple \"" + machine.triple + "\"");
  if (!machine.cpu.empty() && machine.cpu != "generic" && !subtarget->isCPUStringValid(machine.cpu))
    throw CodegenError("unknown CPU \"" + machine.cpu + "\" for triple \"" + machine.triple + "\"");
  SmallVector<StringRef> features;
  StringRef(machine.features).split(features, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef feature : features) {
    bool known = feature.size() > 1 && (feature[0] == '+' || feature[0] == '-') &&
                 any_of(subtarget->getAllProcessorFeatures(),
                        [&](const SubtargetFeatureKV &row) { return feature.drop_front() == row.Key; });
    if (!known)
      throw CodegenError("unknown feature \"" + feature.str() + "\" for triple \"" + machine.triple +
                         "\"; expected +NAME or -NAME as LLVM spells it");
  }
}

std::unique_ptr<TargetMachine> createMachine(const Machine &machine, CodeGenOptLevel level) {
  Triple triple(Triple::normalize(machine.triple));
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    throw CodegenError("unknown triple \"" + machine.triple + "\": " + error);
  checkMachine(*target, triple, machine);
  TargetOptions options;
  // Loaders of today run no .ctors, in which LLVM puts what asks for permission to use AMX otherwise.
  options.UseInitArray = true;
  options.AllowFPOpFusion = FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> made(target->createTargetMachine(triple, machine.cpu, machine.features, options,
                                                                  Reloc::PIC_, /*CM=*/std::nullopt, level));
  if (!made)
    throw CodegenError("LLVM has no code generator for triple \"" + machine.triple + "\"");
  return made;
}

void load(Compilation &compilation, const std::string &ir) {
  SMDiagnostic error;
  compilation.module = parseAssemblyString(ir, error, compilation.context);
  if (!compilation.module) {
    std::string text;
    raw_string_ostream stream(text);
    error.print("LLVM IR", stream, /*ShowColors=*/false);
    throw CodegenError(StringRef(text).rtrim().str());
  }
  std::string text;
  raw_string_ostream stream(text);
  if (verifyModule(*compilation.module, &stream))
    throw CodegenError("invalid LLVM IR: " + StringRef(text).rtrim().str());
  DataLayout layout = compilation.machine->createDataLayout();
  const std::string &stated = compilation.module->getDataLayoutStr();
  if (!stated.empty() && stated != layout.getStringRepresentation())
    throw CodegenError("the module's data layout \"" + stated + "\" is not the target's, \"" +
                       layout.getStringRepresentation() + "\"");
  compilation.module->setDataLayout(layout);
  compilation.module->setTargetTriple(compilation.machine->getTargetTriple());
}

struct GuardDepth {
  GuardDepth() { ++guardDepth; }
  ~GuardDepth() { --guardDepth; }
};

/// LLVM's option to align branches, which its assembler for x86 reads when it is made, and takes from nowhere else: on
/// while an instance lives, and off for everybody else.
class BranchAlignment {
public:
  explicit BranchAlignment(bool wanted) : lock(mutex()) { set(wanted); }
  ~BranchAlignment() { set(false); }

private:
  static std::mutex &mutex() {
    static std::mutex only;
    return only;
  }

  static void set(bool value) {
    static auto *option =
        static_cast<cl::opt<bool> *>(cl::getRegisteredOptions().lookup("x86-branches-within-32B-boundaries"));
    if (option)
      option->setValue(value);
  }

  std::lock_guard<std::mutex> lock;
};

/// LLVM's option to keep few registers in use when it orders instructions, which it reads as it runs: on, but for some
/// functions while an instance lives that has any. Others wait meanwhile.
class FewRegisters {
public:
  explicit FewRegisters(bool always) {
    if (always)
      shared = std::shared_lock(mutex());
    else
      alone = std::unique_lock(mutex());
  }
  ~FewRegisters() {
    if (alone)
      set(true);
  }

  static void set(bool value) {
    static auto *option = static_cast<cl::opt<bool> *>(cl::getRegisteredOptions().lookup("misched-regpressure"));
    if (option)
      option->setValue(value);
  }

private:
  static std::shared_mutex &mutex() {
    static std::shared_mutex only;
    return only;
  }

  std::shared_lock<std::shared_mutex> shared;
  std::unique_lock<std::shared_mutex> alone;
};

/// Sets that option for the function that it runs on.
class ChooseRegisters final : public MachineFunctionPass {
public:
  explicit ChooseRegisters(const StringSet<> &many) : MachineFunctionPass(id), many(many) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    FewRegisters::set(!many.contains(function.getName()));
    return false;
  }
  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

private:
  static char id;
  const StringSet<> &many;
};
char ChooseRegisters::id = 0;

/// Counts the instructions of the function that it runs on, whose registers are allocated.
class CountInstructions final : public MachineFunctionPass {
public:
  explicit CountInstructions(Functions &functions) : MachineFunctionPass(id), functions(functions) {}

  bool runOnMachineFunction(MachineFunction &function) override {
    const MachineBlockFrequencyInfo &often = getAnalysis<MachineBlockFrequencyInfoWrapperPass>().getMBFI();
    double &instructions = functions[function.getName()].instructions;
    for (const MachineBasicBlock &block : function)
      instructions += block.size() * often.getBlockFreqRelativeToEntryBlock(&block);
    return false;
  }
  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.addRequired<MachineBlockFrequencyInfoWrapperPass>();
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

private:
  static char id;
  Functions &functions;
};
char CountInstructions::id = 0;

/// Passes in which functions, `many`, use as many registers as they like: LLVM has no attribute for that.
class PassesByFunction final : public legacy::PassManager {
public:
  PassesByFunction(const StringSet<> &many, Functions &functions) : many(many), functions(functions) {}

  void add(Pass *pass) override {
    if (pass->getPassID() == &MachineSchedulerID && !many.empty())
      legacy::PassManager::add(new ChooseRegisters(many));
    if (pass->getPassID() == &VirtRegRewriterID)
      legacy::PassManager::add(new CountInstructions(functions));
    legacy::PassManager::add(pass);
  }

private:
  const StringSet<> &many;
  Functions &functions;
};

/// Moves to the stack and from there, a call, from which on a function's code is made in both ways: fewer are outside
/// loops.
constexpr double worthTwoTries = 64;
/// The part of all instructions that they are then. Of 383 functions for eleven processors, none with less than 2 % got
/// rid of more than 0.4 % of its instructions.
constexpr double partOfTwoTries = 1.0 / 50;
/// The part of all instructions by which the other way has to have fewer moves.
constexpr double worthTheOther = 1.0 / 128;

/// Leaves of a module the functions whose code is wanted.
void keepOnly(const StringSet<> &wanted, Module &module) {
  for (Function &function : module)
    if (!function.isDeclaration() && !wanted.contains(function.getName()))
      function.deleteBody();
}

/// Loads `ir` and runs `work` on it. When LLVM fails half-way its data is in no state to be destroyed, and stays.
template <typename Work>
std::string guarded(const std::string &ir, const Machine &machine, CodeGenOptLevel level, Work work) {
  auto compilation = std::make_unique<Compilation>();
  compilation->machine = createMachine(machine, level);
  load(*compilation, ir);
  Compilation *atRisk = compilation.release();
  std::string result;
  {
    GuardDepth guard;
    result = work(*atRisk);
  }
  compilation.reset(atRisk);
  compilation->throwOnErrors();
  return result;
}

std::string textOf(const Module &module) {
  std::string text;
  raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

/// Has every pass on `module` recorded in `watch`. Pass managers and adaptors, which run passes, are left out.
void recordPasses(PassInstrumentationCallbacks &callbacks, const Module &module, PassRuns &watch) {
  using Clock = std::chrono::steady_clock;
  auto started = std::make_shared<SmallVector<Clock::time_point>>();
  callbacks.registerBeforeNonSkippedPassCallback([started](StringRef, Any) { started->push_back(Clock::now()); });
  auto ended = [&callbacks, &module, &watch, started](StringRef pass, const PreservedAnalyses &preserved, bool whole) {
    std::chrono::duration<double> took = Clock::now() - started->pop_back_val();
    if (isSpecialPass(pass, {"PassManager", "PassAdaptor", "AnalysisManagerProxy", "DevirtSCCRepeatedPass",
                             "ModuleInlinerWrapperPass", "RequireAnalysisPass", "InvalidateAnalysisPass"}))
      return;
    StringRef name = callbacks.getPassNameForClassName(pass);
    bool changed = watch.texts && whole && !preserved.areAllPreserved();
    watch.runs.push_back({(name.empty() ? pass : name).str(), took.count(), changed ? textOf(module) : ""});
  };
  callbacks.registerAfterPassCallback(
      [ended](StringRef pass, Any, const PreservedAnalyses &preserved) { ended(pass, preserved, /*whole=*/true); });
  // The function or loop that the pass ran on is gone, and with it what the module would be printed from.
  callbacks.registerAfterPassInvalidatedCallback(
      [ended](StringRef pass, const PreservedAnalyses &preserved) { ended(pass, preserved, /*whole=*/false); });
}

void checkLevel(int level) {
  if (level < 0 || level > 3)
    throw CodegenError("optimization level " + std::to_string(level) + "; expected 0, 1, 2 or 3");
}

CodeGenOptLevel codeGenLevel(int level) {
  checkLevel(level);
  constexpr CodeGenOptLevel levels[] = {CodeGenOptLevel::None, CodeGenOptLevel::Less, CodeGenOptLevel::Default,
                                        CodeGenOptLevel::Aggressive};
  return levels[level];
}

/// LLVM prints its early full unrolling without the level on which its threshold depends, and reads it as that of O2.
constexpr StringLiteral kFullUnroll = "loop-unroll-full";

/// The same pass with its level, as `readFullUnroll` reads it.
std::string fullUnrollOf(int level) { return (kFullUnroll + "<O" + Twine(level) + ">").str(); }

void readFullUnroll(PassBuilder &builder) {
  builder.registerPipelineParsingCallback(
      [](StringRef name, LoopPassManager &loops, ArrayRef<PassBuilder::PipelineElement>) {
        for (int level : {1, 2, 3})
          if (name == fullUnrollOf(level)) {
            loops.addPass(LoopFullUnrollPass(level));
            return true;
          }
        return false;
      });
}

OptimizationLevel optimizationLevel(int level) {
  checkLevel(level);
  const OptimizationLevel levels[] = {OptimizationLevel::O0, OptimizationLevel::O1, OptimizationLevel::O2,
                                      OptimizationLevel::O3};
  return levels[level];
}

} // namespace

void tilewright::codegen::initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    InitializeAllAsmParsers();
    install_fatal_error_handler(throwFatalError);
  });
}

std::string tilewright::codegen::defaultPasses(const Machine &machine, int level) {
  std::unique_ptr<TargetMachine> target = createMachine(machine, codeGenLevel(level));
  PassInstrumentationCallbacks names;
  PassBuilder builder(target.get(), PipelineTuningOptions(), std::nullopt, &names);
  std::string text, fullUnroll = fullUnrollOf(level);
  raw_string_ostream stream(text);
  builder.buildPerModuleDefaultPipeline(optimizationLevel(level)).printPipeline(stream, [&](StringRef pass) {
    StringRef name = names.getPassNameForClassName(pass);
    return name == kFullUnroll ? StringRef(fullUnroll) : name.empty() ? pass : name;
  });
  return text;
}

std::string tilewright::codegen::optimize(const std::string &ir, const Machine &machine, int level,
                                          const Passes &passes, PassRuns *watch) {
  return guarded(ir, machine, codeGenLevel(level), [&](Compilation &compilation) {
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager callGraph;
    ModuleAnalysisManager modules;
    PassInstrumentationCallbacks callbacks;
    callbacks.registerShouldRunOptionalPassCallback([&](StringRef pass, Any) {
      return passes.without.empty() || !is_contained(passes.without, callbacks.getPassNameForClassName(pass));
    });
    if (watch)
      recordPasses(callbacks, *compilation.module, *watch);
    PassBuilder builder(compilation.machine.get(), PipelineTuningOptions(), std::nullopt, &callbacks);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(callGraph);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, callGraph, modules);
    readFullUnroll(builder);
    ModulePassManager pipeline;
    if (!passes.list)
      pipeline = builder.buildPerModuleDefaultPipeline(optimizationLevel(level));
    else if (!passes.list->empty())
      if (Error error = builder.parsePassPipeline(pipeline, *passes.list))
        throw CodegenError("cannot read the passes: " + toString(std::move(error)));
    pipeline.run(*compilation.module, modules);
    return textOf(*compilation.module);
  });
}

std::string tilewright::codegen::emit(const std::string &ir, const Machine &machine, Kind kind, bool alignBranches) {
  auto emitted = [&](const StringSet<> &many, Functions &functions, bool alone = false) {
    return guarded(ir, machine, CodeGenOptLevel::Aggressive, [&](Compilation &compilation) {
      if (alone)
        keepOnly(many, *compilation.module);
      SmallString<0> code;
      raw_svector_ostream stream(code);
      PassesByFunction passes(many, functions);
      CodeGenFileType type = kind == Kind::assembly ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
      bool refused;
      {
        BranchAlignment aligned(alignBranches);
        refused = compilation.machine->addPassesToEmitFile(passes, stream, nullptr, type);
      }
      if (refused)
        throw CodegenError("LLVM cannot write this kind of file for triple \"" + machine.triple + "\"");
      FewRegisters scheduled(/*always=*/many.empty());
      compilation.functions = &functions;
      passes.run(*compilation.module);
      return std::string(code);
    });
  };
  Functions usual, other, last;
  StringSet<> tried, better;
  std::string code = emitted({}, usual);
  if (Triple(machine.triple).isAMDGPU())
    return code;
  for (const auto &[function, runs] : usual)
    if (runs.spills >= std::max(worthTwoTries, partOfTwoTries * runs.instructions))
      tried.insert(function);
  if (tried.empty())
    return code;
  emitted(tried, other, /*alone=*/true);
  for (const auto &function : tried) {
    const Runs &runs = usual[function.getKey()];
    if (runs.moves - other.lookup(function.getKey()).moves >= worthTheOther * runs.instructions)
      better.insert(function.getKey());
  }
  return better.empty() ? code : emitted(better, last);
}
