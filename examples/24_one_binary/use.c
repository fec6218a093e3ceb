/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Calls a kernel of the library by tvm-ffi's convention, from C: use FOLDER/liblayers.so. use.cpp does this by
 * tvm-ffi's package for C++, use.rs from Rust by none. Compile it with tvm-ffi's headers, and link libtvm_ffi:
 * tvm-ffi-config says where they are. */
#include <dlfcn.h>
#include <stdio.h>
#include <tvm/ffi/c_api.h>

#define ROWS 3

static float a[ROWS][64], b[64][48], c[ROWS][48];

static TVMFFIAny value(DLTensor *tensor) {
  TVMFFIAny made = {.type_index = kTVMFFIDLTensorPtr};
  made.v_ptr = tensor;
  return made;
}

int main(int count, char **words) {
  void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
  TVMFFISafeCallType rows = library ? (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_rows") : NULL;
  if (!rows) {
    fprintf(stderr, "no function `rows`: use FOLDER/liblayers.so\n");
    return 1;
  }
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 48; ++j)
      a[0][i] = a[1][i] = a[2][i] = b[i][j] = 1;
  int64_t shapes[3][2] = {{ROWS, 64}, {64, 48}, {ROWS, 48}};
  void *data[3] = {a, b, c};
  DLTensor tensors[3];
  TVMFFIAny values[3], result = {.type_index = kTVMFFINone};
  for (int i = 0; i < 3; ++i) {
    tensors[i] = (DLTensor){data[i], {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shapes[i], NULL, 0};
    values[i] = value(&tensors[i]);
  }
  int status = rows(NULL, values, 3, &result);
  printf("status %d, C[2][47] = %g\n", status, c[2][47]);

  tensors[1].dtype.bits = 16;
  status = rows(NULL, values, 3, &result);
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  TVMFFIErrorCell *said = (TVMFFIErrorCell *)((char *)error + sizeof(TVMFFIObject));
  printf("status %d, %.*s: %.*s\n", status, (int)said->kind.size, said->kind.data, (int)said->message.size,
         said->message.data);
  TVMFFIObjectDecRef(error);
  return 0;
}
