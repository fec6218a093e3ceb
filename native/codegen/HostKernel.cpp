// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "HostKernel.h"
#include "Codegen.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/AsmParser/AsmParserContext.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

#include <algorithm>
#include <array>
#include <memory>

using namespace llvm;
using tilewright::codegen::CodegenError;

namespace {

/// NVPTX's address space of a block's shared memory.
constexpr unsigned sharedSpace = 3;
/// Bytes of memory that an operand of an emulated operation takes: as much as the widest one.
constexpr unsigned slotBytes = 16;
/// As what an access is announced.
enum AccessKind : unsigned { aLoad, aStore, atOnce };
/// Bits that say what an access means to other threads, and how far: by how LLVM calls the scopes.
constexpr unsigned isStrong = 1, acquires = 2, releases = 4;
constexpr StringLiteral scopeNames[] = {"block", "cluster", "device", ""};
/// The same scopes in the names of fences.
constexpr StringLiteral fenceNames[] = {"fence.acq_rel.cta", "fence.acq_rel.cluster", "fence.acq_rel.gpu",
                                        "fence.acq_rel.sys"};

/// The name of an operation: an intrinsic's without "llvm.nvvm.", what a PTX module's reader calls without "ptx.", or
/// the text of inline PTX. Empty: no such thing.
StringRef operation(const CallBase &call) {
  if (const auto *code = dyn_cast<InlineAsm>(call.getCalledOperand()))
    return code->getAsmString();
  const Function *callee = call.getCalledFunction();
  StringRef name = callee ? callee->getName() : "";
  return name.consume_front("llvm.nvvm.") || name.consume_front("ptx.") ? name : "";
}

/// Whether it is a call of an operation whose name starts with `prefix`.
bool isCall(const Value &value, StringRef prefix) {
  const auto *call = dyn_cast<CallBase>(&value);
  return call && operation(*call).starts_with(prefix);
}

bool isProduct(const Value &value) {
  const auto *call = dyn_cast<CallBase>(&value);
  return call && operation(*call).contains("wgmma.mma_async");
}

/// An operation whose result comes to registers behind the thread's back, and what waits for it, given how many groups
/// of such operations have been committed since it was begun, its own among them.
struct Pending {
  bool (*isBegun)(const Value &);
  bool (*isCommitting)(const Instruction &);
  bool (*isWaiting)(const Instruction &, unsigned committed);
  const char *finding;
};

constexpr Pending pendings[] = {
    {isProduct, [](const Instruction &instruction) { return isCall(instruction, "wgmma.commit_group"); },
     [](const Instruction &instruction, unsigned committed) {
       if (!isCall(instruction, "wgmma.wait_group"))
         return false;
       const auto *left = dyn_cast<ConstantInt>(cast<CallBase>(instruction).getArgOperand(0));
       return left && left->getZExtValue() < std::max(committed, 1U);
     },
     "a result of wgmma.mma_async is used before wgmma.wait_group has waited for its group"},
    {[](const Value &value) { return isCall(value, "tcgen05.ld."); }, [](const Instruction &) { return false; },
     [](const Instruction &instruction, unsigned) { return isCall(instruction, "tcgen05.wait.ld"); },
     "a result of tcgen05.ld is used before tcgen05.wait::ld"},
};

class Rewriter {
public:
  Rewriter(Module &module, Function &kernel, const AsmParserContext *lines)
      : module(module), kernel(kernel), lines(lines), pointer(PointerType::get(module.getContext(), 0)),
        word(Type::getInt32Ty(module.getContext())), nothing(Type::getVoidTy(module.getContext())) {}

