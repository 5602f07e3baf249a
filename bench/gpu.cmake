# SPDX-License-Identifier: Apache-2.0
# `ferry_bench_gpu`, where CUDA's headers are. It is linked with libcudart.so.13: the emulator's, or
# without the tests the toolkit's. By name, so that no path to it gets into the program: which of the
# two it runs with is for the loader to say.
if(NOT cuda)
    return()
endif()
if(TARGET emu_cudart)
    set(cudart_dir $<TARGET_FILE_DIR:emu_cudart>)
else()
    find_library(CUDART_LIBRARY NAMES libcudart.so.13
        HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
    mark_as_advanced(CUDART_LIBRARY)
    if(NOT CUDART_LIBRARY)
        message(STATUS "ferry_bench_gpu is not built: libcudart.so.13 is not here")
        return()
    endif()
    get_filename_component(cudart_dir ${CUDART_LIBRARY} DIRECTORY)
endif()

file(GLOB gpu_sources CONFIGURE_DEPENDS gpu*.c rivals/cuda*.c)
add_executable(ferry_bench_gpu ferry_bench_gpu.c bench.c reach_find.c report.c table.c ${gpu_sources})
target_include_directories(ferry_bench_gpu PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(ferry_bench_gpu SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_libraries(ferry_bench_gpu PRIVATE
    ferry::ferry ferry_compile ferry_kernels PkgConfig::JANSSON Threads::Threads m
    -l:libcudart.so.13)
target_link_options(ferry_bench_gpu PRIVATE -L${cudart_dir} -Wl,-rpath-link,${cudart_dir})
add_dependencies(ferry_bench_gpu ferry_cuda) # which ferry opens at run time

if(TARGET emu_cudart)
    add_dependencies(ferry_bench_gpu emu_cudart)
    ferry_register_test(bench.gpu_smoke LABEL gpu TIMEOUT 120 PROCESSORS 2
        COMMAND ${PROJECT_SOURCE_DIR}/tests/bench/gpu $<TARGET_FILE:ferry_bench_gpu>
            $<TARGET_FILE_DIR:emu_cudart>)
endif()
