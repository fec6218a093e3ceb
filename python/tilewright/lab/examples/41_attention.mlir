// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: attention: online softmax
// group: operators
// operator: attention
// fields: queries=128, keys=128, head=64, heads=4, causal=True
// strategy: chosen