  void run() {
    placeSharedMemory();
    for (GlobalVariable &variable : module.globals())
      if (!variable.isDeclaration())
        variables.push_back(&variable);
    for (Function &function : module)
      if (!function.isDeclaration())
        rewrite(function);
    makeLauncher();
    for (Function &function : make_early_inc_range(module))
      if (function.isDeclaration() && function.use_empty())
        function.eraseFromParent();
  }

private:
  /// Variables in shared memory are so many bytes into the block's; those without a size lie behind all others.
  void placeSharedMemory() {
    SmallVector<GlobalVariable *> variables, openEnded;
    for (GlobalVariable &variable : module.globals())
      if (variable.getAddressSpace() == sharedSpace)
        (bytesOf(variable) ? variables : openEnded).push_back(&variable);
    uint64_t end = 0;
    auto place = [&](GlobalVariable *variable) {
      uint64_t start = alignTo(end, variable->getAlign().value_or(Align(slotBytes)));
      end = start + bytesOf(*variable);
      replace(*variable, start);
    };
    for (GlobalVariable *variable : variables)
      place(variable);
    // Those without a size all begin where the first dynamic byte is.
    for (GlobalVariable *variable : openEnded)
      end = alignTo(end, variable->getAlign().value_or(Align(slotBytes)));
    uint64_t staticBytes = end;
    for (GlobalVariable *variable : openEnded)
      replace(*variable, staticBytes);
    Function *shared = Function::Create(FunctionType::get(word, false), GlobalValue::ExternalLinkage, "shared", module);
    ReturnInst::Create(module.getContext(), ConstantInt::get(word, staticBytes),
                       BasicBlock::Create(module.getContext(), "", shared));
  }

  uint64_t bytesOf(const GlobalVariable &variable) const {
    return module.getDataLayout().getTypeAllocSize(variable.getValueType());
  }

  void replace(GlobalVariable &variable, uint64_t offset) {
    convertUsersOfConstantsToInstructions({&variable});
    FunctionCallee base =
        module.getOrInsertFunction("tilewrightSharedMemory", FunctionType::get(variable.getType(), {word}, false));
    DenseMap<Function *, Value *> found;
    for (Use &use : make_early_inc_range(variable.uses())) {
      auto *user = dyn_cast<Instruction>(use.getUser());
      if (!user)
        continue;
      Value *&address = found[user->getFunction()];
      if (!address) {
        IRBuilder<> builder(&*user->getFunction()->getEntryBlock().getFirstInsertionPt());
        address = builder.CreateCall(base, {ConstantInt::get(word, offset)});
      }
      use.set(address);
    }
    variable.eraseFromParent();
  }

  void rewrite(Function &function) {
    function.setCallingConv(CallingConv::C);
    function.setAttributes({});
    promote(function);
    checkPending(function);
    SmallVector<Instruction *> all;
    for (Instruction &instruction : instructions(function))
      all.push_back(&instruction);
    for (Instruction *instruction : all) {
      announce(*instruction);
      if (auto *call = dyn_cast<CallBase>(instruction)) {
        std::string name = operation(*call).str();
        if (!name.empty())
          emulate(*call, name);
        else
          call->setAttributes({});
      } else if (auto *fence = dyn_cast<FenceInst>(instruction)) {
        perform(*fence, fenceNames[scopeOf(fence->getSyncScopeID())].str(), {}, nullptr);
        fence->eraseFromParent();
      }
    }
  }

  /// Makes values of what lies in stack slots, so that uses of results are seen.
  static void promote(Function &function) {
    SmallVector<AllocaInst *> slots;
    for (Instruction &instruction : function.getEntryBlock())
      if (auto *slot = dyn_cast<AllocaInst>(&instruction); slot && isAllocaPromotable(slot))
        slots.push_back(slot);
    DominatorTree dominators(function);
    PromoteMemToReg(slots, dominators);
  }

  /// What such an operation gives may only go to another one of its kind until all have been waited for.
  static void checkPending(Function &function) {
    for (Instruction &instruction : instructions(function))
      for (const Pending &pending : pendings)
        if (pending.isBegun(instruction))
          checkUses(instruction, pending);
  }

