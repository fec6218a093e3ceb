// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the extension would need of a newer libstdc++ than that of GCC 8, defined here, so that it also runs with that
// one. These are functions that newer headers declare and older libraries lack; nobody outside the extension sees them.

#include <exception>
#include <new>
#include <stdexcept>

#if defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI

namespace std {

/// Since GCC 11; containers call it.
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

/// Since GCC 9; a copy shares the text as well.
runtime_error::runtime_error(runtime_error &&other) noexcept
    : runtime_error(static_cast<const runtime_error &>(other)) {}

namespace __exception_ptr {

/// The copy constructor and the destructor, which all libraries have; newer headers have inline ones.
void copy(void *made, const exception_ptr *from) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void destroy(exception_ptr *from) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

/// Since GCC 11. The copy, which nobody destroys, keeps the reference.
void exception_ptr::_M_addref() noexcept {
  alignas(exception_ptr) char made[sizeof(exception_ptr)];
  copy(made, this);
}

/// Since GCC 11.
void exception_ptr::_M_release() noexcept { destroy(this); }

} // namespace __exception_ptr

} // namespace std

#endif
