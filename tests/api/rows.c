/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of rows: bytes, hazards and poison row by row, what is refused. */
#include "tests/support/play.h"

#include <stdlib.h>

SCENE_SUITE(rows);

enum { PITCH = 10, LINES = 8, BYTES = PITCH * LINES };

/* Two matrices, and a promise that a copy may be held by. */
#define MATRICES "buffer m 80 of 1; buffer other 80 of 2 on 1;"
#define HELD MATRICES "promise held;"

/* Columns of m are written from the same ones of the other. */
#define COLUMNS(span) "rows 8 m" span " pitch 10 <- other" span " pitch 10 "

static bool is_within(size_t column, size_t begin, size_t end)
{
    return column >= begin && column < end;
}

/* Of each byte of the matrix, whether an operation on it can't go ahead. */
static void assert_columns_wait(const char *mode, size_t begin, size_t end)
{
    for (size_t at = 0; at < BYTES; at++)
        play("nop %s m[%zu:%zu]; expect it %s; cancel it; settle; release it", mode, at, at + 1,
             is_within(at % PITCH, begin, end) ? "PENDING" : "OK");
}

/* Columns [begin, end) are poisoned, and no byte beside them. */
static void assert_columns_poisoned(const char *matrix, size_t begin, size_t end)
{
    for (size_t at = 0; at < BYTES; at++)
        play("%s %s[%zu:%zu]", is_within(at % PITCH, begin, end) ? "poisoned" : "healthy", matrix,
             at, at + 1);
}

/* ---- bytes ---- */

typedef struct shape {
    size_t row_bytes, count, dst_at, dst_pitch, src_at, src_pitch;
} shape;

static void check_shape(ferry_buffer *dst, ferry_buffer *src, shape s)
{
    unsigned char *to = ferry_buffer_data(dst), *from = ferry_buffer_data(src);
    unsigned char expected[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        to[i] = (unsigned char)(100 + i);
        from[i] = (unsigned char)i;
    }
    memcpy(expected, to, BYTES);
    for (size_t row = 0; row < s.count; row++)
        memcpy(expected + s.dst_at + row * s.dst_pitch, from + s.src_at + row * s.src_pitch,
               s.row_bytes);
    play("rows %zu dst[%zu:%zu] pitch %zu <- src[%zu:%zu] pitch %zu; wait it OK; release it",
         s.count, s.dst_at, s.dst_at + s.row_bytes, s.dst_pitch, s.src_at, s.src_at + s.row_bytes,
         s.src_pitch);
    cr_assert_eq(memcmp(to, expected, BYTES), 0, "%zu rows of %zu, pitches %zu and %zu", s.count,
                 s.row_bytes, s.dst_pitch, s.src_pitch);
}

static void check_shapes(size_t inline_copy_bytes)
{
    scene_options(FERRY_LOOP_EMBEDDED)->inline_copy_bytes = inline_copy_bytes;
    play("buffer dst 80; buffer src 80 on 1");
    for (size_t row_bytes = 0; row_bytes <= 8; row_bytes += 1 + row_bytes / 2)
        for (size_t count = 0; count <= 6; count++)
            for (size_t dst_gap = 0; dst_gap <= 3; dst_gap++)
                for (size_t src_gap = 0; src_gap <= 3; src_gap += 3)
                    check_shape(the_buffer("dst"), the_buffer("src"),
                                (shape){row_bytes, count, 1 + src_gap, row_bytes + dst_gap,
                                        5 - dst_gap, row_bytes + src_gap});
    scene_end();
}

Test(rows, of_any_shape_arrive_and_nothing_else_is_touched)
{
    check_shapes(4096);
    check_shapes(1); /* on the stream */
}

Test(rows, the_pitch_of_one_row_or_none_means_nothing)
{
    play(MATRICES);
    for (int count = 0; count <= 1; count++)
        play("rows %d m[3:7] pitch 0 <- other[7:11] pitch -1; expect it OK; bytes m[3:7] %d", count,
             count == 0 ? 1 : 2);
    play("bytes m[0:3] 1; bytes m[7:80] 1");
}

Test(rows, no_bytes_wait_for_after_alone)
{
    play(HELD COLUMNS(
        "[0:10]") "after held;"
                  "rows 8 m[3:3] pitch 5 <- other[3:3] pitch 5; now it OK;"
                  "rows 0 m[3:5] pitch 5 <- other[3:5] pitch 5; now it OK;"
                  "waiting = rows 8 m[3:3] pitch 5 <- other[3:3] pitch 5 after held;"
                  "expect waiting PENDING; resolve held FAILED; expect waiting DEPENDENCY");
}

