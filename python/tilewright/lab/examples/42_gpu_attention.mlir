// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: attention on a GPU: sm_80
// group: operators
// operator: attention
// fields: queries=64, keys=128, head=64, q="f16"
// target: sm_80
// strategy: chosen
