# SPDX-License-Identifier: Apache-2.0
# libnccl.so.2 and its tests, where there is nccl.h (whose own includes are the toolkit's).

if(NOT nccl)
    return()
endif()

# One as the H200 had it, and one of the first version that has ncclCommRevoke.
list(REMOVE_ITEM nccl_sources ${CMAKE_CURRENT_SOURCE_DIR}/nccl_revoke.c)
function(ferry_emu_nccl target)
    ferry_emu_library(${target} nccl 2 ${CMAKE_CURRENT_SOURCE_DIR}/nccl.map ${nccl_sources} ${ARGN})
    # Its header does not say what is exported: the version script alone does.
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET default)
    target_include_directories(${target} SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
    target_link_libraries(${target} PRIVATE emu_cuda)
endfunction()
ferry_emu_nccl(emu_nccl)
if(NOT nccl_version LESS 22809)
    ferry_emu_nccl(emu_nccl_revoke nccl_revoke.c)
    set_target_properties(emu_nccl_revoke PROPERTIES LIBRARY_OUTPUT_DIRECTORY lib/nccl-2.28.9
        BUILD_RPATH "\$ORIGIN/..")
    target_compile_definitions(emu_nccl_revoke PRIVATE EMU_NCCL_VERSION=22809)
endif()

function(ferry_emu_nccl_program name)
    ferry_emu_program(${name} emu_nccl emu_cuda)
    target_include_directories(emu_${name} SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
endfunction()

ferry_emu_nccl_program(nccl_deadlock)
foreach(case two room one_comm three foreign)
    foreach(order own agreed)
        ferry_emu_test(nccl_deadlock.${case}.${order}
            COMMAND $<TARGET_FILE:emu_nccl_deadlock> ${case} ${order}
            ENVIRONMENT "FERRY_EMU_DEVICES=3")
    endforeach()
endforeach()

ferry_emu_nccl_program(nccl_tour)
foreach(case asked blocking nonblocking self many reduce streams meet slots event group group_fails
        abort abort_held alone one_device script process_leaves process_killed exit)
    ferry_emu_test(nccl_tour.${case} COMMAND $<TARGET_FILE:emu_nccl_tour> ${case})
endforeach()
foreach(case blocking nonblocking many meet slots abort)
    ferry_emu_test(nccl_tour.${case}.delayed COMMAND $<TARGET_FILE:emu_nccl_tour> ${case}
        ENVIRONMENT "FERRY_EMU_SEED=5")
endforeach()
# A ; parts commands of the script, and would part the list of variables.
ferry_emu_test(nccl_tour.environment COMMAND env
    "FERRY_EMU_SCRIPT=fail ncclSend 1 3\\; nccl_error 1 6\\; nccl_delay 0"
    $<TARGET_FILE:emu_nccl_tour> environment ENVIRONMENT "FERRY_EMU_NCCL_VERSION=22809")

ferry_emu_nccl_program(nccl_faults)
ferry_emu_faults(nccl_faults misuse sizes self_sizes threads aborted aborted_twice destroyed
    finalised stream)
ferry_emu_faults(nccl_faults freed freed past_the_end free_beside)
ferry_emu_faults(nccl_faults unordered beside event_at_once overlap)

# The same program as the others, with the other library before them.
if(TARGET emu_nccl_revoke)
    set(lib ${CMAKE_CURRENT_BINARY_DIR}/lib)
    add_dependencies(emu_nccl_tour emu_nccl_revoke)
    ferry_emu_test(nccl_tour.revoke COMMAND env LD_LIBRARY_PATH=${lib}/nccl-2.28.9:${lib}
        $<TARGET_FILE:emu_nccl_tour> revoke)
endif()
