// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What clauses of a transform operation say: numbers in its text, or transform parameters.

#ifndef TILEWRIGHT_TRANSFORMOPS_CLAUSES_H
#define TILEWRIGHT_TRANSFORMOPS_CLAUSES_H

#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/OpImplementation.h"

#include <optional>

namespace tilewright {

/// Parses the size of a clause: a parameter or a number.
mlir::ParseResult parseSize(mlir::OpAsmParser &parser, std::optional<mlir::OpAsmParser::UnresolvedOperand> &parameter,
                            mlir::IntegerAttr &number);
void printSize(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Value parameter, mlir::IntegerAttr number);

/// Parses what comes behind the name of a clause that says whether something is done: a parameter or nothing.
mlir::ParseResult parseFlag(mlir::OpAsmParser &parser, std::optional<mlir::OpAsmParser::UnresolvedOperand> &parameter,
                            mlir::UnitAttr &flag);
void printFlag(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Value parameter, mlir::UnitAttr flag);

/// Parses the mnemonic of an attribute of the dialect.
mlir::ParseResult parseMnemonic(mlir::OpAsmParser &parser, mlir::StringAttr &kind);
void printMnemonic(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::StringAttr kind);

/// Parses what parameters of an attribute are, by name: transform parameters, or values.
mlir::ParseResult parseFields(mlir::OpAsmParser &parser,
                              llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &sizes,
                              mlir::ArrayAttr &names, mlir::DictionaryAttr &others);
void printFields(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange sizes, mlir::ArrayAttr names,
                 mlir::DictionaryAttr others);

/// A clause of an operation.
struct Clause {
  llvm::StringRef name;
  mlir::Value parameter;
  mlir::Attribute said;
  bool needed = false;
};

/// Fails unless each clause is said once at most, and those that are needed are there.
mlir::LogicalResult verifyClauses(mlir::Operation *op, llvm::ArrayRef<Clause> clauses);

/// Reads what clauses of an operation say when it is applied. The first that is wrong is kept as a definite failure.
class ClauseReader {
public:
  ClauseReader(mlir::transform::TransformOpInterface op, const mlir::transform::TransformState &state)
      : op(op), state(state) {}

  /// The size of a clause, `usual` where it is not there; at least `least`.
  int64_t size(llvm::StringRef name, mlir::Value parameter, std::optional<uint64_t> number, int64_t usual = 1,
               int64_t least = 1);

  /// Whether a clause says that something is done.
  bool flag(llvm::StringRef name, mlir::Value parameter, bool isThere);

  /// Keeps a failure that what clauses say does not go together, unless `wrong` is empty.
  void require(llvm::StringRef wrong);

  /// Whether nothing was wrong.
  mlir::DiagnosedSilenceableFailure result() { return std::move(found); }
  bool isWrong() const { return !found.succeeded(); }

private:
  int64_t value(llvm::StringRef name, mlir::Value parameter, int64_t least, std::optional<int64_t> most);

  mlir::transform::TransformOpInterface op;
  const mlir::transform::TransformState &state;
  mlir::DiagnosedSilenceableFailure found = mlir::DiagnosedSilenceableFailure::success();
};

} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMOPS_CLAUSES_H
