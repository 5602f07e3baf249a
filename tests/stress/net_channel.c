/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels over UCX, in two processes and several threads, over shared memory and TCP:
 *
 * - both ends sleep after every message, thousands of times: a wake-up that is lost hangs;
 * - random messages both ways, carried and pulled, pulled late and in any order or dropped, by
 *   several threads that pass a baton on while another opens and destroys channels beside them.
 *
 * ThreadSanitizer sees ferry's own accesses here, and none of UCX's, which is not built with it: so
 * that the baton alone keeps a channel to one thread at a time, not that UCX's workers are apart.
 */
#include "net/ucx/ucx.h"
#include "tests/support/patience.h"
#include "tests/unit/ucx_pair.h"

#include <pthread.h>

#define LIMIT_S 180 /* whoever sleeps for ever ends then, and the other one with it */
#define ROUNDS 3000
#define MESSAGES 3000
#define THREADS 3
#define PLACES 16 /* messages that may be under way */
#define PLACE_BYTES ((size_t)200000)

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* ---- sleeping after every message ---- */

static void sleep_in_turn(end *end, const way *way, bool is_first)
{
    static unsigned char data[PLACE_BYTES];
    static unsigned char into[PLACE_BYTES];
    open_way(end, way);
    paint(data, sizeof data, 0);
    end->pulls = true;
    end->into = into;
    uint64_t mine = 0;
    uint64_t pulled = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (int side = 0; side < 2; side++) {
            bool is_pulled = round % 7 == 3;
            if ((side == 0) == is_first) {
                note note = {round, 0, is_pulled ? 10000 + round : round % 9};
                EXPECT(end_post(end, &note, data, is_pulled) != FRY_POST_FAILED);
                mine++;
            } else {
                pulled += is_pulled;
                WAIT_UNTIL(end, end->arrived == round + 1 && end->pulled == pulled);
            }
        }
    }
    WAIT_UNTIL(end, end->done == mine);
    meet(end);
    end_close(end);
}

static void sleep_second(end *end, void *arg)
{
    sleep_in_turn(end, arg, false);
}

/* ---- random traffic, threads and a baton ---- */

typedef struct station {
    end end;
    const way *way;
    pthread_mutex_t baton;
    uint64_t random;
    uint64_t posted;
    uint64_t settled; /* arrivals that are pulled, dropped or were carried */
    unsigned char *into[HELD];
    unsigned char *data; /* what all send, never written while threads run */
    bool is_over;        /* atomic */
} station;

static void settle(station *station, uint64_t at)
{
    end *end = &station->end;
    held held = end->held[at];
    end->held[at] = end->held[--end->held_count];
    station->settled++;
    if (held.note.number % 5 == 0)
        end->channel->ops->drop(end->channel, held.token);
    else
        end_pull(end, held.token, station->into[held.note.number % HELD], held.size_bytes);
}

/* With the baton. True: something was done. */
static bool take_part(station *station)
{
    end *end = &station->end;
    bool has_worked = end->channel->ops->progress(end->channel) > 0;
    while (end->held_count > 0 && (end->held_count > 8 || next_random(&station->random) % 2 == 0)) {
        settle(station, next_random(&station->random) % end->held_count);
        has_worked = true;
    }
    if (station->posted < MESSAGES && station->posted < end->done + PLACES) {
        bool is_pulled = next_random(&station->random) % 3 == 0;
        size_t most = is_pulled ? PLACE_BYTES : end->channel->eager_bytes_max;
        size_t size_bytes = next_random(&station->random) % (most + 1);
        if (next_random(&station->random) % 2 == 0)
            size_bytes %= 64;
        note note = {station->posted++, 1, size_bytes};
        EXPECT(end_post(end, &note, station->data, is_pulled) != FRY_POST_FAILED);
        has_worked = true;
    }
    return has_worked;
}

static bool is_finished(const station *station)
{
    const end *end = &station->end;
    return station->posted == MESSAGES && end->done == MESSAGES && end->arrived == MESSAGES &&
           end->held_count == 0 && LIST_EMPTY(&end->begun);
}

