/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of host devices: what they are made of, sources, references, parts of spans. */
#include "tests/support/play.h"

#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 4096 };

SCENE_SUITE(buffers);

static ferry_device *host(void)
{
    return ferry_device_at(engine(), 0);
}

static ferry_buffer_options options_of(size_t size_bytes)
{
    ferry_buffer_options options = FERRY_BUFFER_OPTIONS_INIT;
    options.size_bytes = size_bytes;
    return options;
}

static void assert_refused(ferry_device *device, const ferry_buffer_options *options,
                           ferry_status expected, const char *part)
{
    ferry_buffer *buffer = NULL;
    ferry_error *error = NULL;
    ASSERT_STATUS(ferry_buffer_create(device, options, &buffer, &error), expected);
    cr_assert_null(buffer);
    ASSERT_STATUS(error->status, expected);
    cr_assert_not_null(strstr(error->message, part), "\"%s\"", error->message);
    ferry_error_release(error);
    ASSERT_STATUS(ferry_buffer_create(device, options, &buffer, NULL), expected);
}

Test(buffers, options_that_cannot_be_are_refused_with_the_reason)
{
    char bytes[16];
    ferry_buffer_options options = options_of(0);
    assert_refused(host(), &options, FERRY_E_INVALID, "its size is 0 or above 2^48 - 1");
    options = options_of((size_t)1 << 48);
    assert_refused(host(), &options, FERRY_E_INVALID, "its size is 0 or above 2^48 - 1");
    options = options_of(16);
    options.memory = bytes;
    options.source = bytes;
    assert_refused(host(), &options, FERRY_E_INVALID, "memory and source are both set");
    options.source = NULL;
    options.kind = FERRY_MEMORY_PINNED;
    assert_refused(host(), &options, FERRY_E_INVALID, "kind is for memory that ferry allocates");
    options = options_of(16);
    options.kind = (ferry_memory)4;
    assert_refused(host(), &options, FERRY_E_INVALID, "kind is not a ferry_memory");
    options = options_of(16);
    options.reserved = 1;
    assert_refused(host(), &options, FERRY_E_INVALID, "reserved is not zero");
    options = options_of(16);
    options.struct_size = 3;
    assert_refused(host(), &options, FERRY_E_INVALID, "use FERRY_BUFFER_OPTIONS_INIT");
    assert_refused(host(), NULL, FERRY_E_INVALID, "options or buffer_p is NULL");
    assert_refused(NULL, &options, FERRY_E_INVALID, "");
    options = options_of(16);
    ASSERT_STATUS(ferry_buffer_create(host(), &options, NULL, NULL), FERRY_E_INVALID);
}

static void note_free(void *arg, void *memory, size_t size_bytes)
{
    cr_assert(memory != NULL && size_bytes == SIZE);
    ++*(int *)arg;
}

Test(buffers, free_functions_are_for_the_callers_memory)
{
    ferry_buffer_options options = options_of(SIZE);
    options.free_fn = note_free;
    assert_refused(host(), &options, FERRY_E_INVALID, "free_fn is for memory of the caller's");
}

Test(buffers, without_memory_nothing_stays)
{
    for (uint64_t nth = 1; nth <= 2; nth++) {
        int64_t live_bytes = failing_allocator_live_bytes(&scene()->memory);
        ferry_buffer_options options = options_of(SIZE);
        ferry_buffer *buffer = NULL;
        ferry_error *error = NULL;
        failing_allocator_arm(&scene()->memory, nth, true);
        ASSERT_STATUS(ferry_buffer_create(host(), &options, &buffer, &error), FERRY_E_NO_MEMORY);
        failing_allocator_arm(&scene()->memory, 0, false);
        ASSERT_STATUS(error->status, FERRY_E_NO_MEMORY);
        ferry_error_release(error);
        cr_assert_eq(failing_allocator_live_bytes(&scene()->memory), live_bytes);
    }
}

/* A page that nobody can write: the copy out of it succeeds, and all that would write is refused.
 */
