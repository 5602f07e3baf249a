/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that leave at any moment, round after round, with messages both ways in every state: both
 * ends of a message come to the same, nothing is left pending, and what was sent before leaving
 * arrives where its receive is. A plain program, so that it runs under ThreadSanitizer.
 *
 *     leaving [ROUNDS [SEED]]
 *
 * Two members in a process, each with a thread that submits and leaves. Either leaves in the midst
 * (EARLY), or when all it is to receive is there (SERVED), or the handle is given back in place of
 * that, or with the engine's shutdown, for which a new one is made.
 */
#include "tests/support/effort.h"
#include "tests/support/paint.h"
#include "tests/support/stress.h"

#define HANG_S 190
#define MESSAGES_MAX 24 /* each way */
#define TAGS 2
#define BYTES_MAX 70000
#define SECOND_NS INT64_C(1000000000)

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "leaving: round %lu: ", (unsigned long)round_number);            \
            (void)fprintf(stderr, __VA_ARGS__);                                                    \
            (void)fprintf(stderr, "\n");                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t round_number;

/* ---- members ---- */

typedef enum manner { EARLY, SERVED, RELEASED, SHUT_DOWN, MANNERS } manner;

typedef struct message {
    size_t size_bytes;
    ferry_tag tag;
    ferry_future *send, *receive;
    ferry_buffer *from, *to;
    bool is_sent, is_received; /* with FERRY_OK */
} message;

typedef struct way {
    message messages[MESSAGES_MAX];
    size_t count;
} way;

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    int rank;
    manner manner;
    uint64_t random;
    way *out, *in;
    size_t submitted_out, submitted_in;
} member;

static void submit(member *member, bool is_send)
{
    size_t *next = is_send ? &member->submitted_out : &member->submitted_in;
    message *message = &(is_send ? member->out : member->in)->messages[(*next)++];
    ferry_buffer **buffer = is_send ? &message->from : &message->to;
    EXPECT(ferry_buffer_alloc(ferry_device_at(member->engine, 0), message->size_bytes, buffer) ==
               FERRY_OK,
           "no memory");
    paint(ferry_buffer_data(*buffer), message->size_bytes, is_send ? round_number + *next : 0);
    ferry_span span = {*buffer, 0, message->size_bytes};
    ferry_future *future = (is_send ? ferry_send : ferry_recv)(
        member->group, (ferry_rank)(1 - member->rank), message->tag, span, NULL);
    *(is_send ? &message->send : &message->receive) = future;
}

static void await_all(const way *way, size_t count, bool is_send)
{
    for (size_t i = 0; i < count; i++)
        (void)ferry_future_wait(is_send ? way->messages[i].send : way->messages[i].receive, -1);
}

static void leave(member *member)
{
    if (member->manner == SHUT_DOWN) {
        EXPECT(ferry_engine_shutdown(member->engine, -1) == FERRY_OK, "no shutdown");
    } else if (member->manner == RELEASED) {
        ferry_group_release(member->group);
        member->group = NULL;
    } else {
        ferry_future *left = ferry_group_leave(member->group);
        EXPECT(ferry_future_wait(left, -1) == FERRY_OK, "leaving failed");
        ferry_future_release(left);
    }
}

/* A thread's: what it submits, in any order of sends and receives, and when it goes. */
static void *live(void *arg)
{
    member *member = arg;
    size_t stop =
        member->manner == EARLY
            ? below(&member->random, (uint32_t)(member->out->count + member->in->count) + 1)
            : SIZE_MAX;
    for (size_t done = 0; done < stop; done++) {
        bool can_send = member->submitted_out < member->out->count;
        bool can_receive = member->submitted_in < member->in->count;
        if (!can_send && !can_receive)
            break;
        submit(member, can_send && (!can_receive || below(&member->random, 2) != 0));
    }
    if (member->manner != EARLY)
        await_all(member->in, member->submitted_in, false);
    leave(member);
    await_all(member->out, member->submitted_out, true);
    await_all(member->in, member->submitted_in, false);
    return NULL;
}

/* ---- rounds ---- */

static void make_engine(member *member)
{
    ferry_engine_options options = FERRY_ENGINE_OPTIONS_INIT;
    options.host_devices = 1;
    options.host_workers = 1;
    EXPECT(ferry_engine_create(&options, &member->engine, NULL) == FERRY_OK, "no engine");
}

