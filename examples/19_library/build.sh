#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds a library of kernels, and programs in C, C++ and, where there is a rustc, Rust that call it, and runs them.
# The files go to the folder given, or else to ./build.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-build}
mkdir -p "$out"
out=$(cd "$out" && pwd)

tilewright library "$here/kernels.toml" -o "$out/mykernels"
cmake -S "$here" -B "$out/programs" -Dmykernels_DIR="$out/mykernels" > "$out/cmake.log"
cmake --build "$out/programs" >> "$out/cmake.log"
"$out/programs/from_c"
"$out/programs/from_cpp"
if command -v rustc > /dev/null; then
  rustc --edition 2021 -L "native=$out/mykernels" -l static=mykernels "$here/main.rs" -o "$out/programs/from_rust"
  "$out/programs/from_rust"
fi
