# The helpers through which folders name their sources.
#
#     kith_folder(<name>)                     adds a sub-folder when it has a CMakeLists.txt
#     kith_core_sources(a.c b.c)              adds files of this folder to libkith
#     kith_core_libraries(<library>...)       links libkith to more than libc, libm and threads
#     kith_module(NAME ucx SOURCES a.c [VARIANT v] [LIBRARIES ...] [INCLUDES ...])
#                                             a loadable backend: lib/kith/libkith_<name>[_<variant>].so
#     kith_test(NAME test_x SOURCES a.c LABEL core [RANKS n] [TIMEOUT s] [INTERNAL] [LIBRARIES ...] [LAUNCH ...] [ENV ...])
#     kith_script_test(NAME x LABEL tools COMMAND ... [TIMEOUT s] [ENV ...])
#     kith_test_needs(<label>... TARGETS <target>...)
#                                             what tests with these labels run; kith_test does it by itself
#
# `cmake --build <dir> --target tests_<label>` builds what the tests with this label need and nothing else: the library, its
# modules and the command, besides what the tests name. It is what .ci/run does in its parts that run a part of the tests.
#
# The objects of one folder are a target of their own, so that per-file flags set in that folder apply. They are compiled
# once and go into libkith.so (only kith_* visible) and into the static kith_internal, which INTERNAL tests link to reach the
# hidden ki_ functions.
#
# SPDX-License-Identifier: BSD-3-Clause

function(kith_folder name)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/CMakeLists.txt")
        add_subdirectory(${name})
    endif()
endfunction()

function(kith_core_sources)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REPLACE "/" "_" target "kith_objects_${folder}")
    if(NOT TARGET ${target})
        add_library(${target} OBJECT)
        target_compile_definitions(${target} PRIVATE KITH_BUILD "KITH_MODULE_SUBDIR=\"${KITH_MODULE_SUBDIR}\"")
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
        target_link_libraries(${target} PRIVATE kith_dep::threads)
        set_property(GLOBAL APPEND PROPERTY KITH_CORE_TARGETS ${target})
    endif()
    target_sources(${target} PRIVATE ${ARGN})
endfunction()

# For folders through which every small operation passes: members of a descriptor that were just stored one by one are
# not loaded as a vector, which waits until the stores have left the processor, and those to other ranks' lines before them.
function(kith_core_scalar_loads)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REPLACE "/" "_" target "kith_objects_${folder}")
    target_compile_options(${target} PRIVATE -fno-tree-slp-vectorize)
endfunction()

function(kith_core_libraries)
    set_property(GLOBAL APPEND PROPERTY KITH_CORE_LIBRARIES ${ARGN})
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REPLACE "/" "_" target "kith_objects_${folder}")
    if(TARGET ${target})
        target_link_libraries(${target} PRIVATE ${ARGN})
    endif()
endfunction()

