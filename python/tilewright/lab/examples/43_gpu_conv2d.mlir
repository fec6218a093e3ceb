// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: conv2d on a GPU: sm_80
// group: operators
// operator: conv2d
// fields: n=1, h=14, w=14, ic=64, oc=64, kh=3, kw=3, padding=1, a="f16", b="f16", c="f32"
// target: sm_80
// strategy: chosen
