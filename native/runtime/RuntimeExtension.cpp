// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright._runtime: links compiled kernels into this process, without MLIR.

#include "ObjectCode.h"
#include "OpenMP.h"
#include "Scratch.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace tilewright::runtime;

/// The Python object; nanobind keeps constness out of shared_ptr.
struct Code {
  std::shared_ptr<const ObjectCode> linked;
};

static Code linkCode(nb::bytes object, const std::string &entry, const std::vector<std::string> &further,
                     const std::map<std::string, uintptr_t> &given) {
  std::string_view bytes(object.c_str(), object.size());
  nb::gil_scoped_release release;
  return {ObjectCode::link(bytes, entry, further, given)};
}

NB_MODULE(_runtime, m) {
  m.doc() = "Links compiled kernels into this process, without MLIR.";
  // Code that a daemon thread or another package still holds at exit is not a leak of these bindings.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr &raised, void *) {
    try {
      std::rethrow_exception(raised);
    } catch (const InvalidObject &error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const LinkFailure &error) {
      PyErr_SetString(PyExc_OSError, error.what());
    }
  });

  nb::class_<Code>(m, "Code",
                   "A function in executable memory, linked from an ELF object. Its pages are never writable and "
                   "executable at once, and go when the last kernel that uses them goes.")
      .def(
          "__init__",
          [](Code *self, nb::bytes object, const std::string &entry, const std::vector<std::string> &further,
             const std::map<std::string, uintptr_t> &given) {
            new (self) Code(linkCode(object, entry, further, given));
          },
          nb::arg("object"), nb::arg("entry"), nb::arg("further") = std::vector<std::string>(),
          nb::arg("given") = std::map<std::string, uintptr_t>(),
          "Links `object` and finds the function `entry` in it, and further ones by name. `given` has addresses of "
          "symbols\n"
          "that it does not define; whoever calls the code keeps what is there.\n\n"
          "Raises:\n"
          "    ValueError: The bytes are no object for this machine, or do not define a function.\n"
          "    OSError: A symbol is undefined, or there is no memory.")
      .def_prop_ro(
          "address", [](const Code &self) { return reinterpret_cast<uintptr_t>(self.linked->entry()); },
          "Where the function starts; valid while this object or a kernel made of it lives.")
      .def(
          "address_of",
          [](const Code &self, const std::string &name) {
            return reinterpret_cast<uintptr_t>(self.linked->address(name));
          },
          nb::arg("name"), "Where one of the functions starts; 0 for a name that was not given.")
      .def_prop_ro("entry", [](const Code &self) { return self.linked->entryName(); }, "The function's name.");

  m.def(
      "scratch_state",
      [] {
        ScratchState state = scratchState();
        return nb::make_tuple(state.capacity, state.used);
      },
      "Bytes of scratch memory that this thread keeps for kernels, and how many of them are in use now.");
  m.attr("SCRATCH_LIMIT") = scratchLimit;
  m.def("openmp_file", &openMPFile,
        "The file of the OpenMP runtime that kernels of several threads use, which is loaded by this; empty when there "
        "is none.");
}
