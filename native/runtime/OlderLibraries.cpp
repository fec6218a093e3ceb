// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What code would need of newer C and C++ libraries, defined here, so that it also runs with older ones. These are
// functions that newer headers declare and older libraries lack; nobody outside the library that they are linked into
// sees them.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>

#include <sys/random.h>

#if defined(__GLIBC__)
/// Since glibc 2.36. LLVM's numbers have to differ, and are no secrets.
extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  (void)!getrandom(&number, sizeof number, 0);
  return number;
}
#endif

#if defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI

namespace std {

/// Since GCC 11; containers call it.
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

/// Since GCC 9; a copy shares the text as well.
runtime_error::runtime_error(runtime_error &&other) noexcept
    : runtime_error(static_cast<const runtime_error &>(other)) {}

#if _GLIBCXX_RELEASE >= 12
/// Since GCC 12, which lets what cancels a thread pass.
void condition_variable::wait(unique_lock<mutex> &lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
#endif

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
