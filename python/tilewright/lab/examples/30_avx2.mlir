// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: AVX2: x86-64-v3
// group: targets
// shape: 128x128x128
// target: x86-64-v3
// strategy: packed