static void join(member members[2])
{
    ferry_future *joins[2];
    char job[32];
    (void)snprintf(job, sizeof job, "job%lu", (unsigned long)round_number);
    for (int i = 0; i < 2; i++) {
        ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
        options.store = "mem:leaving";
        options.job = job;
        options.size = 2;
        options.unexpected_max = UNEXPECTED_FEW;
        options.rank = (ferry_rank)i;
        options.has_rank = true;
        options.lease_ns = 60 * SECOND_NS;
        options.deadline_ns = in_ns(60 * SECOND_NS);
        joins[i] = ferry_group_join(members[i].engine, &options, &members[i].group);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(ferry_future_wait(joins[i], -1) == FERRY_OK, "joining failed");
        ferry_future_release(joins[i]);
    }
}

static void choose(way *way, uint64_t *random)
{
    static const size_t sizes[] = {8, 8, 300, 700, 9000, 20000, BYTES_MAX};
    way->count = below(random, MESSAGES_MAX + 1);
    for (size_t i = 0; i < way->count; i++)
        way->messages[i] =
            (message){.size_bytes = sizes[below(random, 7)], .tag = below(random, TAGS)};
}

/* Both have gone. The k-th send of a tag meets the k-th receive, and here is the same in both. */
static void judge(const way *way, const member *sender, const member *receiver)
{
    for (size_t i = 0; i < way->count; i++) {
        const message *message = &way->messages[i];
        bool is_sent = i < sender->submitted_out && ferry_future_poll(message->send) == FERRY_OK;
        bool is_received =
            i < receiver->submitted_in && ferry_future_poll(message->receive) == FERRY_OK;
        /* A shutdown fails at its own end what was under way there. */
        bool may_differ = sender->manner == SHUT_DOWN && is_received;
        EXPECT(is_sent == is_received || may_differ, "message %lu of %d: sent %d, received %d",
               (unsigned long)i, sender->rank,
               i < sender->submitted_out ? (int)ferry_future_poll(message->send) : 1,
               i < receiver->submitted_in ? (int)ferry_future_poll(message->receive) : 1);
        EXPECT(!is_received || is_painted(ferry_buffer_data(message->to), message->size_bytes,
                                          round_number + i + 1),
               "wrong bytes");
        /* Who was served waits for all; so all that was sent before leaving is there. */
        bool must_arrive =
            receiver->manner != EARLY && i < sender->submitted_out && sender->manner != SHUT_DOWN;
        EXPECT(!must_arrive || is_received, "message %lu of %d is lost: sent %d, received %d",
               (unsigned long)i, sender->rank, (int)ferry_future_poll(message->send),
               (int)ferry_future_poll(message->receive));
    }
}

static void clear(way *way)
{
    for (size_t i = 0; i < way->count; i++) {
        ferry_future_release(way->messages[i].send);
        ferry_future_release(way->messages[i].receive);
        ferry_buffer_release(way->messages[i].from);
        ferry_buffer_release(way->messages[i].to);
    }
}

static void run_round(member members[2], uint64_t *random)
{
    static way ways[2];
    pthread_t threads[2];
    join(members);
    for (int i = 0; i < 2; i++)
        choose(&ways[i], random);
    for (int i = 0; i < 2; i++) {
        member *member = &members[i];
        /* Who shuts down is rare: it takes a new engine. */
        member->manner = below(random, 16) == 0 ? SHUT_DOWN : (manner)below(random, SHUT_DOWN);
        member->rank = i;
        member->random = *random ^ (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        member->out = &ways[i];
        member->in = &ways[1 - i];
        member->submitted_out = member->submitted_in = 0;
    }
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, live, &members[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        judge(&ways[i], &members[i], &members[1 - i]);
    for (int i = 0; i < 2; i++)
        clear(&ways[i]);
    for (int i = 0; i < 2; i++) {
        ferry_group_release(members[i].group);
        if (members[i].manner != SHUT_DOWN)
            continue;
        ferry_engine_release(members[i].engine);
        make_engine(&members[i]);
    }
}

int main(int argc, char **argv)
{
    static member members[2];
    uint64_t rounds = given_number(argc, argv, 1, 300);
    uint64_t random = given_number(argc, argv, 2, 1) * UINT64_C(2654435761) + 1;
    for (int i = 0; i < 2; i++)
        make_engine(&members[i]);
    for (round_number = 0; round_number < rounds; round_number++) {
        end_if_hung(HANG_S);
        run_round(members, &random);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(ferry_engine_shutdown(members[i].engine, -1) == FERRY_OK, "no shutdown");
        ferry_engine_release(members[i].engine);
    }
    (void)printf("%lu rounds\n", (unsigned long)rounds);
    return 0;
}
