# What the build uses from the system. Each optional part becomes an interface target and a line for the summary:
#
#     kith_dep::threads               always
#     kith_dep::jansson               JSON
#     kith_dep::hwloc                 discovery of machines, binding of ranks
#     kith_dep::libxml2, kith_dep::yaml   headers of what reads XML and YAML files of machines (opened at run time)
#     kith_dep::cairo                 pictures
#     kith_dep::ucx                   the ucx module
#     kith_dep::mpi_openmpi, kith_dep::mpi_mpich, kith_dep::mpi_default      the mpi modules; KITH_MPI_VARIANTS lists them
#     kith_dep::cuda                  the cuda module: headers of CUDA and cuBLAS; KITH_NVCC compiles its kernels
#     kith_dep::random123             headers, for a test
#     kith_dep::cmocka                tests
#
# A folder asks if(TARGET kith_dep::ucx).
#
# SPDX-License-Identifier: BSD-3-Clause
include(CheckCSourceCompiles)
find_package(PkgConfig QUIET)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
add_library(kith_dep_threads INTERFACE)
target_link_libraries(kith_dep_threads INTERFACE Threads::Threads)
add_library(kith_dep::threads ALIAS kith_dep_threads)

# kith_dependency_note(<part> <text>): one line of the summary.
function(kith_dependency_note part text)
    set_property(GLOBAL APPEND PROPERTY KITH_NOTES "${part}: ${text}")
endfunction()

# kith_dependency_pkgconfig(<name> <module> <debian package>): makes kith_dep::<name> when pkg-config knows <module>.
function(kith_dependency_pkgconfig name module package)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(KITH_${name} QUIET IMPORTED_TARGET ${module})
    endif()
    if(KITH_${name}_FOUND)
        add_library(kith_dep_${name} INTERFACE)
        target_link_libraries(kith_dep_${name} INTERFACE PkgConfig::KITH_${name})
        add_library(kith_dep::${name} ALIAS kith_dep_${name})
        kith_dependency_note(${name} "${KITH_${name}_VERSION}")
    else()
        kith_dependency_note(${name} "not found (Debian package ${package})")
    endif()
endfunction()

kith_dependency_pkgconfig(jansson jansson libjansson-dev)
kith_dependency_pkgconfig(libxml2 libxml-2.0 libxml2-dev)
kith_dependency_pkgconfig(yaml yaml-0.1 libyaml-dev)
kith_dependency_pkgconfig(cairo cairo libcairo2-dev)

if(KITH_WITH_HWLOC)
    kith_dependency_pkgconfig(hwloc hwloc libhwloc-dev)
else()
    kith_dependency_note(hwloc "switched off (KITH_WITH_HWLOC)")
endif()

if(KITH_WITH_UCX)
    kith_dependency_pkgconfig(ucx ucx libucx-dev)
else()
    kith_dependency_note(ucx "switched off (KITH_WITH_UCX)")
endif()

# kith_dependency_mpi(<variant> <wrapper names>...): asks an MPI compiler wrapper for its flags. Two MPIs can stand side by
# side, which FindMPI does not do in one project.
function(kith_dependency_mpi variant)
    find_program(KITH_MPICC_${variant} NAMES ${ARGN})
    mark_as_advanced(KITH_MPICC_${variant})
    set(wrapper "${KITH_MPICC_${variant}}")
    if(NOT wrapper)
        return()
    endif()
    execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE line ERROR_QUIET RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed)
        return()
    endif()
    separate_arguments(words UNIX_COMMAND "${line}")
    list(FILTER words INCLUDE REGEX "^-([IDLl]|Wl,)")
    set(includes ${words})
    list(FILTER includes INCLUDE REGEX "^-I")
    list(TRANSFORM includes REPLACE "^-I" "")
    set(definitions ${words})
    list(FILTER definitions INCLUDE REGEX "^-D")
    list(TRANSFORM definitions REPLACE "^-D" "")
    set(libraries ${words})
    list(FILTER libraries INCLUDE REGEX "^-[Ll]")
    set(CMAKE_REQUIRED_INCLUDES ${includes})
    set(CMAKE_REQUIRED_LIBRARIES ${libraries})
    check_c_source_compiles("#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }" KITH_MPI_${variant}_WORKS)
    if(NOT KITH_MPI_${variant}_WORKS)
        kith_dependency_note(mpi "${wrapper} is there but a program with mpi.h does not link")
        return()
    endif()
    add_library(kith_dep_mpi_${variant} INTERFACE)
    target_include_directories(kith_dep_mpi_${variant} SYSTEM INTERFACE ${includes})
    target_compile_definitions(kith_dep_mpi_${variant} INTERFACE ${definitions})
    target_link_libraries(kith_dep_mpi_${variant} INTERFACE ${libraries})
    add_library(kith_dep::mpi_${variant} ALIAS kith_dep_mpi_${variant})
    kith_dependency_note(mpi "${variant} (${wrapper})")
    list(APPEND KITH_MPI_VARIANTS ${variant})
    set(KITH_MPI_VARIANTS "${KITH_MPI_VARIANTS}" PARENT_SCOPE)