Test(buffers, a_source_is_read_only)
{
    int frees = 0;
    char *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(page != MAP_FAILED);
    memset(page, 7, SIZE);
    cr_assert_eq(mprotect(page, SIZE, PROT_READ), 0);
    ferry_buffer_options options = options_of(SIZE);
    options.source = page;
    options.free_fn = note_free;
    options.free_arg = &frees;
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_create(host(), &options, &buffer, NULL), FERRY_OK);
    cr_assert_eq(ferry_buffer_data(buffer), page);
    cr_assert(scene_own_as(SCENE_BUFFER, buffer, "source"));
    play("buffer other %d; copy other <- source; expect it OK; bytes other 7; release it;"
         "n = nop reads source; expect n OK; release n;"
         "w = nop writes source; expect w INVALID; release w;"
         "c = copy source <- other; expect c INVALID;"
         "r = rows 2 source[0:16] pitch 32 <- other[0:16] pitch 32; expect r INVALID;"
         "b = batch copy other[0:64] <- source[0:64] , copy source[0:64] <- other[0:64] ;"
         "expect b DEPENDENCY; cause b INVALID; define source; healthy source; settle",
         SIZE);
    cr_assert_not_null(strstr(ferry_future_error(the_future("c"))->message, "read only"));
    play("release source other c r b; settle");
    cr_assert_eq(frees, 1);
    cr_assert_eq(munmap(page, SIZE), 0);
}

Test(buffers, live_until_the_last_reference)
{
    ferry_buffer_options options = options_of(SIZE);
    static char bytes[SIZE];
    int frees = 0;
    options.memory = bytes;
    options.free_fn = note_free;
    options.free_arg = &frees;
    ferry_buffer *buffer = NULL;
    ASSERT_STATUS(ferry_buffer_create(host(), &options, &buffer, NULL), FERRY_OK);
    cr_assert_eq(ferry_buffer_retain(buffer), buffer);
    cr_assert_null(ferry_buffer_retain(NULL));
    ferry_buffer_release(buffer);
    play("settle");
    cr_assert_eq(frees, 0);
    cr_assert_eq(ferry_buffer_size_bytes(buffer), SIZE);
    ferry_buffer_release(buffer);
    play("settle");
    cr_assert_eq(frees, 1);
}

static bool is_refused(ferry_span span)
{
    return span.buffer == NULL && span.size_bytes != 0;
}

Test(buffers, parts_of_spans_stay_inside)
{
    play("buffer b %d", SIZE);
    ferry_span whole = the_span("b"), part = ferry_span_slice(whole, 100, 50);
    cr_assert(part.buffer == whole.buffer && part.offset_bytes == 100 && part.size_bytes == 50);
    part = ferry_span_slice(part, 10, 40);
    cr_assert(part.offset_bytes == 110 && part.size_bytes == 40);
    part = ferry_span_slice(whole, SIZE, 0);
    cr_assert(part.buffer == whole.buffer && part.size_bytes == 0);
    cr_assert(is_refused(ferry_span_slice(whole, SIZE, 1)));
    cr_assert(is_refused(ferry_span_slice(whole, SIZE + 1, 0)));
    cr_assert(is_refused(ferry_span_slice(whole, 1, SIZE_MAX)));
    cr_assert(is_refused(ferry_span_slice(ferry_span_slice(whole, 0, 10), 5, 6)));
    cr_assert(is_refused(ferry_span_slice(ferry_buffer_span(NULL), 0, 1)));
    ferry_span beyond = {whole.buffer, SIZE_MAX - 1, 8};
    cr_assert(is_refused(ferry_span_slice(beyond, 4, 4)));
    ferry_future *future = own(ferry_copy(engine(), ferry_span_slice(whole, SIZE - 8, 16),
                                          ferry_span_slice(whole, 0, 16), NULL));
    ASSERT_STATUS(ferry_future_poll(future), FERRY_E_INVALID);
}

/* The scene's clock stands at START_NS. */
Test(buffers, deadlines_are_told_from_now)
{
    const ferry_engine *e = engine();
    cr_assert_eq(ferry_engine_deadline_in(e, 5), START_NS + 5);
    cr_assert_eq(ferry_engine_deadline_in(e, 0), START_NS);
    cr_assert_eq(ferry_engine_deadline_in(e, INT64_MAX), INT64_MAX);
    cr_assert_eq(ferry_engine_deadline_in(e, -START_NS), -1, "0 would be no deadline");
    cr_assert_lt(ferry_engine_deadline_in(e, INT64_MIN), 0);
    cr_assert_eq(ferry_engine_deadline_in(NULL, 5), 0);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    play("promise p");
    ferry_future *after[] = {own(ferry_promise_future(the_promise("p")))};
    options.after = after;
    options.after_count = 1;
    options.deadline_ns = ferry_engine_deadline_in(e, 1000);
    ferry_future *late = own(ferry_nop(engine(), &options));
    play("step 999; settle");
    ASSERT_STATUS(ferry_future_poll(late), FERRY_PENDING);
    play("step 1; settle");
    ASSERT_STATUS(ferry_future_poll(late), FERRY_E_DEADLINE);
}
