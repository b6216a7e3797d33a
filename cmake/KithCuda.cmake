# Kernels: a .cu file becomes machine code that stands inside the cuda module.
#
# SPDX-License-Identifier: BSD-3-Clause
set(KITH_CUDA_KERNELS_FROM "" CACHE PATH
    "Another build of the same sources, whose compiled kernels are taken instead of compiling them again; empty: none")

# kith_fatbin(<name> DEPENDS <files...>): <name>.cu of the calling folder, for KITH_CUDA_ARCHS and as PTX of the last of them,
# to <name>.fatbin in its binary folder. What ptxas says of registers and memory stands beside it (<name>.ptxas), and the PTX
# (<name>.ptx); tests read both.
function(kith_fatbin name)
    cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
    set(source "${CMAKE_CURRENT_SOURCE_DIR}/${name}.cu")
    set(script "${PROJECT_SOURCE_DIR}/cmake/KithNvcc.cmake")
    set(to "${CMAKE_CURRENT_BINARY_DIR}/${name}")
    set(parts "${to}.ptxas" "${to}.ptx")
    if(KITH_CUDA_KERNELS_FROM)
        file(RELATIVE_PATH folder "${PROJECT_BINARY_DIR}" "${CMAKE_CURRENT_BINARY_DIR}")
        set(from "${KITH_CUDA_KERNELS_FROM}/${folder}/${name}")
        add_custom_command(OUTPUT "${to}.fatbin" BYPRODUCTS ${parts}
            COMMAND "${CMAKE_COMMAND}" -E copy "${from}.fatbin" "${from}.ptxas" "${from}.ptx" "${CMAKE_CURRENT_BINARY_DIR}"
            DEPENDS "${from}.fatbin" COMMENT "${name}.fatbin of ${KITH_CUDA_KERNELS_FROM}" VERBATIM)
        return()
    endif()
    add_custom_command(OUTPUT "${to}.fatbin" BYPRODUCTS ${parts}
        COMMAND "${CMAKE_COMMAND}" "-DNVCC=${KITH_NVCC}" "-DARCHS=${KITH_CUDA_ARCHS}" "-DNAME=${name}" "-DSOURCE=${source}"
                "-DROOT=${PROJECT_SOURCE_DIR}" "-DFOLDER=${CMAKE_CURRENT_BINARY_DIR}" -P "${script}"
        DEPENDS "${source}" "${script}" ${arg_DEPENDS} COMMENT "nvcc ${name}.cu (${KITH_CUDA_ARCHS})" VERBATIM)
endfunction()