  static void checkUses(Instruction &begun, const Pending &pending) {
    DenseSet<const Value *> results = {&begun}, users;
    SmallVector<const Value *> fresh = {&begun};
    while (!fresh.empty())
      for (const User *user : fresh.pop_back_val()->users()) {
        if (!isa<ExtractValueInst, InsertValueInst, ExtractElementInst, BitCastInst, PHINode>(user))
          users.insert(user);
        else if (results.insert(user).second)
          fresh.push_back(user);
      }
    // Of the paths to a block the one counts with the fewest commits.
    DenseMap<const BasicBlock *, unsigned> fewest;
    SmallVector<std::pair<const Instruction *, unsigned>> starts = {{begun.getNextNode(), 0}};
    while (!starts.empty()) {
      auto [at, committed] = starts.pop_back_val();
      for (; at && !pending.isWaiting(*at, committed); at = at->getNextNode()) {
        if (users.contains(at) && !pending.isBegun(*at))
          throw CodegenError(pending.finding);
        committed += pending.isCommitting(*at);
        if (at->isTerminator())
          for (const BasicBlock *next : successors(at)) {
            auto [found, isNew] = fewest.try_emplace(next, committed);
            if (!isNew && found->second <= committed)
              continue;
            found->second = committed;
            starts.push_back({&next->front(), committed});
          }
      }
    }
  }