endfunction()

set(KITH_MPI_VARIANTS "")
if(KITH_WITH_MPI)
    kith_dependency_mpi(openmpi mpicc.openmpi)
    kith_dependency_mpi(mpich mpicc.mpich)
    if(NOT KITH_MPI_VARIANTS)
        kith_dependency_mpi(default mpicc)
    endif()
    if(NOT KITH_MPI_VARIANTS)
        kith_dependency_note(mpi "not found (Debian packages libopenmpi-dev, libmpich-dev)")
    endif()
else()
    kith_dependency_note(mpi "switched off (KITH_WITH_MPI)")
endif()

# Matrix products of layers: opened at run time, so nothing is linked; whether there is one here is worth a line.
find_library(KITH_BLAS NAMES libopenblas.so.0 libblis.so.4 libmkl_rt.so.2 libcblas.so.3 libblas.so.3)
mark_as_advanced(KITH_BLAS)
if(KITH_BLAS)
    kith_dependency_note(blas "${KITH_BLAS} (opened at run time)")
else()
    kith_dependency_note(blas "not found; layers need a CBLAS at run time (Debian package libopenblas0-pthread)")
endif()

# NVIDIA GPUs: headers and nvcc; the libraries are opened at run time, so a machine that builds needs no driver and no GPU.
if(KITH_WITH_CUDA)
    find_path(KITH_CUDA_INCLUDE cuda_runtime_api.h
              HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda/include /opt/cuda/include PATH_SUFFIXES include)
    find_path(KITH_CUBLAS_INCLUDE cublas_v2.h HINTS "${KITH_CUDA_INCLUDE}")
    find_program(KITH_NVCC nvcc HINTS "${KITH_CUDA_INCLUDE}/../bin" ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda/bin
                 /opt/cuda/bin PATH_SUFFIXES bin)
    mark_as_advanced(KITH_CUDA_INCLUDE KITH_CUBLAS_INCLUDE KITH_NVCC)
    if(NOT KITH_CUDA_INCLUDE OR NOT KITH_CUBLAS_INCLUDE)
        kith_dependency_note(cuda "no headers of CUDA 12.8 or newer with cuBLAS; GPUs cannot be used")
    elseif(NOT KITH_NVCC)
        kith_dependency_note(cuda "no nvcc for the kernels of layers; GPUs cannot be used")
    else()
        file(STRINGS "${KITH_CUDA_INCLUDE}/cuda_runtime_api.h" kith_cuda_version REGEX "^#define CUDART_VERSION")
        string(REGEX MATCH "[0-9]+" kith_cuda_version "${kith_cuda_version}")
        if(kith_cuda_version LESS 12080)
            kith_dependency_note(cuda "${KITH_CUDA_INCLUDE} is older than 12.8; GPUs cannot be used")
        else()
            add_library(kith_dep_cuda INTERFACE)
            set(kith_cuda_includes "${KITH_CUDA_INCLUDE}" "${KITH_CUBLAS_INCLUDE}")
            list(REMOVE_DUPLICATES kith_cuda_includes)
            target_include_directories(kith_dep_cuda SYSTEM INTERFACE ${kith_cuda_includes})
            add_library(kith_dep::cuda ALIAS kith_dep_cuda)
            list(JOIN KITH_CUDA_ARCHS ", " kith_cuda_archs)
            kith_dependency_note(cuda "${KITH_NVCC}, for sm ${kith_cuda_archs} (libraries are opened at run time)")
        endif()
    endif()
else()
    kith_dependency_note(cuda "switched off (KITH_WITH_CUDA)")
endif()

# Random123, the reference that the tests compare the generator of dropout with.
find_path(KITH_RANDOM123 Random123/philox.h)
mark_as_advanced(KITH_RANDOM123)
if(KITH_RANDOM123)
    add_library(kith_dep_random123 INTERFACE)
    target_include_directories(kith_dep_random123 SYSTEM INTERFACE "${KITH_RANDOM123}")
    target_compile_definitions(kith_dep_random123 INTERFACE KITH_HAVE_RANDOM123)
    add_library(kith_dep::random123 ALIAS kith_dep_random123)
    kith_dependency_note(random123 "${KITH_RANDOM123}")
else()
    kith_dependency_note(random123 "not found (Debian package librandom123-dev); one test is left out")
endif()

if(KITH_WITH_TESTS)
    kith_dependency_pkgconfig(cmocka cmocka libcmocka-dev)
endif()
