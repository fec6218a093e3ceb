# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Stands in front of upstream's file of the same name, so that upstream's python/CMakeLists.txt only declares its
# sources. The one package that is built from them is TilewrightPythonModules (dialect/python).
include("${MLIR_CMAKE_DIR}/AddMLIRPython.cmake")

function(add_mlir_python_common_capi_library name)
  if(name STREQUAL "MLIRPythonCAPI")
    return()
  endif()
  cmake_parse_arguments(ARG "" "INSTALL_COMPONENT;INSTALL_DESTINATION;OUTPUT_DIRECTORY;RELATIVE_INSTALL_ROOT"
    "DECLARED_HEADERS;DECLARED_SOURCES;EMBED_LIBS" ${ARGN})
  set(_embedded ${ARG_EMBED_LIBS})
  _flatten_mlir_python_targets(_groups ${ARG_DECLARED_SOURCES})
  foreach(_group ${_groups})
    get_target_property(_of_group ${_group} mlir_python_EMBED_CAPI_LINK_LIBS)
    if(_of_group)
      list(APPEND _embedded ${_of_group})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _embedded)
  add_mlir_aggregate(${name} SHARED EMBED_LIBS ${_embedded})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${ARG_OUTPUT_DIRECTORY}")
  mlir_python_setup_extension_rpath(${name})
endfunction()

# CMake keeps the function that this one replaces under the name with an underscore.
function(add_mlir_python_modules name)
  if(name STREQUAL "MLIRPythonModules")
    return()
  endif()
  _add_mlir_python_modules(${name} ${ARGN})
endfunction()
