// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the kernel for what an op is to compute: by a text that says it, such as "product 128x3072x768 f32,f32,f32 nt".
// A kernel may be of exactly these extents, of any number of rows ("?x3072x768"), or of any extents at all ("?x?x?").

#ifndef TILEWRIGHT_TORCH_PROBLEM_H
#define TILEWRIGHT_TORCH_PROBLEM_H

#include "Registry.h"

#include <functional>
#include <string>

namespace tilewright::torch_ops {

/// Which extents of a kernel are open.
enum class Open { none, rows, all };

/// The kernel for a problem, which Python compiles where there is none.
///
/// Args:
///   key: Bytes that are the same for the same problem, quickly made.
///   text: The problem in words, for a kernel with these open extents; empty where there is none such.
///
/// Throws std::runtime_error where no kernel can be had.
const Kernel &kernelFor(const std::string &key, const std::function<std::string(Open)> &text);

/// A problem in words: a kind, and fields.
class Words {
public:
  explicit Words(const char *kind) : text(kind) {}

  Words &add(const char *name, const std::string &value);
  Words &add(const char *name, int64_t value, bool isOpen = false);
  /// Extents, "2x12", or "-" where there are none; open ones are "?", but for those of 1, along which nothing is
  /// broadcast.
  Words &add(const char *name, const std::vector<int64_t> &sizes, bool isOpen = false);
  const std::string &get() const { return text; }

private:
  std::string text;
};

/// Our name of an element type by torch's number: "f32". Throws std::runtime_error for one that no kernel computes
/// with.
const char *elementOf(int32_t type);

/// The type of a result: 8-bit integers are summed in 32 bits.
int32_t resultType(int32_t type);

/// How many threads torch lets an op use here.
int64_t threadCount();

/// Adds a number to a key.
inline void append(std::string &key, int64_t number) {
  key.append(reinterpret_cast<const char *>(&number), sizeof number);
}

} // namespace tilewright::torch_ops

#endif // TILEWRIGHT_TORCH_PROBLEM_H