static void take_size(void *arg, const ferry_trace_record *record)
{
    uint64_t *size_bytes = arg;
    *size_bytes = record->size_bytes;
}

Test(rows, the_trace_tells_all_their_bytes)
{
    uint64_t size_bytes = 0;
    ferry_trace_hooks hooks = {
        .struct_size = sizeof hooks, .record = take_size, .arg = &size_bytes};
    ASSERT_STATUS(ferry_engine_trace(engine(), &hooks), FERRY_OK);
    play(MATRICES COLUMNS("[2:5]") "; expect it OK");
    cr_assert_eq(size_bytes, 3 * LINES);
    ASSERT_STATUS(ferry_engine_trace(engine(), NULL), FERRY_OK);
}

/* ---- hazards ---- */

Test(rows, copies_of_other_columns_do_not_wait)
{
    play(HELD "mine = " COLUMNS("[3:6]") "after held; left = " COLUMNS(
        "[0:3]") ";"
                 "right = " COLUMNS("[6:10]") "; expect mine PENDING; expect left right OK");
    for (int line = 0; line < LINES; line++)
        play("bytes m[%d:%d] 2; bytes m[%d:%d] 1; bytes m[%d:%d] 2", line * PITCH, line * PITCH + 3,
             line * PITCH + 3, line * PITCH + 6, line * PITCH + 6, line * PITCH + 10);
    play("same = " COLUMNS("[5:7]") "; whole = " COLUMNS(
        "[0:10]") "; expect same whole PENDING;"
                  "keep held; expect mine same whole OK; bytes m 2");
}

Test(rows, what_comes_later_waits_for_their_bytes_and_no_others)
{
    play(HELD COLUMNS("[3:6]") "after held");
    assert_columns_wait("reads", 3, 6);
    assert_columns_wait("writes", 3, 6);
}

Test(rows, that_are_read_hold_writers_of_their_bytes_alone)
{
    play(HELD "rows 8 other[0:2] pitch 2 <- m[7:9] pitch 10 after held");
    assert_columns_wait("reads", 0, 0);
    assert_columns_wait("writes", 7, 9);
}

/* A function at one byte of the matrix holds a copy if that is in one of its rows. */
Test(rows, wait_for_who_is_at_one_of_them)
{
    for (size_t at = 0; at < BYTES; at++) {
        bool waits = is_within(at % PITCH, 4, 6);
        play(MATRICES "reader = call by hand reads m[%zu:%zu]; c = " COLUMNS(
                 "[4:6]") ";"
                          "expect c %s; bytes m[4:6] %d;" /* no byte of it comes early */
                          "run; expect c reader OK",
             at, at + 1, waits ? "PENDING" : "OK", waits ? 1 : 2);
        scene_end();
    }
}

/* Columns go round: each copy reads what the one before wrote, within one matrix. */
Test(rows, columns_move_within_one_matrix)
{
    play(HELD);
    unsigned char *bytes = ferry_buffer_data(the_buffer("m"));
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)i;
    for (int i = 0; i < 4; i++)
        play("c%d = rows 8 m[%d:%d] pitch 10 <- m[%d:%d] pitch 10 %s", i, 2 * i + 2, 2 * i + 4,
             2 * i, 2 * i + 2, i == 0 ? "after held" : "");
    play("expect c3 PENDING; keep held; expect c0 c1 c2 c3 OK");
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(bytes[i], i / PITCH * PITCH + i % 2);
}

Test(rows, more_accesses_may_be_named)
{
    play(HELD COLUMNS("[9:10]") "after held; c = " COLUMNS(
        "[0:2]") "reads m[9:10];"
                 "expect c PENDING; keep held; expect c OK");
}

Test(rows, buffers_released_early_are_used_to_the_end)
{
    play(HELD "buffer src 32 of 7 on 2; c = rows 8 m[1:4] pitch 10 <- src[0:3] pitch 4 after held;"
              "release src; settle; keep held; expect c OK; bytes m[71:74] 7");
}

/* ---- poison ---- */

Test(rows, that_failed_are_poisoned_and_nothing_else)
{
    play(HELD COLUMNS("[3:6]") "after held; cancel it; expect it CANCELLED");
    assert_columns_poisoned("m", 3, 6);
    play(COLUMNS("[4:5]") "; expect it OK; healthy m[24:25]; poisoned m[23:24]; poisoned "
                          "m[25:26];" COLUMNS("[2:7]") "; expect it OK");
    assert_columns_poisoned("m", 0, 0);
}

