// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: streamed: few rows
// group: strategies
// shape: 4x1024x1024
// strategy: streamed
