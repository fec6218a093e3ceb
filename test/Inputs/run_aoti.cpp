// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a package of AOTInductor with ops of tilewright in a process without Python: run_aoti OPS PACKAGE IN OUT, with
// 4x16 floats in both files. It prints "right" where the package gives those of OUT.

#include <ATen/ops/from_blob.h>
#include <cmath>
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <vector>

static std::vector<float> read(const char *path) {
  std::vector<float> all(64);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(all.data()), 64 * sizeof(float));
  return all;
}

int main(int, char **arguments) {
  if (!dlopen(arguments[1], RTLD_NOW))
    return std::puts(dlerror()), 2;
  std::vector<float> x = read(arguments[3]), expected = read(arguments[4]);
  torch::inductor::AOTIModelPackageLoader loader(arguments[2]);
  std::vector<at::Tensor> inputs = {at::from_blob(x.data(), {4, 16})};
  std::vector<at::Tensor> results = loader.run(inputs);
  const float *found = results[0].const_data_ptr<float>();
  bool isRight = true;
  for (int i = 0; i < 64; ++i)
    isRight &= std::abs(found[i] - expected[i]) < 1e-5f;
  bool hasPython = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr;
  std::printf("%s, %s Python\n", isRight ? "right" : "wrong", hasPython ? "with" : "without");
  return isRight ? 0 : 1;
}
