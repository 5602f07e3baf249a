/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that leave right after their last send, or their last receive: what was sent arrives, and
 * who sent it hears so; or it fails where it was sent. No barrier is needed, and nobody waits for
 * longer than was agreed.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <ev.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define MESSAGES_MAX 4000

/* ---- a member, which does as it is told ---- */

typedef struct message {
    ferry_future *future;
    ferry_buffer *buffer;
    size_t size_bytes;
    uint64_t number; /* of its direction */
    bool is_send;
} message;

typedef struct player {
    net_self self;
    message messages[MESSAGES_MAX];
    size_t count;
    uint64_t sent, received;
    ferry_future *leaving;
    int64_t leaving_ns;
} player;

static unsigned char byte_of(uint64_t number, size_t at)
{
    return (unsigned char)(number * 37 + at + (at >> 9));
}

static void submit(player *player, bool is_send, size_t size_bytes)
{
    NET_SELF_CHECK(player->count < MESSAGES_MAX, "too many messages");
    message *message = &player->messages[player->count++];
    net_self *self = &player->self;
    *message = (struct message){.size_bytes = size_bytes, .is_send = is_send};
    message->number = is_send ? player->sent++ : player->received++;
    NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_at(self->engine, 0), size_bytes,
                                      &message->buffer) == FERRY_OK,
                   "no memory");
    unsigned char *bytes = ferry_buffer_data(message->buffer);
    for (size_t i = 0; i < size_bytes && is_send; i++)
        bytes[i] = byte_of(message->number, i);
    ferry_span span = {message->buffer, 0, size_bytes};
    message->future =
        (is_send ? ferry_send : ferry_recv)(self->group, self->rank == 0, 1, span, NULL);
}

static bool is_whole(const message *message)
{
    const unsigned char *bytes = ferry_buffer_data(message->buffer);
    for (size_t i = 0; i < message->size_bytes; i++) {
        if (bytes[i] != byte_of(message->number, i))
            return false;
    }
    return true;
}

/* Waits for what it sent, or received, and says what became of it. */
static void tally(player *player, bool is_send)
{
    size_t good = 0, failed = 0;
    ferry_status status = FERRY_OK;
    const char *text = "";
    for (size_t i = 0; i < player->count; i++) {
        const message *message = &player->messages[i];
        if (message->is_send != is_send)
            continue;
        ferry_status found = ferry_future_wait(message->future, -1);
        if (found == FERRY_OK) {
            NET_SELF_CHECK(is_send || is_whole(message), "wrong bytes, well received");
            good++;
        } else if (failed++ == 0) {
            const ferry_error *error = ferry_future_error(message->future);
            status = found;
            text = error != NULL ? error->message : "";
        }
    }
    net_say("%s good=%zu failed=%zu status=%d %s", is_send ? "sent" : "received", good, failed,
            (int)status, text);
}

static void await_leaving(player *player)
{
    ferry_status status = ferry_future_wait(player->leaving, -1);
    net_say("left status=%d ms=%lld", (int)status,
            (long long)((net_now_ns() - player->leaving_ns) / 1000000));
    ferry_future_release(player->leaving);
    player->leaving = NULL;
}

static void obey(player *player, char *order)
{
    unsigned long count = 0, bytes = 0;
    char word[32] = "";
    (void)sscanf(order, " %31s %lu %lu", word, &count, &bytes);
    if (strcmp(word, "send") == 0 || strcmp(word, "receive") == 0) {
        for (unsigned long i = 0; i < count; i++)
            submit(player, word[0] == 's', bytes);
    } else if (strcmp(word, "await") == 0) { /* all that it receives */
        for (size_t i = 0; i < player->count; i++) {
            if (!player->messages[i].is_send)
                (void)ferry_future_wait(player->messages[i].future, -1);
        }
    } else if (strcmp(word, "leave") == 0) {
        player->leaving_ns = net_now_ns();
        ferry_future_release(player->leaving);
        player->leaving = ferry_group_leave(player->self.group);
    } else if (strcmp(word, "release") == 0) {
        ferry_group_release(player->self.group);
        player->self.group = NULL;
    } else if (strcmp(word, "shutdown") == 0) {
        (void)ferry_engine_shutdown(player->self.engine, 20 * SECOND_NS);
    } else if (strcmp(word, "left") == 0) {
        await_leaving(player);
    } else if (strcmp(word, "sent") == 0 || strcmp(word, "received") == 0) {
        tally(player, word[0] == 's');
    } else if (strcmp(word, "say") == 0) {
        net_say("done");
    } else {
        net_self_fail("no order: %s", order);
    }
}