static void *work(void *arg)
{
    station *station = arg;
    for (;;) {
        EXPECT(pthread_mutex_lock(&station->baton) == 0);
        bool is_over = is_finished(station);
        for (int i = 0; i < 4 && !is_over; i++)
            (void)take_part(station);
        struct pollfd sleeper = {.fd = station->end.channel->event_fd, .events = POLLIN};
        bool may_sleep =
            !is_over && station->end.held_count == 0 &&
            (station->posted == MESSAGES || station->posted == station->end.done + PLACES) &&
            station->end.channel->ops->arm(station->end.channel);
        EXPECT(station->end.failed == 0);
        EXPECT(pthread_mutex_unlock(&station->baton) == 0);
        if (is_over)
            return NULL;
        /* Others may take what it wakes for; so not for ever. */
        if (may_sleep)
            (void)poll(&sleeper, 1, 1);
    }
}

/* The loop's part: channels come and go beside the one at work. */
static void *open_and_destroy(void *arg)
{
    station *station = arg;
    static end end;
    end.ucx = station->end.ucx;
    for (int round = 0; !__atomic_load_n(&station->is_over, __ATOMIC_ACQUIRE); round++) {
        char address[FRY_ADDRESS_BYTES_MAX];
        size_t address_bytes;
        fry_fault fault;
        EXPECT(fry_ucx_channel_open(end.ucx, station->way->path, &end_events, &end, &end.channel,
                                    address, &address_bytes, &fault) == FERRY_OK);
        EXPECT(fry_ucx_channel_connect(end.channel, address, address_bytes, &fault) == FERRY_OK);
        note note = {1, 1, 5000};
        EXPECT(end_post(&end, &note, station->data, round % 2 == 0) != FRY_POST_FAILED);
        for (int i = 0; i < round % 8; i++)
            (void)end.channel->ops->progress(end.channel);
        end.held_count = 0;
        end_destroy(&end);
    }
    return NULL;
}

static void trade(station *station)
{
    end *end = &station->end;
    station->data = malloc(PLACE_BYTES);
    EXPECT(station->data != NULL);
    paint(station->data, PLACE_BYTES, 1);
    for (size_t i = 0; i < HELD; i++)
        EXPECT((station->into[i] = malloc(PLACE_BYTES)) != NULL);
    EXPECT(pthread_mutex_init(&station->baton, NULL) == 0);
    end_open(end, station->way->net_devices);
    end_connect(end, station->way->path);
    pthread_t workers[THREADS];
    pthread_t loop;
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&workers[i], NULL, work, station) == 0);
    EXPECT(pthread_create(&loop, NULL, open_and_destroy, station) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(workers[i], NULL) == 0);
    __atomic_store_n(&station->is_over, true, __ATOMIC_RELEASE);
    EXPECT(pthread_join(loop, NULL) == 0);
    EXPECT(end->pulled_badly == 0 && end->done_badly == 0);
    /* The other one may need an answer still. */
    char word = 'e';
    tell(end, &word, 1);
    struct pollfd listener = {.fd = end->socket, .events = POLLIN};
    while (poll(&listener, 1, 0) == 0)
        (void)end->channel->ops->progress(end->channel);
    EXPECT(hear(end, &word, 1) == 1);
    meet(end);
    end_close(end);
    for (size_t i = 0; i < HELD; i++)
        free(station->into[i]);
    free(station->data);
    EXPECT(pthread_mutex_destroy(&station->baton) == 0);
}

static void trade_second(end *end, void *arg)
{
    static station station;
    station.end = *end;
    station.way = arg;
    station.random = 2;
    trade(&station);
}

static void sleep_by_turns(const way *way)
{
    static end end;
    split(&end, sleep_second, (void *)(uintptr_t)way);
    sleep_in_turn(&end, way, true);
    EXPECT(join(&end));
    (void)printf("%s: %d rounds asleep\n", way->name, ROUNDS);
}

static void trade_both_ways(const way *way)
{
    static station station;
    split(&station.end, trade_second, (void *)(uintptr_t)way);
    station.way = way;
    station.random = 1;
    trade(&station);
    EXPECT(join(&station.end));
    (void)printf("%s: %d messages each way\n", way->name, MESSAGES);
}

/* In a process that has not used UCX before: the child of one that has may not. */
static void run_apart(void (*part)(const way *), const way *way)
{
    int status = 0;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        part(way);
        (void)fflush(stdout);
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    (void)alarm(LIMIT_S * PATIENCE);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].path == FRY_PATH_NET && access("/sys/class/net", F_OK) != 0) {
            (void)printf("%s: left out, as UCX finds no network without /sys\n", ways[i].name);
            continue;
        }
        run_apart(sleep_by_turns, &ways[i]);
        run_apart(trade_both_ways, &ways[i]);
    }
    return 0;
}
