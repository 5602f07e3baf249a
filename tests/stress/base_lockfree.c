/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Baton, inbox, eventcount, trace ring, poller and pool under contention. A plain program, so that
 * it runs under ThreadSanitizer, which proves what the counts can't: the state behind the baton is
 * plain memory. Exit 0: all hold. A wake that never comes shows as a wait that lasted LOST_NS.
 */
#include "base/baton.h"
#include "base/clock.h"
#include "base/eventcount.h"
#include "base/memory.h"
#include "base/poller.h"
#include "base/pool.h"
#include "base/trace.h"
#include "tests/support/stress.h"

#include <sched.h>

#define LOST_NS (INT64_C(10000000000) * PATIENCE)
#define EFFORT (FRY_TSAN ? 1 : 10) /* ThreadSanitizer takes about that much longer */

/*
 * Baton and inbox. Threads push items and drain if they get the baton. Each round ends with
 * everybody gone, so an item left in the inbox then is one that was stranded.
 */
#define PUSHERS 4
#define ITEMS_A_ROUND 2
#define ROUNDS (2000 * EFFORT)
#define ITEMS (PUSHERS * ROUNDS * ITEMS_A_ROUND)

typedef struct item {
    struct item *next;
    int pusher;
    int number;
} item;

static struct {
    item *inbox;
    fry_baton baton;
    /* Plain: only the holder of the baton touches them. */
    int drained;
    int newest[PUSHERS];
    pthread_barrier_t round;
} shared;

static void drain_inbox(void)
{
    item *newest_first = fry_exchange(&shared.inbox, NULL);
    item *oldest_first = NULL;
    while (newest_first != NULL) {
        item *next = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = next;
    }
    for (item *each = oldest_first; each != NULL; each = each->next) {
        CHECK(each->number == shared.newest[each->pusher] + 1); /* program order, none lost */
        shared.newest[each->pusher] = each->number;
        shared.drained++;
    }
}

static void visit_inbox(void)
{
    while (fry_baton_take(&shared.baton)) {
        drain_inbox();
        if (shared.drained % 3 == 0)
            (void)sched_yield(); /* items that come now are for the look after the give */
        fry_baton_give(&shared.baton);
        if (fry_load_seq_cst(&shared.inbox) == NULL)
            return;
    }
}

static void *push_items(void *arg)
{
    int pusher = (int)(intptr_t)arg;
    item items[ITEMS_A_ROUND];
    for (int round = 0; round < ROUNDS; round++) {
        (void)pthread_barrier_wait(&shared.round);
        for (int i = 0; i < ITEMS_A_ROUND; i++) {
            items[i].pusher = pusher;
            items[i].number = round * ITEMS_A_ROUND + i + 1;
            items[i].next = fry_load_relaxed(&shared.inbox);
            while (!fry_cas_weak(&shared.inbox, &items[i].next, &items[i])) {
            }
            visit_inbox();
        }
        (void)pthread_barrier_wait(&shared.round);
        CHECK(fry_load_relaxed(&shared.inbox) == NULL);
        CHECK(fry_load_relaxed(&shared.baton.taken) == 0);
    }
    return NULL;
}

static void baton_hands_over_everything(void)
{
    pthread_t threads[PUSHERS];
    CHECK(pthread_barrier_init(&shared.round, NULL, PUSHERS) == 0);
    for (int i = 0; i < PUSHERS; i++)
        threads[i] = start_thread(push_items, (void *)(intptr_t)i);
    for (int i = 0; i < PUSHERS; i++)
        join_thread(threads[i]);
    CHECK(shared.drained == ITEMS);
    CHECK(pthread_barrier_destroy(&shared.round) == 0);
}

/* Sleeps on the eventcount until `seen` finds *word so, or dies of a lost wake. */
static void sleep_until(fry_eventcount *eventcount, bool (*seen)(uint32_t *word, uint32_t arg),
                        uint32_t *word, uint32_t arg)
{
    while (!seen(word, arg)) {
        uint32_t key = fry_eventcount_prepare(eventcount);
        if (seen(word, arg)) {
            fry_eventcount_cancel(eventcount);
            return;
        }
        int64_t start_ns = fry_clock_monotonic_ns();
        fry_eventcount_commit(eventcount, key, LOST_NS);
        CHECK(fry_clock_monotonic_ns() - start_ns < LOST_NS);
    }
}

