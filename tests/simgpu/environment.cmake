# Whether the simulated GPU is built here, and what a test sets to use it. Included by tests/CMakeLists.txt before any test,
# since folders that come before this one use it.
#
#     KITH_SIMGPU        TRUE where the cuda module is built and a C++ compiler is there
#     KITH_SIMGPU_ENV    for ENV of kith_test(): the libraries that stand in for CUDA's
#
# SPDX-License-Identifier: BSD-3-Clause
include(CheckLanguage)

# Objects of one compiler go with those of the same one: sanitizers of gcc and of clang do not mix.
if(NOT CMAKE_CXX_COMPILER)
    string(REGEX REPLACE "clang([^/]*)$" "clang++\\1" simgpu_cxx "${CMAKE_C_COMPILER}")
    string(REGEX REPLACE "gcc([^/]*)$" "g++\\1" simgpu_cxx "${simgpu_cxx}")
    if(NOT simgpu_cxx STREQUAL CMAKE_C_COMPILER AND EXISTS "${simgpu_cxx}")
        set(CMAKE_CXX_COMPILER "${simgpu_cxx}")
    endif()
endif()
check_language(CXX)

set(KITH_SIMGPU FALSE)
if(NOT TARGET kith_dep::cuda)
    kith_dependency_note(simgpu "no cuda module; tests on simulated GPUs are left out")
elseif(NOT CMAKE_CXX_COMPILER)
    kith_dependency_note(simgpu "no C++ compiler; tests on simulated GPUs are left out")
else()
    set(KITH_SIMGPU TRUE)
    kith_dependency_note(simgpu "stands in for GPUs in tests")
endif()

set(KITH_SIMGPU_DIR "${PROJECT_BINARY_DIR}/lib/simgpu")
set(KITH_SIMGPU_ENV "KITH_CUDART_LIBRARY=${KITH_SIMGPU_DIR}/libsimcudart.so"
                    "KITH_CUBLAS_LIBRARY=${KITH_SIMGPU_DIR}/libsimcublas.so"
                    "KITH_NCCL_LIBRARY=${KITH_SIMGPU_DIR}/libsimnccl.so"
                    "KITH_SIMGPU_KERNELS=${KITH_SIMGPU_DIR}/libsimkernels.so"
                    KITH_SIMGPU_LOADED=1) # Kith launches no kernel that it has not loaded before
