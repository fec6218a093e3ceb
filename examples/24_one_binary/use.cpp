// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls a kernel of the library from C++, by the package of tvm-ffi: use FOLDER/liblayers.so. What does not fit is an
// exception. Compile it with tvm-ffi's headers, and link libtvm_ffi.
#include <array>
#include <iostream>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <vector>

namespace {

/// A matrix of ones, and how it is described.
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : shape{rows, columns}, elements(rows * columns, 1) {
    tensor = {elements.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), /*strides=*/nullptr, /*byte_offset=*/0};
  }

  std::array<int64_t, 2> shape;
  std::vector<float> elements;
  DLTensor tensor;
};

} // namespace

int main(int count, char **words) {
  if (count != 2) {
    std::cerr << "use FOLDER/liblayers.so\n";
    return 1;
  }
  tvm::ffi::Module library = tvm::ffi::Module::LoadFromFile(words[1]);
  tvm::ffi::Function rows = library->GetFunction("rows").value();
  Matrix a(3, 64), b(64, 48), c(3, 48);
  rows(&a.tensor, &b.tensor, &c.tensor);
  std::cout << "C[2][47] = " << c.elements.back() << "\n";
  try {
    rows(&b.tensor, &a.tensor, &c.tensor);
  } catch (const tvm::ffi::Error &error) {
    std::cout << error.kind() << ": " << error.message() << "\n";
  }
}