/* Eventcount, two threads: each turn is given by one notify. */
#define TURNS (4000 * EFFORT)

static fry_eventcount turn_eventcount;
static uint32_t turn;
static int turns_taken; /* plain: whose turn it is owns it */

static bool is_turn(uint32_t *word, uint32_t wanted)
{
    return fry_load_acquire(word) == wanted;
}

static void *take_turns(void *arg)
{
    uint32_t mine = (uint32_t)(intptr_t)arg;
    for (int i = 0; i < TURNS; i++) {
        sleep_until(&turn_eventcount, is_turn, &turn, mine);
        turns_taken++;
        fry_store_release(&turn, 1 - mine);
        fry_eventcount_notify(&turn_eventcount, 1);
    }
    return NULL;
}

static void eventcount_ping_pong(void)
{
    pthread_t other = start_thread(take_turns, (void *)(intptr_t)1);
    (void)take_turns((void *)(intptr_t)0);
    join_thread(other);
    CHECK(turns_taken == 2 * TURNS);
    CHECK(turn_eventcount.sleepers == 0);
}

/* Eventcount, many sleepers: one notify a token, and every token is taken. */
#define TOKENS (12000 * EFFORT)
#define TAKERS 3
#define GIVERS 2

static fry_eventcount token_eventcount;
static uint32_t tokens;
static uint32_t tokens_taken;

static bool token_taken(uint32_t *word, uint32_t arg)
{
    (void)arg;
    uint32_t count = fry_load_acquire(word);
    while (count != 0) {
        if (fry_cas_weak(word, &count, count - 1))
            return true;
    }
    return false;
}

static void *take_tokens(void *arg)
{
    (void)arg;
    for (int i = 0; i < TOKENS / TAKERS; i++) {
        sleep_until(&token_eventcount, token_taken, &tokens, 0);
        (void)fry_fetch_add(&tokens_taken, 1);
    }
    return NULL;
}

static void *give_tokens(void *arg)
{
    (void)arg;
    for (int i = 0; i < TOKENS / GIVERS; i++) {
        /* So few at a time that takers go to sleep. */
        while (fry_load_relaxed(&tokens) > 2)
            (void)sched_yield();
        (void)fry_fetch_add(&tokens, 1);
        fry_eventcount_notify(&token_eventcount, 1);
    }
    return NULL;
}

static void eventcount_wakes_one_a_token(void)
{
    pthread_t threads[TAKERS + GIVERS];
    for (int i = 0; i < TAKERS; i++)
        threads[i] = start_thread(take_tokens, NULL);
    for (int i = 0; i < GIVERS; i++)
        threads[TAKERS + i] = start_thread(give_tokens, NULL);
    for (int i = 0; i < TAKERS + GIVERS; i++)
        join_thread(threads[i]);
    CHECK(tokens_taken == TOKENS);
    CHECK(tokens == 0);
    CHECK(token_eventcount.sleepers == 0);
}

/*
 * Trace ring: read while it is overwritten, by more threads than there may be processors, so that a
 * reader is often stopped midway. Each field follows from one number.
 */
#define WRITE_NS INT64_C(800000000)
#define RECORDS_A_LOOK 1000
#define RING_SLOTS 1024

static uint64_t records_written; /* 0 until the writer is done */

static ferry_trace_record record_of(uint64_t number)
{
    uint64_t mixed = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (ferry_trace_record){
        .when_ns = (int64_t)(mixed ^ 1),
        .op = number,
        .flow = mixed ^ 2,
        .size_bytes = mixed ^ 3,
        .waited_for = mixed ^ 4,
        .label = (const char *)(uintptr_t)(mixed ^ 5), /* never read through */
        .status = (int32_t)(mixed >> 8),
        .device = (uint16_t)(mixed >> 16),
        .stream = (uint16_t)(mixed >> 24),
        .what = (uint8_t)(mixed >> 32),
        .way = (uint8_t)(mixed >> 48),
        .kind = (uint16_t)(mixed >> 40),
        .thread = (uint32_t)(mixed >> 13),
    };
}

