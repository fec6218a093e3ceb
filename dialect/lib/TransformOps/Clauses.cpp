// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Clauses.h"
#include "Tilewright/TransformOps/TilewrightTransformOps.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tilewright;

bool tilewright::isSizeParam(Type type) {
  auto parameter = dyn_cast<transform::ParamType>(type);
  return parameter && parameter.getType().isSignlessInteger(64);
}

/// Parses a parameter, if there is one; whether there was.
static OptionalParseResult parseParameter(OpAsmParser &parser,
                                          std::optional<OpAsmParser::UnresolvedOperand> &parameter) {
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult found = parser.parseOptionalOperand(operand);
  if (found.has_value() && succeeded(*found))
    parameter = operand;
  return found;
}

ParseResult tilewright::parseSize(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &parameter,
                                  IntegerAttr &number) {
  OptionalParseResult found = parseParameter(parser, parameter);
  return found.has_value() ? *found : parser.parseAttribute(number, parser.getBuilder().getI64Type());
}

void tilewright::printSize(OpAsmPrinter &printer, Operation *, Value parameter, IntegerAttr number) {
  if (parameter)
    printer << parameter;
  else
    printer << number.getInt();
}

ParseResult tilewright::parseFlag(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &parameter,
                                  UnitAttr &flag) {
  OptionalParseResult found = parseParameter(parser, parameter);
  if (found.has_value())
    return *found;
  flag = parser.getBuilder().getUnitAttr();
  return success();
}

void tilewright::printFlag(OpAsmPrinter &printer, Operation *, Value parameter, UnitAttr) {
  if (parameter)
    printer << ' ' << parameter;
}

LogicalResult tilewright::verifyClauses(Operation *op, ArrayRef<Clause> clauses) {
  for (const Clause &each : clauses) {
    if (each.parameter && each.said)
      return op->emitOpError() << each.name << ": both a number and a parameter: expected one of them";
    if (each.needed && !each.parameter && !each.said)
      return op->emitOpError() << each.name << ": expected a number or a parameter";
  }
  return success();
}

int64_t ClauseReader::size(StringRef name, Value parameter, std::optional<uint64_t> number, int64_t usual,
                           int64_t least) {
  if (parameter)
    return value(name, parameter, least, std::nullopt);
  return number ? static_cast<int64_t>(*number) : usual;
}

bool ClauseReader::flag(StringRef name, Value parameter, bool isThere) {
  return parameter ? value(name, parameter, 0, 1) != 0 : isThere;
}

void ClauseReader::require(StringRef wrong) {
  if (!wrong.empty() && !isWrong())
    found = op.emitDefiniteFailure() << wrong;
}

int64_t ClauseReader::value(StringRef name, Value parameter, int64_t least, std::optional<int64_t> most) {
  ArrayRef<Attribute> values = state.getParams(parameter);
  auto one = values.size() == 1 ? dyn_cast<IntegerAttr>(values.front()) : IntegerAttr();
  if (one && one.getInt() >= least && one.getInt() <= most.value_or(one.getInt()))
    return one.getInt();
  std::string expected =
      most ? llvm::formatv("{0} or {1}", least, *most).str() : llvm::formatv("a number of at least {0}", least).str();
  std::string got = one ? llvm::formatv("{0}", one.getInt()).str() : llvm::formatv("{0} values", values.size()).str();
  if (!isWrong())
    found = op.emitDefiniteFailure() << name << ": expected " << expected << ", got " << got;
  return std::max<int64_t>(least, 1);
}