# Makes libkith.so, kith_internal and kith::kith out of what the folders gave.
macro(kith_library)
    get_property(kith_core_targets GLOBAL PROPERTY KITH_CORE_TARGETS)
    get_property(kith_core_libraries GLOBAL PROPERTY KITH_CORE_LIBRARIES)
    set(kith_core_objects "")
    foreach(target IN LISTS kith_core_targets)
        list(APPEND kith_core_objects "$<TARGET_OBJECTS:${target}>")
    endforeach()
    if(NOT kith_core_objects)
        message(FATAL_ERROR "core/ lists no sources")
    endif()
    set(kith_map "${PROJECT_SOURCE_DIR}/cmake/libkith.map")

    add_library(kith SHARED ${kith_core_objects})
    add_library(kith::kith ALIAS kith)
    set_target_properties(kith PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                          LINKER_LANGUAGE C LINK_DEPENDS "${kith_map}")
    target_include_directories(kith INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                               "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(kith PRIVATE kith_dep::threads m ${CMAKE_DL_LIBS} ${kith_core_libraries})
    target_link_options(kith PRIVATE "-Wl,--version-script=${kith_map}" -Wl,--as-needed
                        -Wl,-Bsymbolic-functions) # public functions called inside need no detour through the PLT
    if(NOT KITH_SANITIZE)
        target_link_options(kith PRIVATE -Wl,-z,defs)
    endif()

    add_library(kith_internal STATIC EXCLUDE_FROM_ALL ${kith_core_objects})
    set_target_properties(kith_internal PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(kith_internal INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
    target_link_libraries(kith_internal INTERFACE kith_dep::threads m ${CMAKE_DL_LIBS} ${kith_core_libraries})
endmacro()

function(kith_module)
    cmake_parse_arguments(arg "" "NAME;VARIANT" "SOURCES;LIBRARIES;INCLUDES" ${ARGN})
    set(file kith_${arg_NAME})
    if(arg_VARIANT)
        string(APPEND file "_${arg_VARIANT}")
    endif()
    set(target "${file}_module")
    set(map "${PROJECT_SOURCE_DIR}/cmake/module.map")
    add_library(${target} MODULE ${arg_SOURCES})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file} LINK_DEPENDS "${map}"
                          LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${KITH_MODULE_SUBDIR}"
                          INSTALL_RPATH "")
    target_compile_definitions(${target} PRIVATE KITH_BUILD)
    if(arg_VARIANT)
        target_compile_definitions(${target} PRIVATE "KITH_MODULE_VARIANT=\"${arg_VARIANT}\"")
    endif()
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
    if(arg_INCLUDES)
        target_include_directories(${target} SYSTEM PRIVATE ${arg_INCLUDES})
    endif()
    target_link_libraries(${target} PRIVATE kith_dep::threads ${arg_LIBRARIES})
    target_link_options(${target} PRIVATE "-Wl,--version-script=${map}" -Wl,--as-needed)
    if(NOT KITH_SANITIZE)
        target_link_options(${target} PRIVATE -Wl,-z,defs) # a module links to nothing of the library
    endif()
    set_property(GLOBAL APPEND PROPERTY KITH_MODULE_TARGETS ${target})
endfunction()

# ---- tests ----

# What any test may run through a launcher, a setting or a script.
function(kith_test_needs)
    cmake_parse_arguments(arg "" "" "TARGETS" ${ARGN})
    foreach(label IN LISTS arg_UNPARSED_ARGUMENTS)
        if(NOT TARGET tests_${label})
            get_property(modules GLOBAL PROPERTY KITH_MODULE_TARGETS)
            add_custom_target(tests_${label})
            add_dependencies(tests_${label} kith ${modules})
            if(TARGET kith_command)
                add_dependencies(tests_${label} kith_command)
            endif()
        endif()
        if(arg_TARGETS)
            add_dependencies(tests_${label} ${arg_TARGETS})
        endif()
    endforeach()
endfunction()

# The targets whose files a command names.
function(kith_targets_of out)
    string(REGEX MATCHALL "\\$<TARGET_FILE:[^>]+>" names "${ARGN}")
    list(TRANSFORM names REPLACE "^\\$<TARGET_FILE:(.*)>$" "\\1")
    set(${out} "${names}" PARENT_SCOPE)
endfunction()

find_program(KITH_BASH NAMES bash REQUIRED)
find_program(KITH_CXX NAMES c++ g++ clang++) # only tests compile C++, and only where there is a compiler
mark_as_advanced(KITH_BASH KITH_CXX)
set(KITH_SHARED_DIR "$ENV{KITH_SHARED_DIR}" CACHE PATH "Folder with recorded machines for tests that can use them; empty: ../shared if it is there")

function(kith_test_environment out)
    set(shared "${KITH_SHARED_DIR}")
    if(NOT shared AND EXISTS "${PROJECT_SOURCE_DIR}/../shared/topologies")
        get_filename_component(shared "${PROJECT_SOURCE_DIR}/../shared" ABSOLUTE)
    endif()
    set(env "KITH_BUILD_DIR=${PROJECT_BINARY_DIR}" "KITH_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
        "KITH_BIN=${PROJECT_BINARY_DIR}/bin/kith"
        # Open MPI asks twice before it runs for root, and counts cores before it starts more ranks than there are.
        "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" "OMPI_MCA_rmaps_base_oversubscribe=1")
    if(shared)
        list(APPEND env "KITH_SHARED_DIR=${shared}")
    endif()
    if(KITH_SANITIZE MATCHES "address")
        list(APPEND env "ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=1"
             "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
             "UBSAN_OPTIONS=print_stacktrace=1")
    elseif(KITH_SANITIZE MATCHES "thread")
        list(APPEND env "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:halt_on_error=0:second_deadlock_stack=1")
    endif()
    set(${out} "${env}" PARENT_SCOPE)
endfunction()

# Properties that every test has. Sanitized programs are several times slower.
function(kith_test_properties name label timeout ranks)
    if(NOT timeout)
        set(timeout 60)
    endif()
    if(KITH_SANITIZE)
        math(EXPR timeout "${timeout} * 4")
    endif()
    kith_test_environment(env)
    if(KITH_SANITIZE MATCHES "address" AND name MATCHES "mpi")
        # An MPI keeps memory of parts that it has unloaded again: leaks without a name that could be suppressed.
        list(APPEND env "ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0")
    endif()
    if(KITH_SANITIZE MATCHES "address" AND "${label}" MATCHES "gpu")
        # Streams of the simulated GPU are threads, which LeakSanitizer crashes on when they are just ending. Each thread of a
        # block is a coroutine, and would get a stack of the sanitizer's for what it returned from.
        list(APPEND env "ASAN_OPTIONS=detect_stack_use_after_return=0:detect_leaks=0")
    endif()
    set(processors 1)
    if(ranks AND ranks GREATER 1)
        set(processors 2)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                         PROCESSORS ${processors} ENVIRONMENT "${env};${ARGN}")