static bool same_record(const ferry_trace_record *a, const ferry_trace_record *b)
{
    return a->when_ns == b->when_ns && a->op == b->op && a->flow == b->flow &&
           a->size_bytes == b->size_bytes && a->waited_for == b->waited_for &&
           a->label == b->label && a->status == b->status && a->device == b->device &&
           a->stream == b->stream && a->what == b->what && a->way == b->way && a->kind == b->kind &&
           a->thread == b->thread;
}

static void *write_records(void *arg)
{
    fry_trace_ring *ring = arg;
    uint64_t number = 0;
    int64_t end_ns = fry_clock_monotonic_ns() + WRITE_NS;
    do {
        for (int i = 0; i < RECORDS_A_LOOK; i++) {
            ferry_trace_record record = record_of(number++);
            fry_trace_ring_write(ring, &record);
        }
    } while (fry_clock_monotonic_ns() < end_ns);
    fry_store_release(&records_written, number);
    return NULL;
}

static void *read_records(void *arg)
{
    const fry_trace_ring *ring = arg;
    ferry_trace_record records[RING_SLOTS];
    uint64_t cursor = 0, lost = 0, got = 0, written = 0;
    while (written == 0) {
        written = fry_load_acquire(&records_written);
        size_t count = fry_trace_ring_read(ring, &cursor, records, RING_SLOTS, &lost);
        for (size_t i = 0; i < count; i++) {
            ferry_trace_record expected = record_of(cursor - count + i);
            CHECK(same_record(&records[i], &expected));
        }
        got += count;
        CHECK(got + lost == cursor);
    }
    CHECK(cursor == written); /* the last read came after the last record */
    CHECK(got > 0);           /* the last records stay readable */
    return NULL;
}

static void trace_records_are_whole(void)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    fry_trace_ring *ring = fry_trace_ring_create(&memory, RING_SLOTS);
    CHECK(ring != NULL);
    pthread_t threads[3];
    threads[0] = start_thread(read_records, ring);
    threads[1] = start_thread(read_records, ring);
    threads[2] = start_thread(write_records, ring);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
    fry_trace_ring_destroy(&memory, ring);
}

/* Poller: each waker posts, wakes and sleeps until the loop has answered, so every wake counts. */
#define WAKERS 3
#define WAKES (3000 * EFFORT)

typedef struct mailbox {
    fry_poller *poller;
    fry_eventcount answered_eventcount;
    uint32_t posted;
    uint32_t answered;
} mailbox;

static void *wake_poller(void *arg)
{
    mailbox *box = arg;
    for (uint32_t i = 1; i <= WAKES; i++) {
        fry_store_release(&box->posted, i);
        fry_poller_wake(box->poller);
        sleep_until(&box->answered_eventcount, is_turn, &box->answered, i);
    }
    return NULL;
}

static uint32_t answer(mailbox *box)
{
    uint32_t posted = fry_load_acquire(&box->posted);
    uint32_t news = posted - fry_load_relaxed(&box->answered);
    if (news != 0) {
        fry_store_release(&box->answered, posted);
        fry_eventcount_notify(&box->answered_eventcount, 1);
    }
    return news;
}

static void poller_is_woken_by_other_threads(void)
{
    fry_poller poller;
    CHECK(fry_poller_open(&poller) == FERRY_OK);
    mailbox boxes[WAKERS] = {{0}};
    pthread_t threads[WAKERS];
    for (int i = 0; i < WAKERS; i++) {
        boxes[i].poller = &poller;
        threads[i] = start_thread(wake_poller, &boxes[i]);
    }
    uint32_t answers = 0;
    while (answers < WAKERS * WAKES) {
        CHECK(fry_poller_wait(&poller, LOST_NS) > 0); /* 0: a wake was lost */
        for (int i = 0; i < WAKERS; i++)
            answers += answer(&boxes[i]);
    }
    for (int i = 0; i < WAKERS; i++)
        join_thread(threads[i]);
    fry_poller_close(&poller);
}

/*
 * A pool. One thread takes all there is, is refused, and sleeps until there is room; others give
 * the slots back and take some meanwhile. Each round ends with everything given, so whoever sleeps
 * on then has missed the news.
 */
