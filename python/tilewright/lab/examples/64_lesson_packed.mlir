// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// title: 5. Packed panels: what our own schedule does
// group: lessons
// shape: 512x1024x1024
// strategy: packed