  /// Tells the emulator of an access before it is made, but for those that sanitizers leave alone too.
  void announce(Instruction &instruction) {
    if (instruction.hasMetadata(LLVMContext::MD_nosanitize))
      return;
    IRBuilder<> builder(&instruction);
    const DataLayout &layout = module.getDataLayout();
    auto tell = [&](Value *address, Value *bytes, AccessKind kind, Align alignment, unsigned strength = 0,
                    SyncScope::ID scope = SyncScope::System) {
      FunctionCallee access =
          module.getOrInsertFunction("tilewrightAccess", FunctionType::get(nothing, {pointer, pointer, word}, false));
      Value *flat = builder.CreateAddrSpaceCast(address, pointer);
      constexpr StringLiteral names[] = {"a load", "a store", "an atomic operation"};
      Constant *about = site(instruction, names[kind].str(), {kind, alignment.value(), strength, scopeOf(scope)});
      builder.CreateCall(access, {about, flat, builder.CreateZExtOrTrunc(bytes, word)});
    };
    auto size = [&](Type *type) { return ConstantInt::get(word, layout.getTypeStoreSize(type)); };
    if (auto *load = dyn_cast<LoadInst>(&instruction)) {
      tell(load->getPointerOperand(), size(load->getType()), aLoad, load->getAlign(),
           strength(load->getOrdering(), load->isVolatile()), load->getSyncScopeID());
    } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
      tell(store->getPointerOperand(), size(store->getValueOperand()->getType()), aStore, store->getAlign(),
           strength(store->getOrdering(), store->isVolatile()), store->getSyncScopeID());
    } else if (auto *transfer = dyn_cast<MemTransferInst>(&instruction)) {
      tell(transfer->getSource(), transfer->getLength(), aLoad, transfer->getSourceAlign().valueOrOne());
      tell(transfer->getDest(), transfer->getLength(), aStore, transfer->getDestAlign().valueOrOne());
    } else if (auto *set = dyn_cast<MemSetInst>(&instruction)) {
      tell(set->getDest(), set->getLength(), aStore, set->getDestAlign().valueOrOne());
    } else if (auto *change = dyn_cast<AtomicRMWInst>(&instruction)) {
      // Fibers take turns: it is atomic as it stands.
      tell(change->getPointerOperand(), size(change->getType()), atOnce, change->getAlign(),
           strength(change->getOrdering(), false), change->getSyncScopeID());
    } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
      Type *type = exchange->getNewValOperand()->getType();
      tell(exchange->getPointerOperand(), size(type), atOnce, exchange->getAlign(),
           strength(exchange->getMergedOrdering(), false), exchange->getSyncScopeID());
    }
  }

  /// What an access of an order means to other threads.
  static unsigned strength(AtomicOrdering order, bool isVolatile) {
    if (!isStrongerThanUnordered(order))
      return isVolatile ? isStrong : 0;
    return isStrong | (isAcquireOrStronger(order) ? acquires : 0) | (isReleaseOrStronger(order) ? releases : 0);
  }

  /// The number of a scope: from that of a block to that of the system.
  unsigned scopeOf(SyncScope::ID id) const {
    std::optional<StringRef> name = module.getContext().getSyncScopeName(id);
    return static_cast<unsigned>(llvm::find(scopeNames, name.value_or("")) - std::begin(scopeNames)) % 4;
  }

  /// Replaces a call by one of the emulator.
  void emulate(CallBase &call, const std::string &name) {
    SmallVector<Value *> operands(call.args());
    Value *result = perform(call, name, operands, call.getType()->isVoidTy() ? nullptr : call.getType());
    if (result)
      call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }

  /// A call of the emulator before an instruction, with the operands in memory, where the result is left too.
  Value *perform(Instruction &before, const std::string &name, ArrayRef<Value *> given, Type *resultType) {
    Function &function = *before.getFunction();
    IRBuilder<> entry(&*function.getEntryBlock().getFirstInsertionPt());
    unsigned count = given.size();
    auto *slot = ArrayType::get(Type::getInt8Ty(module.getContext()), slotBytes);
    AllocaInst *operands = entry.CreateAlloca(ArrayType::get(slot, std::max(count, 1U)));
    operands->setAlignment(Align(slotBytes));
    Value *result = ConstantPointerNull::get(pointer);
    if (resultType) {
      AllocaInst *place = entry.CreateAlloca(resultType);
      place->setAlignment(Align(slotBytes));
      result = place;
    }
    IRBuilder<> builder(&before);
    for (unsigned i = 0; i < count; ++i) {
      Value *operand = given[i];
      if (operand->getType()->isIntegerTy(1))
        operand = builder.CreateZExt(operand, word);
      builder.CreateStore(operand, builder.CreateConstInBoundsGEP2_32(slot, operands, i, 0));
    }
    FunctionCallee called = module.getOrInsertFunction(
        "tilewrightPerform", FunctionType::get(nothing, {pointer, word, pointer, pointer}, false));
    builder.CreateCall(called, {site(before, name, {0, 1, 0, 0}), ConstantInt::get(word, count), operands, result});
    return resultType ? builder.CreateLoad(resultType, result) : nullptr;
  }

  /// The record of an instruction, as `Site` of the emulator has it: its name, room for what the emulator finds under
  /// it, its line, and of an access its kind, alignment, strength and scope.
  Constant *site(const Instruction &instruction, const std::string &name, std::array<uint64_t, 4> access) {
    Constant *&text = names[name];
    if (!text)
      text = IRBuilder<>(module.getContext()).CreateGlobalString(name, "operation", 0, &module);
    auto *type = StructType::get(pointer, pointer, word, word, word, word, word);
    SmallVector<Constant *> fields{text, ConstantPointerNull::get(pointer),
                                   ConstantInt::get(word, lineOf(instruction))};
    for (uint64_t field : access)
      fields.push_back(ConstantInt::get(word, field));
    return new GlobalVariable(module, type, /*isConstant=*/false, GlobalValue::InternalLinkage,
                              ConstantStruct::get(type, fields), "site");
  }

  /// The line of an instruction, or 0.
  unsigned lineOf(const Instruction &instruction) const {
    if (const DebugLoc &location = instruction.getDebugLoc())
      return location.getLine();
    if (!lines)
      return 0;
    std::optional<FileLocRange> place = lines->getInstructionLocation(&instruction);
    return place ? place->Start.Line + 1 : 0;
  }

  /// `launch(arguments)` tells which variables the kernel has, and calls it with what each of `arguments` points at; a
  /// structure is passed by its address. `parameters()` gives how many those are, and then the bytes of each.
  void makeLauncher() {
    SmallVector<uint32_t> sizes{static_cast<uint32_t>(kernel.arg_size())};
    for (Argument &argument : kernel.args()) {
      auto found = structures.find(argument.getArgNo());
      sizes.push_back(found == structures.end() ? module.getDataLayout().getTypeStoreSize(argument.getType())
                                                : found->second);
    }
    Constant *table = ConstantDataArray::get(module.getContext(), sizes);
    auto *told =
        new GlobalVariable(module, table->getType(), /*isConstant=*/true, GlobalValue::InternalLinkage, table, "sizes");
    Function *parameters =
        Function::Create(FunctionType::get(pointer, false), GlobalValue::ExternalLinkage, "parameters", module);
    ReturnInst::Create(module.getContext(), told, BasicBlock::Create(module.getContext(), "", parameters));
    auto *type = FunctionType::get(nothing, {pointer}, false);
    Function *launch = Function::Create(type, GlobalValue::ExternalLinkage, "launch", module);
    IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", launch));
    FunctionCallee owned =
        module.getOrInsertFunction("tilewrightVariable", FunctionType::get(nothing, {pointer, word, word}, false));
    for (GlobalVariable *variable : variables)
      builder.CreateCall(owned,
                         {builder.CreateAddrSpaceCast(variable, pointer), ConstantInt::get(word, bytesOf(*variable)),
                          ConstantInt::get(word, !variable->isConstant())});
    SmallVector<Value *> arguments;
    for (Argument &argument : kernel.args()) {
      Value *at = builder.CreateConstInBoundsGEP1_32(pointer, launch->getArg(0), argument.getArgNo());
      Value *address = builder.CreateLoad(pointer, at);
      bool byValue = structures.contains(argument.getArgNo());
      arguments.push_back(byValue ? builder.CreateAddrSpaceCast(address, argument.getType())
                                  : builder.CreateLoad(argument.getType(), address));
    }
    builder.CreateCall(&kernel, arguments);
    builder.CreateRetVoid();
    kernel.setLinkage(GlobalValue::InternalLinkage);
  }

