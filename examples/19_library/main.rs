// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls a library of kernels from Rust.

use std::ffi::c_void;

extern "C" {
    fn gemm_small(
        m: i64, n: i64, k: i64,
        a: *const c_void, lda: i64,
        b: *const c_void, ldb: i64,
        c: *mut c_void, ldc: i64,
    ) -> i32;
}

fn multiply(a: &[f32; 64], b: &[f32; 64]) -> Result<[f32; 64], i32> {
    let mut c = [0.0f32; 64];
    // The arrays have the 8 x 8 elements that the kernel reads and writes.
    let status = unsafe {
        gemm_small(
            8, 8, 8,
            a.as_ptr().cast(), 8,
            b.as_ptr().cast(), 8,
            c.as_mut_ptr().cast(), 8,
        )
    };
    if status == 0 { Ok(c) } else { Err(status) }
}

fn main() {
    let c = multiply(&[1.0; 64], &[2.0; 64]).expect("gemm_small");
    assert!(c.iter().all(|&each| each == 16.0));
    println!("Rust: right");
}
