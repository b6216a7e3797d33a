# How everything is compiled: language, warnings, sanitizers, where the results go.
#
# SPDX-License-Identifier: BSD-3-Clause
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # sources may use GNU builtins; public headers may not (tests/headers)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# -O3 without -march: kernels for newer instruction sets are files of their own and are chosen at run time. Assertions state
# what holds by construction, so a release build leaves them out.
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")

# The build tree looks like an install tree, so that modules are found the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

set(KITH_MODULE_SUBDIR "kith") # folder of the modules, seen from the library's folder

file(RELATIVE_PATH kith_lib_from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
set(CMAKE_INSTALL_RPATH "$ORIGIN/${kith_lib_from_bin}")

# ISO rounding in every build: a fused multiply-add in one kernel and not in another would change bits.
add_compile_options(-ffp-contract=off -fno-strict-overflow)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wconversion;-Wshadow>")
add_compile_definitions("$<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>") # empty, as sources write it; C++ has it anyway
if(KITH_WERROR)
    add_compile_options(-Werror)
endif()
# gcc zeroes the few hundred bytes of a message's state with "rep stos", whose start costs more than all else in a send.
include(CheckCCompilerFlag)
set(kith_memset -mmemset-strategy=vector_loop:1024:noalign,libcall:-1:noalign)
check_c_compiler_flag(${kith_memset} KITH_HAS_MEMSET_STRATEGY)
if(KITH_HAS_MEMSET_STRATEGY)
    add_compile_options("$<$<COMPILE_LANGUAGE:C>:${kith_memset}>")
endif()

if(KITH_SANITIZE)
    if(NOT KITH_SANITIZE MATCHES "^(address,undefined|address|undefined|thread)$")
        message(FATAL_ERROR "KITH_SANITIZE is '${KITH_SANITIZE}'; it must be empty, 'address,undefined' or 'thread'")
    endif()
    add_compile_options(-fsanitize=${KITH_SANITIZE} -fno-omit-frame-pointer -g)
    add_link_options(-fsanitize=${KITH_SANITIZE})
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # The checks that sanitizers put in hide from gcc's flow analysis what was initialized.
        add_compile_options(-Wno-maybe-uninitialized)
    endif()
    if(KITH_SANITIZE STREQUAL "thread")
        # Kernels differ in arithmetic, not in what threads share: one table of them, not three, which take long to compile.
        add_compile_definitions(KI_GENERIC_KERNELS_ALONE)
    endif()
    if(KITH_SANITIZE STREQUAL "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wno-tsan) # gcc says that it does not model fences; the atomics around ours carry the order too
    endif()
    if(KITH_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
