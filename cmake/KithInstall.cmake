# What `cmake --install` gives: headers, libkith, modules beside it in kith/, pkg-config and CMake package files, manual pages,
# shell completion. The command and the benchmark install themselves in their folders.
#
# Everything is found relative to where it lies, so the prefix can be moved as a whole.
#
# SPDX-License-Identifier: BSD-3-Clause
include(CMakePackageConfigHelpers)

install(DIRECTORY include/kith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS kith EXPORT kith-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
get_property(kith_modules GLOBAL PROPERTY KITH_MODULE_TARGETS)
if(kith_modules)
    install(TARGETS ${kith_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${KITH_MODULE_SUBDIR})
endif()

set(kith_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kith)
install(EXPORT kith-targets NAMESPACE kith:: DESTINATION ${kith_cmake_dir})
configure_package_config_file(cmake/kith-config.cmake.in "${PROJECT_BINARY_DIR}/kith-config.cmake"
                              INSTALL_DESTINATION ${kith_cmake_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 a new minor version may break sources, so only the same minor version will do.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kith-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kith-config.cmake" "${PROJECT_BINARY_DIR}/kith-config-version.cmake"
        DESTINATION ${kith_cmake_dir})

# pcfiledir makes the file good for a prefix that was moved.
file(RELATIVE_PATH kith_prefix_from_pc "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file(cmake/kith.pc.in "${PROJECT_BINARY_DIR}/kith.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kith.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# A page of section 3 describes several functions; `man kith_wait` finds it through a page that only points to it.
function(kith_manual_pointers page folder)
    get_filename_component(file "${page}" NAME)
    file(STRINGS "${page}" lines REGEX "^\\.Nm kith_")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^\\.Nm (kith_[a-z0-9_]+).*" "\\1" name "${line}")
        if(NOT "${name}.3" STREQUAL file)
            file(WRITE "${folder}/${name}.3" ".so man3/${file}\n")
        endif()
    endforeach()
endfunction()

foreach(section IN ITEMS 1 3 7)
    file(GLOB pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*.${section}")
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    if(section EQUAL 3)
        foreach(page IN LISTS pages)
            kith_manual_pointers("${page}" "${PROJECT_BINARY_DIR}/man3")
        endforeach()
    endif()
endforeach()
install(DIRECTORY "${PROJECT_BINARY_DIR}/man3/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

install(FILES docs/completion/kith.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kith)
install(FILES docs/completion/_kith DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
