// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: packed: large products
// group: strategies
// shape: 384x512x512
// strategy: packed
