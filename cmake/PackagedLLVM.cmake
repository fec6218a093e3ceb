# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds an installed LLVM and MLIR and makes every target of this project use their shared libraries, so that a process
# holds one copy of each. An include, not a function: it sets directory-wide flags.

file(STRINGS "${PROJECT_SOURCE_DIR}/llvm_version.txt" _version LIMIT_COUNT 1)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/llvm_version.txt")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _series "${_version}")
find_package(MLIR ${_series} REQUIRED CONFIG)
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_INSTALL_PREFIX}")
foreach(_dylib MLIR LLVM)
  if(NOT TARGET ${_dylib})
    message(FATAL_ERROR "${LLVM_INSTALL_PREFIX} has no shared lib${_dylib}: "
      "tilewright needs an LLVM built with LLVM_BUILD_LLVM_DYLIB and MLIR_BUILD_MLIR_DYLIB (Debian's packages are)")
  endif()
endforeach()

# Where upstream's CMake functions put what they build.
set(LLVM_RUNTIME_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/lib")
set(MLIR_BINARY_DIR "${CMAKE_BINARY_DIR}")
# Nothing here is installed as a development package, and libMLIR itself is not built here.
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON)
set(LLVM_BUILD_LLVM_DYLIB OFF)

# This folder comes first, because its AddMLIRPython.cmake stands in front of upstream's.
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}" "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(_definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${_definitions})

# The exported targets MLIRIR, LLVMSupport and so on are static archives, also where their code is in the shared
# libraries. Each is pointed at the shared library instead, so that "LINK_LIBS MLIRIR" stays right everywhere.
function(_tilewright_use_dylib target dylib)
  get_target_property(_configurations ${dylib} IMPORTED_CONFIGURATIONS)
  list(GET _configurations 0 _configuration)
  get_target_property(_location ${dylib} IMPORTED_LOCATION_${_configuration})
  foreach(_suffix "" _RELWITHDEBINFO _RELEASE _DEBUG _MINSIZEREL _NOCONFIG)
    set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION${_suffix} "${_location}")
  endforeach()
  set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES "MLIR;LLVM")
endfunction()

get_property(_libraries GLOBAL PROPERTY MLIR_ALL_LIBS)
# These are not inside libMLIR: the C API, TableGen's parts, the test libraries.
list(FILTER _libraries EXCLUDE REGEX "^MLIRCAPI|Test|^MLIRMlirOptMain$|^MLIRTableGen$|^MLIRTblgenLib$|^MLIR$")
foreach(_library ${_libraries})
  get_target_property(_type ${_library} TYPE)
  if(_type STREQUAL "STATIC_LIBRARY")
    _tilewright_use_dylib(${_library} MLIR)
  endif()
endforeach()
_tilewright_use_dylib(LLVMSupport LLVM)

# Upstream's function of this name wants object files that the packages do not carry. The archives are there: embed
# them whole.
function(add_mlir_aggregate name)
  cmake_parse_arguments(ARG "SHARED;STATIC" "" "PUBLIC_LIBS;EMBED_LIBS" ${ARGN})
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp" "")
  add_library(${name} SHARED "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  set(_archives)
  foreach(_library ${ARG_EMBED_LIBS})
    get_target_property(_imported ${_library} IMPORTED)
    if(_imported)
      # As a file: CMake before 3.30 refuses $<LINK_LIBRARY:WHOLE_ARCHIVE,…> for a library that is also reached without.
      list(APPEND _archives $<TARGET_FILE:${_library}>)
    else()
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:obj.${_library}>)
      target_link_libraries(${name} PRIVATE $<TARGET_PROPERTY:${_library},INTERFACE_LINK_LIBRARIES>)
    endif()
  endforeach()
  target_link_libraries(${name} PRIVATE "-Wl,--whole-archive" ${_archives} "-Wl,--no-whole-archive"
    ${ARG_PUBLIC_LIBS} MLIR LLVM)
  target_link_options(${name} PRIVATE "LINKER:-z,defs")
endfunction()
