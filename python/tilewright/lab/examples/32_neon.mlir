// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: NEON: neoverse-n1
// group: targets
// shape: 64x64x64
// target: neoverse-n1
// strategy: packed