public:
  /// The kernel's parameters that are structures, and their bytes, found before attributes are dropped.
  DenseMap<unsigned, uint64_t> structures;

private:
  Module &module;
  Function &kernel;
  const AsmParserContext *lines; // Null: those of the text say nothing.
  PointerType *pointer;
  IntegerType *word;
  Type *nothing;
  StringMap<Constant *> names;
  SmallVector<GlobalVariable *> variables; // The kernel's own, in global memory.
};

} // namespace

std::string tilewright::codegen::hostKernel(const std::string &ir, const std::string &kernel, const std::string &triple,
                                            bool linesOfText, bool locations) {
  LLVMContext context;
  SMDiagnostic error;
  AsmParserContext lines;
  std::unique_ptr<Module> module = parseAssemblyString(ir, error, context, nullptr, linesOfText ? &lines : nullptr);
  if (!module) {
    std::string text;
    raw_string_ostream stream(text);
    error.print("LLVM IR", stream, /*ShowColors=*/false);
    throw CodegenError(StringRef(text).rtrim().str());
  }
  Function *function = module->getFunction(kernel);
  if (!function || function->isDeclaration())
    throw CodegenError("no kernel @" + kernel + " in the module");
  std::string message;
  Triple machine(Triple::normalize(triple));
  const Target *target = TargetRegistry::lookupTarget(machine, message);
  if (!target)
    throw CodegenError("unknown triple \"" + triple + "\": " + message);
  std::unique_ptr<TargetMachine> made(
      target->createTargetMachine(machine, "", "", TargetOptions(), Reloc::PIC_, std::nullopt));
  module->setDataLayout(made->createDataLayout());
  module->setTargetTriple(machine);
  Rewriter rewriter(*module, *function, linesOfText ? &lines : nullptr);
  for (Argument &argument : function->args())
    if (argument.hasByValAttr())
      rewriter.structures[argument.getArgNo()] = module->getDataLayout().getTypeAllocSize(argument.getParamByValType());
  rewriter.run();
  if (!locations)
    StripDebugInfo(*module);
  std::string text;
  raw_string_ostream stream(text);
  if (verifyModule(*module, &stream))
    throw CodegenError("the kernel cannot be emulated: " + StringRef(text).rtrim().str());
  text.clear();
  module->print(stream, nullptr);
  return text;
}
