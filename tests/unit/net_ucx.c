/* SPDX-License-Identifier: Apache-2.0 */
/* Channels over UCX between two processes, over shared memory and over TCP's loopback. */
#include "tests/support/place.h"
#include "tests/unit/ucx_pair.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>

TestSuite(net_ucx, .timeout = 50);

#define LARGE_BYTES ((size_t)3000001)

static const size_t sizes[] = {0,    1,    8,    31,    192,   193,   256,   1000,   4096,
                               8191, 8192, 8193, 20000, 65535, 65536, 65537, 300000, LARGE_BYTES};
#define SIZES (sizeof sizes / sizeof *sizes)

/* ---- pollers around it ---- */

static void hear_one(end *end, void *arg)
{
    open_way(end, arg);
    WAIT_UNTIL(end, end->arrived == 1);
    meet(end);
    end_close(end);
}

/* The engine's poller, the one that the user's loop watches, and that loop's own. */
Test(net_ucx, three_pollers_fit_around_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    static unsigned char data[100];
    end end;
    split(&end, hear_one, (void *)(uintptr_t)NET_WAY);
    open_way(&end, NET_WAY);
    int fds[4] = {end.channel->event_fd};
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = 1; i < 4; i++) {
        fds[i] = epoll_create1(EPOLL_CLOEXEC);
        cr_assert_eq(epoll_ctl(fds[i], EPOLL_CTL_ADD, fds[i - 1], &event), 0, "%d", i);
    }
    /* Nor are UCX's own sockets, which come now, too deep. */
    paint(data, sizeof data, 7);
    note note = {1, 7, sizeof data};
    cr_assert(end_post(&end, &note, data, false) != FRY_POST_FAILED);
    WAIT_UNTIL(&end, end.done == 1);
    meet_at_work(&end);
    for (int i = 1; i < 4; i++)
        (void)close(fds[i]);
    end_close(&end);
    cr_assert(join(&end));
}

/* ---- every size, carried and pulled ---- */

static void echo_sizes(end *end, void *arg)
{
    open_way(end, arg);
    unsigned char *data = malloc(LARGE_BYTES);
    EXPECT(data != NULL);
    end->pulls = true;
    end->into = data;
    uint64_t count = 0;
    for (size_t i = 0; i < SIZES; i++) {
        for (int is_pulled = 0; is_pulled < 2; is_pulled++) {
            if (!is_pulled && sizes[i] > end->channel->eager_bytes_max)
                continue;
            count++;
            uint64_t pulled = end->pulled + (is_pulled && sizes[i] > 0);
            WAIT_UNTIL(end, end->arrived == count && end->pulled == pulled);
            EXPECT(!is_pulled || is_painted(data, sizes[i], end->last.seed));
            note answer = {.number = count};
            EXPECT(end_post(end, &answer, NULL, false) != FRY_POST_FAILED);
        }
    }
    WAIT_UNTIL(end, end->done == count);
    meet(end);
    free(data);
    end_close(end);
}

static void send_sizes(const way *way)
{
    end end;
    split(&end, echo_sizes, (void *)(uintptr_t)way);
    open_way(&end, way);
    unsigned char *data = malloc(LARGE_BYTES);
    cr_assert_not_null(data);
    uint64_t count = 0;
    for (size_t i = 0; i < SIZES; i++) {
        for (int is_pulled = 0; is_pulled < 2; is_pulled++) {
            if (!is_pulled && sizes[i] > end.channel->eager_bytes_max)
                continue;
            count++;
            note note = {count, count * 7 + 1, sizes[i]};
            paint(data, sizes[i], note.seed);
            cr_assert(end_post(&end, &note, data, is_pulled) != FRY_POST_FAILED);
            WAIT_UNTIL(&end, end.arrived == count && end.done == count);
            cr_assert_eq(end.last.number, count);
        }
    }
    meet(&end);
    end_close(&end);
    free(data);
    cr_assert(join(&end));
}

Test(net_ucx, sizes_over_shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    send_sizes(SHARED_WAY);
}

Test(net_ucx, sizes_over_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    send_sizes(NET_WAY);
}

/* ---- what is to be pulled waits as long as it likes, and comes in any order ---- */

#define UNEXPECTED 40

static size_t unexpected_bytes(uint64_t number)
{
    return 1 + number * 5003;
}

static void pull_backwards(end *end, void *arg)
{
    open_way(end, arg);
    WAIT_UNTIL(end, end->arrived == UNEXPECTED);
    EXPECT(end->held_count == UNEXPECTED);
    unsigned char *data = malloc(unexpected_bytes(UNEXPECTED));
    EXPECT(data != NULL);
    for (uint64_t i = UNEXPECTED; i-- > 0;) {
        const held *held = &end->held[i];
        if (i % 4 == 3) {
            end->channel->ops->drop(end->channel, held->token);
            continue;
        }
        uint64_t before = end->pulled;
        end_pull(end, held->token, data, held->size_bytes);
        WAIT_UNTIL(end, end->pulled == before + 1);
        EXPECT(is_painted(data, held->size_bytes, held->note.seed));
    }
    /* And some that are dropped as they come. */
    end->drops = true;
    meet(end);
    WAIT_UNTIL(end, end->arrived == 2 * UNEXPECTED);
    note answer = {.number = 1};
    EXPECT(end_post(end, &answer, NULL, false) != FRY_POST_FAILED);
    meet(end);
    free(data);
    end_close(end);
}

static void send_unexpected(const way *way)
{
    end end;
    split(&end, pull_backwards, (void *)(uintptr_t)way);
    open_way(&end, way);
    static unsigned char *data[UNEXPECTED];
    for (uint64_t i = 0; i < UNEXPECTED; i++) {
        note note = {i, i + 3, unexpected_bytes(i)};
        data[i] = malloc(note.size_bytes);
        cr_assert_not_null(data[i]);
        paint(data[i], note.size_bytes, note.seed);
        cr_assert_eq(end_post(&end, &note, data[i], true), FRY_POST_BEGUN);
    }
    /* A dropped one is done like another. */
    WAIT_UNTIL(&end, end.done == UNEXPECTED);
    meet(&end);
    for (uint64_t i = 0; i < UNEXPECTED; i++) {
        note note = {i, i, unexpected_bytes(i)};
        cr_assert_eq(end_post(&end, &note, data[i], true), FRY_POST_BEGUN);
    }
    WAIT_UNTIL(&end, end.done == 2 * UNEXPECTED && end.arrived == 1);
    meet(&end);
    end_close(&end);
    cr_assert(join(&end));
    for (uint64_t i = 0; i < UNEXPECTED; i++)
        free(data[i]);
}

Test(net_ucx, unexpected_over_shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    send_unexpected(SHARED_WAY);
}

Test(net_ucx, unexpected_over_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    send_unexpected(NET_WAY);
}
