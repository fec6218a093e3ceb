// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: AMX: sapphirerapids, bf16
// group: targets
// shape: 128x128x128
// target: sapphirerapids
// dtype: bf16
// strategy: packed
