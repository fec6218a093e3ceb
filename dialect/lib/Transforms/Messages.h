// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages between the processes of a function, in the mpi dialect.

#ifndef TILEWRIGHT_TRANSFORMS_MESSAGES_H
#define TILEWRIGHT_TRANSFORMS_MESSAGES_H

#include "Tilewright/Transforms/Passes.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright {
/// The implementations of MPI whose numbers are known.
enum class Mpi { OpenMPI, MPICH };

/// Which one the module around `op` is for, as its DLTI attribute "MPI:Implementation" says; MPICH without one, as
/// upstream. Failure, with an error, for another.
mlir::FailureOr<Mpi> implementationOf(mlir::Operation *op);

/// A communicator, an argument of the function, and this process's place in it.
struct Communicator {
  mlir::Value handle;
  mlir::Value rank; // i32
  int64_t size;
};

/// A message on its way.
struct Sent {
  mlir::Value request;
};

/// Builds messages, and remembers what each call of MPI returned.
class Messages {
public:
  Messages(mlir::func::FuncOp function, Mpi mpi) : function(function), mpi(mpi) {}

  /// The communicator of the processes that differ along `axes` alone, `size` of them: an argument that the function
  /// has or gets.
  Communicator along(mlir::ArrayRef<int16_t> axes, int64_t size);

  /// Sends `block` of contiguous elements to the process of that rank.
  Sent send(mlir::ImplicitLocOpBuilder &builder, mlir::Value block, mlir::Value to, const Communicator &among,
            int32_t tag);
  /// Receives such a block.
  Sent receive(mlir::ImplicitLocOpBuilder &builder, mlir::Value block, mlir::Value from, const Communicator &among,
               int32_t tag);
  void wait(mlir::ImplicitLocOpBuilder &builder, Sent message);
  /// Adds up a block of all processes.
  void allReduce(mlir::ImplicitLocOpBuilder &builder, mlir::Value block, mlir::Value sums, const Communicator &among);

  /// A tag for the messages of one collective.
  int32_t nextTag() { return tag = (tag + 1) % kTags; }
  /// The rank that no process has: messages to it and from it are none.
  mlir::Value nobody(mlir::ImplicitLocOpBuilder &builder) const;
  /// The rank `distance` after another one, in a circle.
  mlir::Value after(mlir::ImplicitLocOpBuilder &builder, mlir::Value rank, int64_t distance, int64_t size) const;

  /// Lets the function return, as its last result, the first code that is none of success; 0 without one.
  void returnStatus();

private:
  template <typename Op>
  Sent start(mlir::ImplicitLocOpBuilder &builder, mlir::Value block, mlir::Value partner, const Communicator &among,
             int32_t tag);

  static constexpr int32_t kTags = 1 << 14; // Every MPI has at least twice as many.

  mlir::func::FuncOp function;
  Mpi mpi;
  int32_t tag = 0;
  llvm::MapVector<mlir::Attribute, Communicator> communicators;
  llvm::SmallVector<mlir::Value> codes;
};
} // namespace tilewright

#endif // TILEWRIGHT_TRANSFORMS_MESSAGES_H
