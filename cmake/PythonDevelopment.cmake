# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds Python, NumPy's headers (Python_NumPy_INCLUDE_DIRS) and nanobind, and defines tilewright_add_extension.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module NumPy)
# Upstream's functions look for Python3_…: it has to be the same interpreter.
set(Python3_EXECUTABLE "${Python_EXECUTABLE}" CACHE FILEPATH "" FORCE)
include(MLIRDetectPythonEnv)
mlir_configure_python_dev_packages()

# tilewright_add_extension(NAME SOURCES…)
# The extension module tilewright.NAME on libLLVM, without libMLIR, in a nanobind domain apart from that of the MLIR
# bindings.
function(tilewright_add_extension name)
  nanobind_add_module(${name} NB_STATIC NB_DOMAIN tilewright_native ${ARGN})
  target_link_libraries(${name} PRIVATE LLVM)
  target_compile_options(${name} PRIVATE -Wno-cast-qual) # nanobind's headers
  target_compile_options(nanobind-static PRIVATE -w) # not ours
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${TILEWRIGHT_PACKAGE_DIR}"
    INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF)
endfunction()
