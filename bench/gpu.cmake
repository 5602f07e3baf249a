# SPDX-License-Identifier: Apache-2.0
# `ferry_probe` and `ferry_bench_gpu`, where CUDA's headers are. The first opens the driver alone, at
# run time; the second is linked with libcudart.so.13: the emulator's, or without the tests the
# toolkit's. They have no path to either: the loader's own search decides which CUDA it is. Their path
# to libferry holds in the build tree and in what script/bundle makes.
if(NOT cuda)
    return()
endif()

file(GLOB probe_sources CONFIGURE_DEPENDS probe*.c rivals/nccl.c)
# What asks NCCL opens it at run time, too, and needs its headers, which need the CUDA runtime's.
find_path(NCCL_INCLUDE_DIR nccl.h
    HINTS ${CUDA_INCLUDE_DIR} $ENV{NCCL_HOME}/include PATHS /usr/local/cuda/include)
mark_as_advanced(NCCL_INCLUDE_DIR)
if(NCCL_INCLUDE_DIR AND EXISTS ${CUDA_INCLUDE_DIR}/cuda_runtime.h)
    list(FILTER probe_sources EXCLUDE REGEX "/probe_nccl_absent\\.c$")
else()
    list(FILTER probe_sources EXCLUDE REGEX "/(probe_nccl|probe_nccl_[^/]*|rivals/nccl)\\.c$")
    list(APPEND probe_sources probe_nccl_absent.c)
    message(STATUS "ferry_probe asks nothing of NCCL: nccl.h is not here")
endif()
add_executable(ferry_probe ferry_probe.c bench.c report.c rivals/cuda_driver.c ${probe_sources})
set_target_properties(ferry_probe PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/..")
target_include_directories(ferry_probe PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(ferry_probe SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
if(NCCL_INCLUDE_DIR)
    target_include_directories(ferry_probe SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
endif()
target_link_libraries(ferry_probe PRIVATE ferry::ferry ferry_compile ferry_kernels
    PkgConfig::JANSSON Threads::Threads m ${CMAKE_DL_LIBS})

if(TARGET emu_cuda)
    ferry_register_test(bench.probe_smoke LABEL gpu TIMEOUT 120 PROCESSORS 2
        COMMAND ${PROJECT_SOURCE_DIR}/tests/bench/probe $<TARGET_FILE:ferry_probe>
            $<TARGET_FILE_DIR:emu_cuda>)
endif()

if(TARGET emu_cudart)
    set(cudart emu_cudart)
else()
    find_library(CUDART_LIBRARY NAMES libcudart.so.13
        HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
    mark_as_advanced(CUDART_LIBRARY)
    if(NOT CUDART_LIBRARY)
        message(STATUS "ferry_bench_gpu is not built: libcudart.so.13 is not here")
        return()
    endif()
    set(cudart ${CUDART_LIBRARY})
endif()

file(GLOB gpu_sources CONFIGURE_DEPENDS gpu*.c rivals/cuda*.c)
list(FILTER gpu_sources EXCLUDE REGEX "/rivals/cuda_driver\\.c$") # ferry_probe's
add_executable(ferry_bench_gpu ferry_bench_gpu.c bench.c reach_find.c report.c table.c ${gpu_sources})
set_target_properties(ferry_bench_gpu PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/..")
target_include_directories(ferry_bench_gpu PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(ferry_bench_gpu SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_libraries(ferry_bench_gpu PRIVATE
    ferry::ferry ferry_compile ferry_kernels PkgConfig::JANSSON Threads::Threads m ${cudart})
add_dependencies(ferry_bench_gpu ferry_cuda) # which ferry opens at run time

# What script/gpu preloads into all it runs, to hear where the threads of what hangs stand. Without
# sanitizers, which would want to be the first to be loaded.
add_library(ferry_backtraces MODULE preload/backtraces.c)
set_target_properties(ferry_backtraces PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
target_compile_options(ferry_backtraces PRIVATE -Wall -Wextra -Wconversion -fno-sanitize=all)
target_link_libraries(ferry_backtraces PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

if(TARGET emu_cudart)
    ferry_register_test(bench.gpu_smoke LABEL gpu TIMEOUT 120 PROCESSORS 2
        COMMAND ${PROJECT_SOURCE_DIR}/tests/bench/gpu $<TARGET_FILE:ferry_bench_gpu>
            $<TARGET_FILE_DIR:emu_cudart>)
endif()
