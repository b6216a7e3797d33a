# Compiles one file of kernels: <FOLDER>/<NAME>.fatbin, .ptxas (what ptxas says), .ptx (of the last architecture).
#
# SPDX-License-Identifier: BSD-3-Clause
set(codes "")
foreach(arch IN LISTS ARCHS)
    list(APPEND codes -gencode "arch=compute_${arch},code=sm_${arch}")
endforeach()
list(GET ARCHS -1 last)
list(APPEND codes -gencode "arch=compute_${last},code=compute_${last}")
set(keep "${FOLDER}/${NAME}.keep")
file(REMOVE_RECURSE "${keep}")
file(MAKE_DIRECTORY "${keep}")
execute_process(
    COMMAND "${NVCC}" -fatbin -std=c++17 -O3 -fmad=false -Xptxas -v "-I${ROOT}" "-I${ROOT}/include" ${codes}
            --keep --keep-dir "${keep}" -o "${FOLDER}/${NAME}.fatbin" "${SOURCE}"
    ERROR_FILE "${FOLDER}/${NAME}.ptxas" OUTPUT_VARIABLE said RESULT_VARIABLE failed)
file(READ "${FOLDER}/${NAME}.ptxas" report)
if(failed)
    message(FATAL_ERROR "${said}${report}")
endif()
string(REGEX MATCHALL "[^\n]*warning[^\n]*" warnings "${report}")
if(warnings)
    message(WARNING "${NAME}.cu: ${warnings}")
endif()
file(GLOB ptx "${keep}/*${last}*.ptx")
if(NOT ptx)
    file(GLOB ptx "${keep}/*.ptx")
endif()
list(GET ptx 0 ptx)
file(COPY_FILE "${ptx}" "${FOLDER}/${NAME}.ptx")
file(REMOVE_RECURSE "${keep}")