endfunction()

function(kith_test)
    cmake_parse_arguments(arg "INTERNAL" "NAME;RANKS;TIMEOUT" "SOURCES;LABEL;LIBRARIES;LAUNCH;ENV" ${ARGN})
    if(NOT TARGET kith_dep::cmocka)
        return()
    endif()
    if(NOT TARGET ${arg_NAME})
        add_executable(${arg_NAME} ${arg_SOURCES})
        set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin/tests")
        target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
        if(arg_INTERNAL)
            target_link_libraries(${arg_NAME} PRIVATE kith_internal)
            target_compile_definitions(${arg_NAME} PRIVATE "KITH_MODULE_SUBDIR=\"${KITH_MODULE_SUBDIR}\"")
        else()
            target_link_libraries(${arg_NAME} PRIVATE kith)
        endif()
        target_link_libraries(${arg_NAME} PRIVATE kith_dep::cmocka kith_dep::threads m ${arg_LIBRARIES})
    endif()
    set(command $<TARGET_FILE:${arg_NAME}>)
    if(arg_LAUNCH)
        set(command ${arg_LAUNCH} ${command})
    elseif(arg_RANKS)
        set(command "${PROJECT_BINARY_DIR}/bin/kith" run -n ${arg_RANKS} -- ${command})
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${command})
    kith_test_needs(${arg_LABEL} TARGETS ${arg_NAME})
    kith_test_properties(${arg_NAME} "${arg_LABEL}" "${arg_TIMEOUT}" "${arg_RANKS}" ${arg_ENV})
endfunction()

function(kith_script_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT;RANKS" "LABEL;COMMAND;ENV" ${ARGN})
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    kith_targets_of(targets ${arg_COMMAND})
    kith_test_needs(${arg_LABEL} TARGETS ${targets})
    kith_test_properties(${arg_NAME} "${arg_LABEL}" "${arg_TIMEOUT}" "${arg_RANKS}" ${arg_ENV})
endfunction()
