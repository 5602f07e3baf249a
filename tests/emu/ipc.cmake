# SPDX-License-Identifier: Apache-2.0
# Tests of what processes share: ipc*.c.

ferry_emu_program(ipc_tour emu_cuda)
foreach(case copies forms attributes bounds close_waits lost twice freed stale killed left stopped
        reader_killed siblings contexts reused many garbage kinds peers off descriptors calls
        event_order event_asked event_refused event_killed)
    ferry_emu_test(ipc.${case} COMMAND $<TARGET_FILE:emu_ipc_tour> ${case})
endforeach()
foreach(case copies killed event_order)
    ferry_emu_test(ipc.${case}.delayed COMMAND $<TARGET_FILE:emu_ipc_tour> ${case}
        ENVIRONMENT "FERRY_EMU_SEED=5")
endforeach()
ferry_emu_test(ipc.event_order.timing COMMAND $<TARGET_FILE:emu_ipc_tour> event_order
    ENVIRONMENT "FERRY_EMU_TIMING=1")
ferry_emu_test(ipc.close_busy
    COMMAND ${caught} "emu: caught freed" $<TARGET_FILE:emu_ipc_tour> close_busy)
ferry_emu_test(ipc.peers.none COMMAND $<TARGET_FILE:emu_ipc_tour> peers
    ENVIRONMENT "FERRY_EMU_PEERS=0")
ferry_emu_test(ipc.off.environment COMMAND $<TARGET_FILE:emu_ipc_tour> off
    ENVIRONMENT "FERRY_EMU_IPC=0")