#define RETURNERS 3
#define POOL_ROUNDS (600 * EFFORT)
#define POOL_SLOTS_MAX 2000

static struct {
    fry_pool pool;
    fry_pool_cache caches[RETURNERS + 1];
    void *slots[POOL_SLOTS_MAX];
    size_t count;
    fry_eventcount eventcount;
    uint32_t news;
    pthread_barrier_t round;
} room;

static void room_has_come(void *arg)
{
    (void)arg;
    fry_store_seq_cst(&room.news, 1);
    fry_eventcount_notify(&room.eventcount, 1);
}

static void *return_slots(void *arg)
{
    size_t who = (size_t)(uintptr_t)arg;
    fry_pool_cache *cache = &room.caches[who + 1];
    for (int round = 0; round < POOL_ROUNDS; round++) {
        (void)pthread_barrier_wait(&room.round);
        for (size_t i = who; i < room.count; i += RETURNERS) {
            fry_pool_give(&room.pool, cache, room.slots[i]);
            void *again = i % 4 == 0 ? fry_pool_take(&room.pool, cache) : NULL;
            if (again != NULL)
                fry_pool_give(&room.pool, cache, again);
        }
        (void)pthread_barrier_wait(&room.round);
    }
    return NULL;
}

static void await_room(uint64_t lacked)
{
    fry_pool_refused(&room.pool, lacked);
    fry_pool_room found;
    while ((found = fry_pool_look(&room.pool)) != FRY_POOL_ROOM) {
        CHECK(found != FRY_POOL_NOT_REFUSED);
        if (found == FRY_POOL_NO_ROOM) {
            sleep_until(&room.eventcount, is_turn, &room.news, 1);
            fry_store_seq_cst(&room.news, 0);
        }
    }
    fry_pool_forget_refusals(&room.pool);
    fry_pool_rest(&room.pool);
}

static void run_pool(uint64_t limit)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    fry_pool_open(&room.pool, &memory, 100, limit);
    room.pool.news = (fry_pool_news){room_has_come, NULL};
    pthread_t threads[RETURNERS];
    CHECK(pthread_barrier_init(&room.round, NULL, RETURNERS + 1) == 0);
    for (uintptr_t i = 0; i <= RETURNERS; i++)
        fry_pool_add_cache(&room.pool);
    for (uintptr_t i = 0; i < RETURNERS; i++)
        threads[i] = start_thread(return_slots, (void *)i); /* NOLINT */
    for (uint64_t round = 0; round < POOL_ROUNDS; round++) {
        ferry_status status = FERRY_OK;
        void *slot;
        room.count = 0;
        while ((slot = fry_pool_take_or_grow(&room.pool, &room.caches[0], &status)) != NULL) {
            CHECK(room.count < POOL_SLOTS_MAX);
            room.slots[room.count++] = slot;
        }
        CHECK(status == FERRY_E_AGAIN && room.count >= limit);
        (void)pthread_barrier_wait(&room.round);
        await_room(1 + round * 7 % limit);
        (void)pthread_barrier_wait(&room.round);
    }
    for (int i = 0; i < RETURNERS; i++)
        join_thread(threads[i]);
    (void)pthread_barrier_destroy(&room.round);
    fry_pool_close(&room.pool);
    memset(&room, 0, sizeof room);
}

static void pool_news_is_never_missed(void)
{
    run_pool(5);
    run_pool(60);
    run_pool(1100);
}

static void run(const char *name, void (*fn)(void))
{
    int64_t start_ns = fry_clock_monotonic_ns();
    fn();
    printf("%s: %lld ms\n", name, (long long)(fry_clock_monotonic_ns() - start_ns) / 1000000);
}

int main(void)
{
    run("baton hands over everything", baton_hands_over_everything);
    run("eventcount ping-pong", eventcount_ping_pong);
    run("eventcount wakes one a token", eventcount_wakes_one_a_token);
    run("trace records are whole", trace_records_are_whole);
    run("poller is woken by other threads", poller_is_woken_by_other_threads);
    run("pool news is never missed", pool_news_is_never_missed);
    return 0;
}
