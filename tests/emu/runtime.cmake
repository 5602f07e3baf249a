# SPDX-License-Identifier: Apache-2.0
# Tests of libcudart.so.13, of kernels and captures. Programs of programs/ are linked with the
# emulator's libraries by name, and find them where LD_LIBRARY_PATH says: with the toolkit's and a
# driver's they run on a GPU.

# Its header does not say what is exported: the version script alone does.
set_target_properties(emu_cudart PROPERTIES C_VISIBILITY_PRESET default)

function(ferry_emu_program name)
    add_executable(emu_${name} programs/${name}.c)
    set_target_properties(emu_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY programs SKIP_BUILD_RPATH ON ENABLE_EXPORTS ON)
    target_include_directories(emu_${name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(emu_${name} SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
    target_link_libraries(emu_${name} PRIVATE ${ARGN} ferry_kernels ferry_compile Threads::Threads
        ${CMAKE_DL_LIBS})
endfunction()

# ferry_emu_test(NAME ENVIRONMENT "A=b;..." COMMAND command...)
function(ferry_emu_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ENVIRONMENT;COMMAND")
    ferry_register_test(emu.${name} LABEL emu TIMEOUT 60 COMMAND ${arg_COMMAND})
    set_tests_properties(emu.${name} PROPERTIES ENVIRONMENT
        "LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/lib;${arg_ENVIRONMENT}")
endfunction()

# ferry_emu_faults(PROGRAM KIND case...): each case is caught as KIND, and its twin is not.
set(caught ${CMAKE_CURRENT_SOURCE_DIR}/../planted/caught)
function(ferry_emu_faults program kind)
    foreach(case IN LISTS ARGN)
        ferry_emu_test(${program}.${case} COMMAND ${caught} "emu: caught ${kind}"
            $<TARGET_FILE:emu_${program}> ${case})
        ferry_emu_test(${program}.${case}.twin COMMAND $<TARGET_FILE:emu_${program}> ${case} twin)
    endforeach()
endfunction()

ferry_emu_program(runtime_tour emu_cudart)
foreach(devices 1 2)
    foreach(seed 0 1 2)
        ferry_emu_test(runtime_tour.${devices}.${seed} COMMAND $<TARGET_FILE:emu_runtime_tour>
            ENVIRONMENT "FERRY_EMU_DEVICES=${devices};FERRY_EMU_SEED=${seed}")
    endforeach()
endforeach()
ferry_emu_test(runtime_tour.timing COMMAND $<TARGET_FILE:emu_runtime_tour>
    ENVIRONMENT "FERRY_EMU_TIMING=1")

# The toolkit's library and translator, where they are.
get_filename_component(toolkit ${CUDA_INCLUDE_DIR}/.. REALPATH)
find_file(CUDA_RUNTIME_LIBRARY libcudart.so.13
    HINTS ${toolkit}/lib64 ${toolkit}/lib ${CUDA_INCLUDE_DIR}/../lib64)
find_program(CUDA_PTXAS ptxas HINTS ${toolkit}/bin ${CUDA_INCLUDE_DIR}/../bin)
mark_as_advanced(CUDA_RUNTIME_LIBRARY CUDA_PTXAS)
if(CUDA_RUNTIME_LIBRARY)
    ferry_emu_test(runtime_names COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/runtime_names
        $<TARGET_FILE:emu_cudart> ${CUDA_RUNTIME_LIBRARY})
    ferry_emu_program(runtime_errors)
    ferry_emu_test(runtime_errors COMMAND $<TARGET_FILE:emu_runtime_errors>
        $<TARGET_FILE:emu_cudart> ${CUDA_RUNTIME_LIBRARY})
endif()
if(CUDA_PTXAS)
    foreach(target sm_75 sm_90)
        ferry_emu_test(ptxas.${target} COMMAND ${CUDA_PTXAS} -arch=${target} --warning-as-error
            -o ${CMAKE_CURRENT_BINARY_DIR}/kernels.${target}.cubin
            ${CMAKE_CURRENT_SOURCE_DIR}/kernels.ptx)
    endforeach()
endif()

ferry_emu_program(capture_rules emu_cuda)
ferry_emu_test(capture_rules COMMAND $<TARGET_FILE:emu_capture_rules>)
ferry_emu_program(capture_faults emu_cuda)
ferry_emu_faults(capture_faults capture allocate watchdog synchronize query_captured isolation merge
    unjoined legacy context wrong_thread unmatched ended destroy)
ferry_emu_faults(capture_faults unordered branches graph_beside)
ferry_emu_faults(capture_faults freed graph_freed)

ferry_emu_program(ptx_twins emu_cuda)
target_sources(emu_ptx_twins PRIVATE programs/ptx_reader.c)
ferry_emu_test(ptx_twins COMMAND $<TARGET_FILE:emu_ptx_twins>)

ferry_emu_program(kernel_rules emu_cuda)
ferry_emu_test(kernel_rules COMMAND $<TARGET_FILE:emu_kernel_rules>)
ferry_emu_program(kernel_faults emu_cuda)
ferry_emu_faults(kernel_faults freed overrun freed own)
ferry_emu_faults(kernel_faults unordered unordered counter)
ferry_emu_faults(kernel_faults misuse pageable peer unloaded unload_early unloaded_graph context params)