static void break_loop(struct ev_loop *loop, ev_io *words, int events)
{
    (void)words, (void)events;
    ev_break(loop, EVBREAK_ALL);
}

/* A loop of the user's goes on meanwhile. */
static void await_words(net_self *self, bool is_embedded)
{
    struct pollfd sleepers[] = {{.fd = NET_WORDS_FD, .events = POLLIN},
                                {.fd = ferry_engine_fd(self->engine), .events = POLLIN}};
    if (self->ev_loop) {
        ev_io words;
        ev_io_init(&words, break_loop, NET_WORDS_FD, EV_READ);
        ev_io_start(self->ev_loop, &words);
        ev_run(self->ev_loop, 0);
        ev_io_stop(self->ev_loop, &words);
    }
    while (is_embedded && poll(sleepers, 1, 0) == 0) {
        if (ferry_engine_progress(self->engine, 0) == 0 &&
            ferry_engine_arm(self->engine) == FERRY_OK)
            (void)poll(sleepers, 2, -1);
    }
}

static int member(int argc, char **argv)
{
    static player player;
    const char *loop = net_argument(argc, argv, "loop");
    bool is_embedded = loop && strcmp(loop, "embedded") == 0;
    net_self_join(&player.self, argc, argv);
    for (;;) {
        char line[512];
        await_words(&player.self, is_embedded);
        (void)snprintf(line, sizeof(line), "%s", net_await("do"));
        if (strcmp(line, "end") == 0)
            break;
        char *rest = NULL;
        for (char *order = strtok_r(line, ";", &rest); order; order = strtok_r(NULL, ";", &rest))
            obey(&player, order);
    }
    for (size_t i = 0; i < player.count; i++) {
        ferry_future_release(player.messages[i].future);
        ferry_buffer_release(player.messages[i].buffer);
    }
    net_self_end(&player.self);
    return 0;
}

/* ---- the test ---- */

/* Nobody is to die of a busy machine where no death is wanted. */
#define LEASE_LONG "lease_ms=60000"
#define LEASE_SHORT "lease_ms=3000"

typedef struct setting {
    bool has_hosts;
    const char *loop;   /* "loop=..." */
    const char *linger; /* "linger_ms=..." */
    const char *lease;  /* "lease_ms=..." */
} setting;

static setting now = {false, "loop=thread", "linger_ms=60000", LEASE_LONG};
static net_member *zero, *one;

static net_member *start(int rank)
{
    static int rounds;
    char store[128], number[16], job[32];
    rounds += rank == 0;
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    (void)snprintf(job, sizeof(job), "job=j%d", rounds);
    return net_start(now.has_hosts ? rank : NET_HERE, "member", store, number, job, now.loop,
                     now.linger, now.lease, now.has_hosts ? "network=eth0" : "network=lo", NULL);
}

static void begin(void)
{
    zero = start(0);
    one = start(1);
    (void)net_hear(zero, "joined");
    (void)net_hear(one, "joined");
}

static void expect(net_member *member, const char *word, int64_t good, int64_t failed)
{
    net_tell(member, "do %s", word);
    const char *said = net_hear(member, word);
    NET_CHECK(net_number(said, "good") == good && net_number(said, "failed") == failed,
              "%s: %s, not %lld and %lld", word, said, (long long)good, (long long)failed);
}

/* Within so much, as far as the machine lets it; and in order. */
static void expect_left(net_member *member, net_stopwatch watch, int64_t bound_ns)
{
    net_tell(member, "do left");
    const char *said = net_hear(member, "left");
    NET_CHECK(net_number(said, "status") == FERRY_OK, "leaving: %s", said);
    net_stopwatch_check(&watch, net_now_ns(), bound_ns, "leaving");
}

