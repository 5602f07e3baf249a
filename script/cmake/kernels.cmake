# SPDX-License-Identifier: Apache-2.0
# ferry_kernels: what includes <ferry_kernels.h> has the kernels of tests/emu/kernels.ptx as a string,
# ferry_kernels_ptx, for cuModuleLoadData. The file is made at build time, by this script itself.
if(CMAKE_SCRIPT_MODE_FILE)
    # As numbers: no character of the source needs care, and no string is too long.
    file(READ ${PTX} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(................................................................................)"
        "\\1\n" bytes "${bytes}")
    file(WRITE ${HEADER} "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from kernels.ptx. */\n"
        "static const char ferry_kernels_ptx[] = {\n${bytes}\n0};\n")
    return()
endif()

set(kernels_ptx ${PROJECT_SOURCE_DIR}/tests/emu/kernels.ptx)
set(kernels_script ${CMAKE_CURRENT_LIST_FILE})
set(kernels_header ${PROJECT_BINARY_DIR}/kernels/ferry_kernels.h)
add_custom_command(OUTPUT ${kernels_header}
    COMMAND ${CMAKE_COMMAND} -DPTX=${kernels_ptx} -DHEADER=${kernels_header} -P ${kernels_script}
    DEPENDS ${kernels_ptx} ${kernels_script} VERBATIM)
add_custom_target(ferry_kernels_header DEPENDS ${kernels_header})
add_library(ferry_kernels INTERFACE)
target_include_directories(ferry_kernels SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/kernels)
add_dependencies(ferry_kernels ferry_kernels_header)
