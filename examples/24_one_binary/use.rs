// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls a kernel of the library by tvm-ffi's convention, from Rust and without a crate: use FOLDER/liblayers.so. The
// types are those of tvm-ffi's c_api.h and of dlpack.h. Link libtvm_ffi, which has the error that a call raised.

use std::ffi::{c_char, c_int, c_void, CString};
use std::ptr::{null, null_mut};

const RTLD_NOW: c_int = 2;
const NONE: i32 = 0;
const TENSOR: i32 = 7; // kTVMFFIDLTensorPtr
const CPU: i32 = 1;
const FLOAT: u8 = 2;
const ERROR_CELL: usize = 24; // bytes of TVMFFIObject, which lies before the cell

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Any {
    type_index: i32,
    padding: u32,
    value: *const c_void,
}

#[repr(C)]
struct Text {
    data: *const u8,
    size: usize,
}

type Function = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn TVMFFIErrorMoveFromRaised(error: *mut *mut c_void);
    fn TVMFFIObjectDecRef(object: *mut c_void) -> c_int;
}

/// A matrix of f32, row by row.
struct Matrix {
    elements: Vec<f32>,
    shape: [i64; 2],
}

impl Matrix {
    fn filled(value: f32, rows: usize, columns: usize) -> Self {
        Matrix { elements: vec![value; rows * columns], shape: [rows as i64, columns as i64] }
    }

    /// How tvm-ffi sees it, for as long as the matrix lives.
    fn tensor(&mut self) -> DLTensor {
        DLTensor {
            data: self.elements.as_mut_ptr().cast(),
            device: CPU,
            device_id: 0,
            ndim: 2,
            code: FLOAT,
            bits: 32,
            lanes: 1,
            shape: self.shape.as_ptr(),
            strides: null(),
            byte_offset: 0,
        }
    }
}

/// The function NAME of the library at PATH, which stays loaded.
fn load(path: &str, name: &str) -> Option<Function> {
    let (path, name) = (CString::new(path).ok()?, CString::new(format!("__tvm_ffi_{name}")).ok()?);
    // The library has a function of this type under this name, or none.
    unsafe {
        let library = dlopen(path.as_ptr(), RTLD_NOW);
        let found = if library.is_null() { null_mut() } else { dlsym(library, name.as_ptr()) };
        (!found.is_null()).then(|| std::mem::transmute::<*mut c_void, Function>(found))
    }
}

/// Computes C = A·B; what does not fit is an error with its kind and reason.
fn multiply(function: Function, a: &mut Matrix, b: &mut Matrix, c: &mut Matrix) -> Result<(), String> {
    let tensors = [a.tensor(), b.tensor(), c.tensor()];
    let values = tensors.each_ref().map(|each| Any { type_index: TENSOR, padding: 0, value: (each as *const DLTensor).cast() });
    let mut result = Any { type_index: NONE, padding: 0, value: null() };
    // The matrices are borrowed until the call has returned, and it checks their shapes.
    unsafe {
        if function(null_mut(), values.as_ptr(), 3, &mut result) == 0 {
            return Ok(());
        }
        let mut error = null_mut();
        TVMFFIErrorMoveFromRaised(&mut error);
        let texts = error.cast::<u8>().add(ERROR_CELL).cast::<[Text; 2]>();
        let said = (*texts).each_ref().map(|each| std::slice::from_raw_parts(each.data, each.size));
        let [kind, message] = said.map(|each| String::from_utf8_lossy(each).into_owned());
        TVMFFIObjectDecRef(error);
        Err(format!("{kind}: {message}"))
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("use FOLDER/liblayers.so");
    let rows = load(&path, "rows").expect("no function `rows`: use FOLDER/liblayers.so");
    let (mut a, mut b, mut c) = (Matrix::filled(1.0, 3, 64), Matrix::filled(1.0, 64, 48), Matrix::filled(0.0, 3, 48));
    multiply(rows, &mut a, &mut b, &mut c).expect("rows");
    println!("C[2][47] = {}", c.elements[2 * 48 + 47]);
    if let Err(reason) = multiply(rows, &mut b, &mut a, &mut c) {
        println!("{reason}");
    }
}
