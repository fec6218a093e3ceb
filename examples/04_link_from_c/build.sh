#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles a kernel to an object and its header, links them with main.c, and runs the program.
# The files go to the folder given, or else to ./build. CC names the C compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-build}
mkdir -p "$out"

tilewright compile --shape 100x200x300 -o "$out/mm.o" --header "$out/mm.h"
${CC:-cc} -std=c11 -Wall -Werror -O1 -I "$out" "$here/main.c" "$out/mm.o" -o "$out/main"
"$out/main"
