# SPDX-License-Identifier: Apache-2.0
# Tests of libcuda.so.1 but for kernels, captures and graphs.

ferry_emu_program(driver_faults emu_cuda)
ferry_emu_faults(driver_faults freed copy_after_free past_the_end memset_past_the_end
    last_row_past_the_end value_after_free double_free free_under_copy copy_behind_free
    free_pool_memory free_host_under_copy unregister_under_copy)
ferry_emu_faults(driver_faults unordered write_write read_write columns between_rows
    batch_writes_twice batch_reads_what_it_writes memset_beside_copy value_beside_copy peer
    legacy_after legacy_before recorded_too_early chain used_often host_waits alloc_elsewhere)
ferry_emu_faults(driver_faults unrecorded query synchronise stream_wait)
ferry_emu_faults(driver_faults misuse destroyed_stream destroyed_event destroyed_context
    foreign_event device_copy_from_host host_copy_from_device wrong_peer free_of_inside
    call_in_callback)