static void finish(void)
{
    net_tell(zero, "do end");
    net_tell(one, "do end");
    net_end(zero);
    net_end(one);
}

typedef struct load {
    int count;
    size_t bytes;
} load;

/* A few, larger ones, as many as a queue takes several times, and those that are pulled. */
static const load loads[] = {{1, 8}, {3, 9000}, {1500, 40}, {2, 200000}, {40, 70000}, {1, 8000000}};
#define LOADS (sizeof(loads) / sizeof(*loads))

/* Sent, and gone: whether the receives are there before, or come while it leaves. */
static void leave_after_sending(void)
{
    for (size_t i = 0; i < 2 * LOADS; i++) {
        const load *load = &loads[i / 2];
        bool is_late = i % 2 != 0;
        begin();
        if (!is_late)
            net_tell(one, "do receive %d %zu;say", load->count, load->bytes);
        if (!is_late)
            (void)net_hear(one, "done");
        net_stopwatch watch = net_stopwatch_start();
        net_tell(zero, "do send %d %zu;leave;say", load->count, load->bytes);
        (void)net_hear(zero, "done");
        if (is_late) {
            net_rest(SECOND_NS / 20);
            net_tell(one, "do receive %d %zu", load->count, load->bytes);
        }
        expect(one, "received", load->count, 0);
        expect(zero, "sent", load->count, 0);
        expect_left(zero, watch, 20 * SECOND_NS);
        finish();
    }
}

/* Received, and gone. */
static void leave_after_receiving(void)
{
    for (size_t i = 0; i < LOADS; i++) {
        const load *load = &loads[i];
        begin();
        net_tell(one, "do receive %d %zu;await;leave;left", load->count, load->bytes);
        net_tell(zero, "do send %d %zu", load->count, load->bytes);
        expect(zero, "sent", load->count, 0);
        (void)net_hear(one, "left");
        expect(one, "received", load->count, 0);
        finish();
    }
}

/* Each goes as soon as it has what it wants, and has not heard of what it sent. */
static void leave_at_once(void)
{
    for (size_t i = 0; i < LOADS; i++) {
        const load *load = &loads[i];
        begin();
        for (int k = 0; k < 2; k++)
            net_tell(k == 0 ? zero : one, "do receive %d %zu;send %d %zu;await;leave;left",
                     load->count, load->bytes, load->count, load->bytes);
        (void)net_hear(zero, "left");
        (void)net_hear(one, "left");
        for (int k = 0; k < 2; k++) {
            expect(k == 0 ? zero : one, "sent", load->count, 0);
            expect(k == 0 ? zero : one, "received", load->count, 0);
        }
        finish();
    }
}

/* The handle is given back, and the engine goes on; or is shut down right after the last receive.
 */
static void release(void)
{
    for (size_t i = 0; i < LOADS; i++) {
        const load *load = &loads[i];
        begin();
        net_tell(one, "do receive %d %zu", load->count, load->bytes);
        net_tell(zero, "do send %d %zu;release", load->count, load->bytes);
        expect(zero, "sent", load->count, 0);
        expect(one, "received", load->count, 0);
        finish();
        begin();
        net_tell(one, "do receive %d %zu;await;%sshutdown;say", load->count, load->bytes,
                 i % 2 == 0 ? "" : "release;");
        net_tell(zero, "do send %d %zu", load->count, load->bytes);
        expect(zero, "sent", load->count, 0);
        (void)net_hear(one, "done");
        finish();
    }
}

/* To leave again, or to give the handle back meanwhile, does not cut it short. */
static void leave_again(void)
{
    for (int i = 0; i < 2; i++) {
        begin();
        net_tell(zero, "do send 3 9000;send 2 70000;leave;say");
        (void)net_hear(zero, "done");
        net_rest(SECOND_NS / 20);
        net_tell(zero, i == 0 ? "do release;say" : "do leave;say");
        (void)net_hear(zero, "done");
        net_rest(SECOND_NS / 20);
        net_tell(one, "do receive 3 9000;receive 2 70000");
        expect(one, "received", 5, 0);
        expect(zero, "sent", 5, 0);
        finish();
    }
}

