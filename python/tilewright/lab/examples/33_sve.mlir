// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: SVE: neoverse-v1
// group: targets
// shape: 64x64x64
// target: neoverse-v1
// strategy: scalable
