# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Type stubs (.pyi) for every extension module, which type checkers and editors cannot look into. Included after all of
# them are declared.

set(_stubgen "${CMAKE_COMMAND}" -E env "PYTHONPATH=${TILEWRIGHT_PACKAGE_DIR}/.." PYTHONDONTWRITEBYTECODE=1
  "${Python_EXECUTABLE}" -m nanobind.stubgen --quiet --include-private)

_flatten_mlir_python_targets(_groups MLIRPythonSources TilewrightPythonSources)
set(_modules)
set(_targets TilewrightPythonModules)
foreach(_group ${_groups})
  get_target_property(_kind ${_group} mlir_python_SOURCES_TYPE)
  get_target_property(_module ${_group} mlir_python_EXTENSION_MODULE_NAME)
  # Upstream wrote the stub of the execution engine by hand.
  if(_kind STREQUAL "extension" AND NOT _module STREQUAL "_mlirExecutionEngine")
    list(APPEND _modules -m tilewright.mlir._mlir_libs.${_module})
    list(APPEND _targets TilewrightPythonModules.extension.${_module}.dso)
  endif()
endforeach()

list(APPEND _targets _codegen _runtime _native)

add_custom_command(
  OUTPUT "${CMAKE_BINARY_DIR}/type-stubs"
  COMMAND ${_stubgen} --recursive ${_modules} --output-dir "${TILEWRIGHT_PACKAGE_DIR}/mlir/_mlir_libs"
  COMMAND ${_stubgen} -m tilewright._codegen -m tilewright._runtime --output-dir "${TILEWRIGHT_PACKAGE_DIR}"
  COMMAND ${_stubgen} -m tilewright.standalone._native --output-dir "${TILEWRIGHT_PACKAGE_DIR}/standalone"
  COMMAND "${CMAKE_COMMAND}" -E touch "${CMAKE_BINARY_DIR}/type-stubs"
  DEPENDS ${_targets}
  COMMENT "Writing type stubs"
  VERBATIM)
add_custom_target(TilewrightTypeStubs ALL DEPENDS "${CMAKE_BINARY_DIR}/type-stubs")