/* With nothing under way nobody is waited for, however patient the group is. */
static void nothing_under_way(void)
{
    begin();
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do leave");
    expect_left(zero, watch, 2 * SECOND_NS);
    finish();
    begin();
    net_tell(one, "do receive 1 8;send 1 8");
    net_tell(zero, "do send 1 8;receive 1 8;await;say");
    (void)net_hear(zero, "done");
    expect(zero, "sent", 1, 0);
    watch = net_stopwatch_start();
    net_tell(zero, "do leave");
    expect_left(zero, watch, 2 * SECOND_NS);
    expect(one, "sent", 1, 0);
    finish();
}

/* Receives that nobody sends to don't hold up their own end. */
static void receives_are_cancelled(void)
{
    begin();
    net_tell(zero, "do receive 3 8;receive 1 70000;leave;left");
    (void)net_hear(zero, "left");
    net_tell(zero, "do received");
    const char *said = net_hear(zero, "received");
    NET_CHECK(net_number(said, "failed") == 4 && net_number(said, "status") == FERRY_E_CANCELLED,
              "receives: %s", said);
    finish();
}

/* Sends without receives: they fail at their own end, and those who come later hear that too. */
static void nobody_receives(void)
{
    setting before = now;
    now.linger = "linger_ms=700";
    begin();
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do send 5 8;send 1 70000;leave");
    expect_left(zero, watch, 2 * SECOND_NS);
    NET_CHECK(net_now_ns() - watch.begin_ns >= 7 * SECOND_NS / 10, "it did not linger");
    net_tell(zero, "do sent");
    const char *said = net_hear(zero, "sent");
    NET_CHECK(net_number(said, "failed") == 6 && net_number(said, "status") == FERRY_E_CANCELLED,
              "sends: %s", said);
    net_tell(one, "do receive 6 8;received");
    said = net_hear(one, "received");
    NET_CHECK(net_number(said, "failed") == 6 && net_number(said, "status") == FERRY_E_DEAD,
              "receives: %s", said);
    finish();
    now = before;
}

/* Both have sent what the other does not want, and leave: nobody lingers for that. */
static void nobody_receives_from_either(void)
{
    begin();
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do send 5 8;send 2 70000;leave");
    net_tell(one, "do send 3 70000;leave");
    expect_left(zero, watch, 5 * SECOND_NS);
    expect_left(one, watch, 5 * SECOND_NS);
    expect(zero, "sent", 0, 7);
    expect(one, "sent", 0, 3);
    finish();
}

/* Who is stopped holds leaving up until it is dead to the others, or for as long as one lingers. */
static void other_is_stopped(void)
{
    begin();
    net_tell(one, "do receive 30 70000;say");
    (void)net_hear(one, "done");
    net_signal(one, SIGSTOP);
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do send 30 70000;leave");
    expect_left(zero, watch, 9 * SECOND_NS);
    net_tell(zero, "do sent");
    int64_t sent = net_number(net_hear(zero, "sent"), "good");
    net_signal(one, SIGCONT);
    net_tell(one, "do received");
    int64_t received = net_number(net_hear(one, "received"), "good");
    NET_CHECK(sent <= received, "%lld were sent well, %lld received", (long long)sent,
              (long long)received);
    finish();
}

/* However long it was to linger: who is stopped and owes nothing is dead to the others, too. */
static void other_is_stopped_in_peace(void)
{
    setting before = now;
    now.linger = "linger_ms=-1";
    begin();
    net_tell(one, "do receive 1 8");
    net_tell(zero, "do send 1 8");
    expect(zero, "sent", 1, 0);
    expect(one, "received", 1, 0);
    net_signal(one, SIGSTOP);
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do leave");
    expect_left(zero, watch, 9 * SECOND_NS);
    net_signal(one, SIGCONT);
    finish();
    now = before;
}

