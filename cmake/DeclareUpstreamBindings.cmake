# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Declares upstream's Python sources (MLIRPythonSources and its parts) from TILEWRIGHT_MLIR_PYTHON_SOURCES, for an LLVM
# that was installed without them.

# Upstream's python/CMakeLists.txt looks for lib/ and include/ beside itself, by paths with .. in them: copy it there.
if(NOT EXISTS "${TILEWRIGHT_MLIR_PYTHON_SOURCES}/python/CMakeLists.txt"
   OR NOT EXISTS "${TILEWRIGHT_MLIR_PYTHON_SOURCES}/lib/Bindings/Python/IRCore.cpp")
  message(FATAL_ERROR "TILEWRIGHT_MLIR_PYTHON_SOURCES='${TILEWRIGHT_MLIR_PYTHON_SOURCES}' does not hold upstream's "
    "python/ and lib/Bindings/Python/: run `make setup`, which fetches them")
endif()
set(MLIR_SOURCE_DIR "${CMAKE_BINARY_DIR}/mlir-source")
file(REMOVE_RECURSE "${MLIR_SOURCE_DIR}")
file(COPY "${TILEWRIGHT_MLIR_PYTHON_SOURCES}/python" DESTINATION "${MLIR_SOURCE_DIR}")
file(COPY "${TILEWRIGHT_MLIR_PYTHON_SOURCES}/lib/Bindings" DESTINATION "${MLIR_SOURCE_DIR}/lib")
file(CREATE_LINK "${MLIR_INSTALL_PREFIX}/include" "${MLIR_SOURCE_DIR}/include" SYMBOLIC)
# Generated files that an LLVM install already has, and that upstream's declarations depend on.
foreach(_target LinalgOdsGen omp_common_td acc_common_td)
  if(NOT TARGET ${_target})
    add_custom_target(${_target})
  endif()
endforeach()
add_subdirectory("${MLIR_SOURCE_DIR}/python" "${CMAKE_BINARY_DIR}/mlir-python" EXCLUDE_FROM_ALL)
