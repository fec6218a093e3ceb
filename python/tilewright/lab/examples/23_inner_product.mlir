// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: inner_product: B stored transposed
// group: strategies
// shape: 4x512x512
// layout: nt
// strategy: inner_product