/* Nor is its death awaited, where that takes longer than one lingers. */
static void other_is_stopped_for_longer(void)
{
    setting before = now;
    now.linger = "linger_ms=300";
    begin();
    net_tell(one, "do receive 30 70000;receive 3000 30;say");
    (void)net_hear(one, "done");
    net_signal(one, SIGSTOP);
    net_stopwatch watch = net_stopwatch_start();
    net_tell(zero, "do send 30 70000;send 3000 30;leave");
    expect_left(zero, watch, 3 * SECOND_NS);
    net_tell(zero, "do sent");
    const char *said = net_hear(zero, "sent");
    NET_CHECK(net_number(said, "failed") == 3030 && net_number(said, "status") == FERRY_E_CANCELLED,
              "sends: %s", said);
    net_signal(one, SIGCONT);
    net_tell(one, "do received");
    (void)net_hear(one, "received");
    finish();
    now = before;
}

/* A shutdown does not linger, whatever step leaving has come to. */
static void shutdown_while_leaving(void)
{
    for (int i = 0; i < 2; i++) {
        begin();
        net_tell(one, "do receive 1 8;received");
        net_tell(zero, "do send 1 8;sent");
        (void)net_hear(zero, "sent");
        (void)net_hear(one, "received");
        net_signal(one, SIGSTOP);
        net_tell(zero, i == 0 ? "do leave;say" : "do send 2 70000;leave;say");
        (void)net_hear(zero, "done");
        net_rest(SECOND_NS / 20);
        net_stopwatch watch = net_stopwatch_start();
        net_tell(zero, "do shutdown;left");
        (void)net_hear(zero, "left");
        net_stopwatch_check(&watch, net_now_ns(), 3 * SECOND_NS, "shutting down");
        net_signal(one, SIGCONT);
        finish();
    }
}

/* For less than that: all arrives. */
static void other_is_stopped_for_a_moment(void)
{
    begin();
    net_tell(one, "do receive 30 70000;receive 1000 30;say");
    (void)net_hear(one, "done");
    net_signal(one, SIGSTOP);
    net_tell(zero, "do send 30 70000;send 1000 30;leave;say");
    (void)net_hear(zero, "done");
    net_rest(SECOND_NS);
    net_signal(one, SIGCONT);
    expect(one, "received", 1030, 0);
    expect(zero, "sent", 1030, 0);
    finish();
}

static void other_is_dead(void)
{
    begin();
    net_tell(one, "do receive 30 70000;say");
    (void)net_hear(one, "done");
    net_signal(one, SIGSTOP);
    net_tell(zero, "do send 30 70000;leave;say");
    (void)net_hear(zero, "done");
    net_stopwatch watch = net_stopwatch_start();
    net_signal(one, SIGKILL);
    net_end_by(one, SIGKILL);
    expect_left(zero, watch, now.has_hosts ? 6 * SECOND_NS : 3 * SECOND_NS);
    net_tell(zero, "do sent");
    NET_CHECK(net_number(net_hear(zero, "sent"), "failed") > 0, "who is dead has received all");
    net_tell(zero, "do end");
    net_end(zero);
}

static void all_here(void)
{
    leave_after_sending();
    leave_after_receiving();
    leave_at_once();
    release();
    leave_again();
    nothing_under_way();
    receives_are_cancelled();
    nobody_receives();
    nobody_receives_from_either();
    other_is_stopped_for_a_moment();
    other_is_stopped_for_longer();
    shutdown_while_leaving();
    now.lease = LEASE_SHORT;
    other_is_stopped();
    other_is_stopped_in_peace();
    other_is_dead();
    now.lease = LEASE_LONG;
}

static void same_host(void)
{
    all_here();
}

static void other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    now.has_hosts = true;
    all_here();
}

static void embedded(void)
{
    now.loop = "loop=embedded";
    leave_after_sending();
    leave_after_receiving();
    leave_at_once();
}

static void attached(void)
{
    now.loop = "loop=attached";
    leave_after_sending();
    leave_after_receiving();
    leave_at_once();
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {{"same_host", same_host, 200},
                                     {"other_hosts", other_hosts, 250},
                                     {"embedded", embedded, 120},
                                     {"attached", attached, 120}};
    return net_test_main(argc, argv, roles, 1, cases, sizeof(cases) / sizeof(*cases));
}