Test(rows, that_read_poison_share_it_and_those_beside_it_do_not)
{
    play(HELD "write = " COLUMNS(
        "[3:6]") "after held; cancel write; settle;"
                 "rows 8 other[0:3] pitch 10 <- m[6:9] pitch 10; expect it OK;"
                 "within = rows 8 other[6:9] pitch 10 <- m[5:8] pitch 10; expect within DEPENDENCY;"
                 "cause within CANCELLED of write");
    assert_columns_poisoned("other", 6, 9);
}

enum { FEW = 8 };

/* Whatever is submitted is refused, until nodes are given back. */
static void begin_without_nodes(void)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_nodes = FEW;
    play(MATRICES);
    cr_assert_eq(take_all_nodes(), FEW);
}

Test(rows, that_were_refused_are_poisoned_and_nothing_else)
{
    begin_without_nodes();
    play(COLUMNS("[3:6]") "; now it AGAIN; release it");
    give_all_nodes();
    assert_columns_poisoned("m", 3, 6);
    play(COLUMNS("[3:6]") "; expect it OK");
    assert_columns_poisoned("m", 0, 0);
}

/* No more can be taken apart than the reserve holds; then the whole buffer is poisoned. */
Test(rows, refused_many_times_are_poisoned_at_least)
{
    begin_without_nodes();
    for (int i = 0; i < 100; i++)
        play(COLUMNS("[3:6]") "; now it AGAIN; release it");
    give_all_nodes();
    for (int line = 0; line < LINES; line++)
        play("poisoned m[%d:%d]", line * PITCH + 4, line * PITCH + 5);
    play("copy m <- other; expect it OK");
    assert_columns_poisoned("m", 0, 0);
}

/* As with any operation that finds no room to list its accesses. */
Test(rows, that_find_no_room_fail_and_poison_their_buffer)
{
    scene_options(FERRY_LOOP_EMBEDDED)->max_accesses = 100;
    play("buffer m 1000 of 1; buffer other 1000 of 2 on 1; promise held;"
         "few = rows 40 m[0:1] pitch 2 <- other[0:1] pitch 2 after held;"
         "many = rows 45 m[100:101] pitch 2 <- other[100:101] pitch 2 after held;"
         "expect few PENDING; now many AGAIN; poisoned m[900:901]; keep held; expect few OK;"
         "copy m <- other; expect it OK; healthy m[900:901]");
}

/* ---- what is refused ---- */

static void assert_refused(ferry_future *future, const char *why)
{
    static int lines; /* until the one that is looked at */
    cr_assert_not_null(strstr(ferry_future_error(future)->message, why));
    ASSERT_STATUS(status_of(future), FERRY_E_INVALID);
    cr_assert_gt(scene()->log_lines, lines, "it says nothing");
    cr_assert_not_null(strstr(scene_last_line(), why), "it says: %s", scene_last_line());
    lines = scene()->log_lines;
}

Test(rows, bad_ones_are_refused_and_the_log_says_why)
{
    static const struct {
        size_t offset_bytes, size_bytes, pitch_bytes, count;
        const char *why;
    } cases[] = {
        {0, 5, 4, 2, "a pitch is smaller than its rows"},
        {0, 5, 0, 2, "a pitch is smaller than its rows"},
        {0, BYTES + 1, BYTES + 1, 1, "a span reaches past the end"},
        {0, 10, 10, LINES + 1, "the last row reaches past the end"},
        {1, 10, 10, LINES, "the last row reaches past the end"},
        {0, 4, 11, LINES, "the last row reaches past the end"},
        {0, 1, BYTES, 2, "the last row reaches past the end"},
        {0, 1, SIZE_MAX, 2, "the last row reaches past the end"},
        {0, 1, 2, SIZE_MAX / 2 + 1, "the last row reaches past the end"},
        {0, 1, 2, SIZE_MAX / 2 + 2, "overflows a size_t"},
        {0, 1, SIZE_MAX, 3, "overflows a size_t"},
        {0, 1, SIZE_MAX, SIZE_MAX, "overflows a size_t"},
        {0, 1, 1, SIZE_MAX, "the last row reaches past the end"},
    };
    play(MATRICES);
    ferry_buffer *matrix = the_buffer("m");
    ferry_buffer *large = own(test_buffer(scene(), 2, 1 << 20, 3));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ferry_span bad = span_of(matrix, cases[i].offset_bytes, cases[i].size_bytes);
        ferry_span good = span_of(large, 0, cases[i].size_bytes);
        size_t pitch = cases[i].pitch_bytes, count = cases[i].count;
        size_t fine = count <= 1000 ? 1000 : cases[i].size_bytes;
        assert_refused(ferry_copy_rows(engine(), bad, pitch, good, fine, count, NULL),
                       cases[i].why);
        if (count <= 1000) /* else the first it looks at is wrong too */
            assert_refused(ferry_copy_rows(engine(), good, fine, bad, pitch, count, NULL),
                           cases[i].why);
    }
    assert_refused(
        ferry_copy_rows(engine(), span_of(matrix, 0, 2), 4, span_of(large, 0, 3), 4, 2, NULL),
        "differ in size");
    assert_refused(
        ferry_copy_rows(engine(), span_of(matrix, 0, 2), 4, (ferry_span){NULL, 0, 2}, 4, 2, NULL),
        "the buffer of a span is NULL");
    assert_columns_poisoned("m", 0, 0);
    play("bytes m 1");
}

