// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: conv2d: patches of images packed on the fly
// group: operators
// operator: conv2d
// fields: n=1, h=28, w=28, ic=64, oc=64, kh=3, kw=3, padding=1
// strategy: chosen
