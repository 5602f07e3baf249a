# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: headers, the shared and the static library, modules, ferry.pc, a
# CMake package, the ferry tool, the manual.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ferry)
set(package_build_dir ${CMAKE_CURRENT_BINARY_DIR}/package)

# ferry.pc finds its prefix from where it lies, so that `cmake --install --prefix` may choose it;
# only absolute install folders, as some distributions set them, stay as they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
else()
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
else()
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
list(TRANSFORM CMAKE_DL_LIBS PREPEND " -l" OUTPUT_VARIABLE pc_dl_libs)
configure_file(script/cmake/ferry.pc.in ${package_build_dir}/ferry.pc @ONLY)

configure_package_config_file(script/cmake/ferryConfig.cmake.in
    ${package_build_dir}/ferryConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${package_build_dir}/ferryConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)

# What lies beside the library is found there: script/bundle puts libev into that place.
set_target_properties(ferry PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ferry EXPORT ferryTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET ferry_nccl)
    install(TARGETS ferry_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry)
endif()
if(TARGET ferry_cuda)
    install(TARGETS ferry_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry)
endif()
# A set of targets of its own: who has the shared library alone deletes the archive and this file.
install(TARGETS ferry_static EXPORT ferryStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ferryStaticTargets NAMESPACE ferry:: DESTINATION ${package_dir})
install(DIRECTORY include/ferry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
    PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT ferryTargets NAMESPACE ferry:: DESTINATION ${package_dir})
install(FILES ${package_build_dir}/ferryConfig.cmake ${package_build_dir}/ferryConfigVersion.cmake
    DESTINATION ${package_dir})
install(FILES ${package_build_dir}/ferry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET ferry_tool)
    file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(ferry_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS ferry_tool DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The manual, where the programs that make it are.
find_program(DOXYGEN doxygen)
find_program(HELP2MAN help2man)
find_program(PYTHON3 python3)
mark_as_advanced(DOXYGEN HELP2MAN PYTHON3)
if(TARGET ferry_tool AND DOXYGEN AND HELP2MAN AND PYTHON3 AND NOT FERRY_SANITIZE
    AND NOT CMAKE_CROSSCOMPILING)
    set(manual ${CMAKE_CURRENT_BINARY_DIR}/manual)
    file(GLOB manual_sources CONFIGURE_DEPENDS include/ferry/*.h script/man/*
        examples/*.c examples/cookbook/*.c)
    add_custom_command(OUTPUT ${manual}/man3/ferry.3
        COMMAND ${PROJECT_SOURCE_DIR}/script/man/build
            ${manual} $<TARGET_FILE:ferry_tool> ${PROJECT_VERSION}
        DEPENDS ${manual_sources} ferry_tool VERBATIM)
    add_custom_target(ferry_manual ALL DEPENDS ${manual}/man3/ferry.3)
    install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR})
    if(FERRY_BUILD_TESTS AND FERRY_TEST_TREE)
        ferry_register_test(manual LABEL api TIMEOUT 60
            COMMAND ${PROJECT_SOURCE_DIR}/tests/tools/manual ${manual} ${PROJECT_SOURCE_DIR})
    endif()
else()
    message(STATUS "the manual is not made: it takes doxygen, help2man and python3")
endif()
