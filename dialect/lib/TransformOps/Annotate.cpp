// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Clauses.h"
#include "Tilewright/IR/Tilewright.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright;

/// Attaches an attribute to a payload operation, for a transform operation `op`.
static DiagnosedSilenceableFailure attach(transform::TransformOpInterface op, transform::TransformRewriter &rewriter,
                                          Operation *target, Attribute attribute) {
  const Place &place = *placeOf(attribute);
  StringRef name = place.name;
  if (!place.carries(target)) {
    DiagnosedSilenceableFailure failure = op.emitSilenceableError() << "'" << target->getName() << "' cannot carry '"
                                                                    << name << "': " << place.carriers << "; match one";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  Attribute present = target->getDiscardableAttr(name);
  if (present && present != attribute) {
    DiagnosedSilenceableFailure failure = op.emitSilenceableError() << "'" << target->getName() << "' already carries "
                                                                    << present << " and cannot carry " << attribute
                                                                    << " too: annotate each payload operation once";
    failure.attachNote(target->getLoc()) << "payload operation";
    return failure;
  }
  rewriter.modifyOpInPlace(target, [&] { target->setDiscardableAttr(name, attribute); });
  return DiagnosedSilenceableFailure::success();
}

/// Whether an attribute is one that the payload carries.
static bool isCarried(Attribute attribute) { return placeOf(attribute) && !isa<KernelAttr>(attribute); }

LogicalResult AnnotateOp::verify() {
  if (!isCarried(getAnnotation()))
    return emitOpError() << "expected an attribute of the dialect that the payload carries, got " << getAnnotation();
  return success();
}

DiagnosedSilenceableFailure AnnotateOp::applyToOne(transform::TransformRewriter &rewriter, Operation *target,
                                                   transform::ApplyToEachResultList &results,
                                                   transform::TransformState &state) {
  return attach(*this, rewriter, target, getAnnotation());
}

void AnnotateOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getTargetMutable(), effects);
  transform::modifiesPayload(effects);
}

ParseResult tilewright::parseMnemonic(OpAsmParser &parser, StringAttr &kind) {
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  kind = parser.getBuilder().getStringAttr(keyword);
  return success();
}

void tilewright::printMnemonic(OpAsmPrinter &printer, Operation *, StringAttr kind) { printer << kind.getValue(); }

ParseResult tilewright::parseFields(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &sizes,
                                    ArrayAttr &names, DictionaryAttr &others) {
  SmallVector<StringRef> known;
  NamedAttrList said;
  ParseResult parsed = parser.parseCommaSeparatedList([&]() -> ParseResult {
    StringRef name;
    OpAsmParser::UnresolvedOperand size;
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    OptionalParseResult found = parser.parseOptionalOperand(size);
    if (found.has_value()) {
      known.push_back(name);
      sizes.push_back(size);
      return *found;
    }
    Attribute value;
    if (said.get(name))
      return parser.emitError(parser.getCurrentLocation()) << name << ": said twice";
    if (parser.parseAttribute(value))
      return failure();
    said.append(name, value);
    return success();
  });
  names = parser.getBuilder().getStrArrayAttr(known);
  others = said.getDictionary(parser.getContext());
  return parsed;
}

void tilewright::printFields(OpAsmPrinter &printer, Operation *, OperandRange sizes, ArrayAttr names,
                             DictionaryAttr others) {
  llvm::ListSeparator comma;
  for (auto [name, size] : llvm::zip(names.getAsValueRange<StringAttr>(), sizes))
    printer << StringRef(comma) << name << " = " << size;
  for (NamedAttribute each : others) {
    printer << StringRef(comma) << each.getName().getValue() << " = ";
    printer.printAttributeWithoutType(each.getValue());
  }
}

/// The attribute of the dialect whose parameters of some names are `values`, and the others what `op` says; null where
/// there is none, and `wrong` then says why.
static Attribute made(DecideOp op, ArrayRef<int64_t> values, std::string &wrong) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::ListSeparator comma;
  stream << "#tilewright." << op.getKind() << "<";
  for (auto [name, value] : llvm::zip(op.getNames().getAsValueRange<StringAttr>(), values))
    stream << comma << name << " = " << value;
  for (NamedAttribute each : op.getOthers()) {
    stream << comma << each.getName().getValue() << " = ";
    each.getValue().print(stream, /*elideType=*/true);
  }
  stream << ">";
  // What other threads say meanwhile, which verify other operations, is not ours.
  ScopedDiagnosticHandler handler(op.getContext(), [&, self = llvm::get_threadid()](Diagnostic &diagnostic) {
    if (llvm::get_threadid() != self)
      return failure();
    wrong = text + ": " + diagnostic.str();
    return success();
  });
  return parseAttribute(text, op.getContext());
}

LogicalResult DecideOp::verify() {
  if (getNames().size() != getSizes().size())
    return emitOpError() << "expected a name for each parameter, got " << getNames().size() << " for "
                         << getSizes().size();
  llvm::StringSet<> known;
  for (StringRef name : getNames().getAsValueRange<StringAttr>())
    if (!known.insert(name).second || getOthers().contains(name))
      return emitOpError() << name << ": said twice";
  // Every attribute takes sizes of one.
  std::string wrong;
  Attribute attribute = made(*this, SmallVector<int64_t>(getNames().size(), 1), wrong);
  if (!attribute)
    return emitOpError() << wrong;
  if (!isCarried(attribute))
    return emitOpError() << "expected the name of an attribute that the payload carries, got " << getKind();
  return success();
}

DiagnosedSilenceableFailure DecideOp::apply(transform::TransformRewriter &rewriter,
                                            transform::TransformResults &results, transform::TransformState &state) {
  SmallVector<int64_t> values;
  for (auto [name, size] : llvm::zip(getNames().getAsValueRange<StringAttr>(), getSizes())) {
    ArrayRef<Attribute> found = state.getParams(size);
    if (found.size() != 1)
      return emitDefiniteFailure() << name << ": expected one value, got " << found.size();
    values.push_back(cast<IntegerAttr>(found.front()).getInt());
  }
  std::string wrong;
  Attribute attribute = made(*this, values, wrong);
  if (!attribute)
    return emitSilenceableError() << wrong;
  for (Operation *target : state.getPayloadOps(getTarget()))
    if (DiagnosedSilenceableFailure attached = attach(*this, rewriter, target, attribute); !attached.succeeded())
      return attached;
  return DiagnosedSilenceableFailure::success();
}

void DecideOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getOperation()->getOpOperands(), effects);
  transform::modifiesPayload(effects);
}