static bool do_meet(shape s)
{
    bool is_written[256] = {false};
    for (size_t row = 0; row < s.count; row++)
        for (size_t i = 0; i < s.row_bytes; i++)
            is_written[s.dst_at + row * s.dst_pitch + i] = true;
    for (size_t row = 0; row < s.count; row++)
        for (size_t i = 0; i < s.row_bytes; i++)
            if (is_written[s.src_at + row * s.src_pitch + i])
                return true;
    return false;
}

/* Of every small shape within one buffer, whether it is refused is whether a byte is in both. */
Test(rows, that_overlap_are_refused_byte_for_byte)
{
    play(MATRICES);
    ferry_buffer *matrix = the_buffer("m");
    size_t refused = 0, accepted = 0;
    for (unsigned seed = 1, i = 0; i < 20000; i++) {
        shape s = {.row_bytes = 1 + (size_t)rand_r(&seed) % 5,
                   .count = 2 + (size_t)rand_r(&seed) % 5};
        s.dst_pitch = s.row_bytes + (size_t)rand_r(&seed) % 6;
        s.src_pitch =
            rand_r(&seed) % 2 == 0 ? s.dst_pitch : s.row_bytes + (size_t)rand_r(&seed) % 6;
        s.dst_at = (size_t)rand_r(&seed) % 19;
        s.src_at = (size_t)rand_r(&seed) % 19;
        ferry_status status = status_of(
            ferry_copy_rows(engine(), span_of(matrix, s.dst_at, s.row_bytes), s.dst_pitch,
                            span_of(matrix, s.src_at, s.row_bytes), s.src_pitch, s.count, NULL));
        ASSERT_STATUS(status, do_meet(s) ? FERRY_E_INVALID : FERRY_OK);
        refused += status != FERRY_OK;
        accepted += status == FERRY_OK;
    }
    cr_assert_gt(refused, 1000);
    cr_assert_gt(accepted, 1000);
    cr_assert_not_null(strstr(scene_last_line(), "dst and src overlap"));
}

/* ---- many ---- */

Test(rows, as_many_as_the_header_allows_work)
{
    enum { MANY = 1 << 16 };
    play("buffer dst 196611; buffer src 196611 of 4 on 1; promise p");
    ferry_buffer *dst = the_buffer("dst"), *src = the_buffer("src");
    int64_t before_bytes = failing_allocator_live_bytes(&scene()->memory);
    play("c = rows 65536 dst[0:1] pitch 3 <- src[0:1] pitch 3 after p;"
         "beside = rows 65536 dst[1:2] pitch 3 <- src[1:2] pitch 3; wait beside OK");
    int64_t a_row = (failing_allocator_live_bytes(&scene()->memory) - before_bytes) / MANY;
    cr_assert_lt(a_row, 1024, "%lld bytes a row", (long long)a_row);
    play("keep p; wait c OK");
    const unsigned char *bytes = ferry_buffer_data(dst);
    for (size_t i = 0; i < 3 * MANY; i++)
        cr_assert_eq(bytes[i], i % 3 == 2 ? 0 : 4);

    assert_refused(
        ferry_copy_rows(engine(), span_of(dst, 0, 1), 3, span_of(src, 0, 1), 1, MANY + 1, NULL),
        "row_count is above 65536");
    assert_refused(
        ferry_copy_rows(engine(), span_of(dst, 0, 1), 1, span_of(src, 0, 1), 2, MANY + 1, NULL),
        "row_count is above 65536");
    /* Without gaps they are one span, however many they are. */
    play("rows 196608 dst[0:1] pitch 1 <- src[0:1] pitch 1; wait it OK;"
         "bytes dst[0:196608] 4; bytes dst[196608:196611] 0");
}
