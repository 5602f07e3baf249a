# SPDX-License-Identifier: Apache-2.0
# Tests of libcuda.so.1 but for kernels, captures and graphs.

ferry_emu_program(driver_faults emu_cuda)
ferry_emu_faults(driver_faults freed copy_after_free past_the_end memset_past_the_end
    last_row_past_the_end value_after_free late_word double_free free_under_copy copy_behind_free
    free_pool_memory free_under_peer context_under_peer free_host_under_copy unregister_under_copy)
ferry_emu_faults(driver_faults unordered write_write read_write columns between_rows
    batch_writes_twice batch_reads_what_it_writes memset_beside_copy value_beside_copy peer
    legacy_after legacy_before recorded_too_early chain used_often host_waits alloc_elsewhere)
ferry_emu_faults(driver_faults unrecorded query synchronise stream_wait)
ferry_emu_faults(driver_faults misuse destroyed_stream destroyed_event destroyed_context
    foreign_event device_copy_from_host host_copy_from_device wrong_peer free_of_inside
    call_in_callback)

ferry_emu_program(driver_tour emu_cuda)
foreach(devices 1 2)
    foreach(seed 0 1 2)
        ferry_emu_test(driver_tour.${devices}.${seed} COMMAND $<TARGET_FILE:emu_driver_tour>
            ENVIRONMENT "FERRY_EMU_DEVICES=${devices};FERRY_EMU_SEED=${seed}")
    endforeach()
endforeach()
ferry_emu_test(driver_tour.timing COMMAND $<TARGET_FILE:emu_driver_tour>
    ENVIRONMENT "FERRY_EMU_TIMING=1")

ferry_emu_program(driver_stepped emu_cuda)
foreach(case hold last_record legacy full calls_fail operation_fails device_lost hang memory_limit
        leave counted destroyed_stream context_with_work eager)
    ferry_emu_test(driver_stepped.${case} COMMAND $<TARGET_FILE:emu_driver_stepped> ${case})
endforeach()
foreach(case full_locked free_locked)
    ferry_emu_test(driver_stepped.${case} COMMAND $<TARGET_FILE:emu_driver_stepped> ${case}
        ENVIRONMENT "FERRY_EMU_LOCKS=1")
endforeach()
ferry_emu_test(driver_stepped.lazy COMMAND $<TARGET_FILE:emu_driver_stepped> lazy
    ENVIRONMENT "FERRY_EMU_LAZY=1")
foreach(case queue_shared queue_full)
    ferry_emu_test(driver_stepped.${case} COMMAND $<TARGET_FILE:emu_driver_stepped> ${case}
        ENVIRONMENT "FERRY_EMU_QUEUES=1")
endforeach()
foreach(case queue_own queue_full_own)
    ferry_emu_test(driver_stepped.${case} COMMAND $<TARGET_FILE:emu_driver_stepped> ${case}
        ENVIRONMENT "FERRY_EMU_QUEUES=3")
endforeach()
# A ; parts commands of the script, and would part the list of variables.
ferry_emu_test(driver_stepped.script COMMAND env
    "FERRY_EMU_SCRIPT=fail cuMemsetD8Async 3 1\\; operation 2 700"
    $<TARGET_FILE:emu_driver_stepped> script)
foreach(case priorities bubbles)
    ferry_emu_test(driver_stepped.${case} COMMAND $<TARGET_FILE:emu_driver_stepped> ${case}
        ENVIRONMENT "FERRY_EMU_TIMING=1")
endforeach()

ferry_emu_program(driver_random emu_cuda)
ferry_emu_test(driver_random COMMAND $<TARGET_FILE:emu_driver_random> 60)
ferry_emu_test(driver_random.delayed COMMAND $<TARGET_FILE:emu_driver_random> 20
    ENVIRONMENT "FERRY_EMU_SEED=7")
foreach(queues 1 8)
    ferry_emu_test(driver_tour.queues.${queues} COMMAND $<TARGET_FILE:emu_driver_tour>
        ENVIRONMENT "FERRY_EMU_QUEUES=${queues}")
    ferry_emu_test(driver_random.queues.${queues} COMMAND $<TARGET_FILE:emu_driver_random> 20
        ENVIRONMENT "FERRY_EMU_QUEUES=${queues};FERRY_EMU_SEED=${queues}")
endforeach()
