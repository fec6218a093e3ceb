// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: unpacked: what fits into the caches
// group: strategies
// shape: 96x96x96
// strategy: unpacked
