/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that leave right after their last send, or their last receive: what was sent arrives, and
 * who sent it hears so; or it fails where it was sent. No barrier is needed, and nobody waits for
 * longer than was agreed.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <ev.h>
#include <limits.h>
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
    } else if (strcmp(word, "miss") == 0) { /* the other: nothing that it sent is taken any more */
        (void)net_self_await_member(&player->self, 1 - player->self.rank, FERRY_MEMBER_LEFT, 0);
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
static net_member *pair[2];
static net_stopwatch watch; /* since the step `now` */

static net_member *start(int rank)
{
    static int rounds;
    char store[PATH_MAX + 16], number[16], job[32];
    rounds += rank == 0;
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    (void)snprintf(job, sizeof(job), "job=j%d", rounds);
    return net_start(now.has_hosts ? rank : NET_HERE, "member", store, number, job, now.loop,
                     now.linger, now.lease, now.has_hosts ? "network=eth0" : "network=lo", NULL);
}

typedef struct load {
    int count;
    size_t bytes;
} load;

/* A few, larger ones, as many as a queue takes several times, and those that are pulled. */
static const load loads[] = {{1, 8}, {3, 9000}, {1500, 40}, {2, 200000}, {40, 70000}, {1, 8000000}};
#define LOADS (sizeof(loads) / sizeof(*loads))

static void expect(net_member *member, const char *word, int64_t good, int64_t failed, int status)
{
    net_tell(member, "do %s", word);
    const char *said = net_hear(member, word);
    NET_CHECK(net_number(said, "good") == good && net_number(said, "failed") == failed &&
                  (status == 0 || net_number(said, "status") == status),
              "%s: %s, not %lld and %lld", word, said, (long long)good, (long long)failed);
}

/* Within so much, as far as the machine lets it; and in order. */
static void expect_left(net_member *member, int64_t bound_ms)
{
    net_tell(member, "do left");
    const char *said = net_hear(member, "left");
    NET_CHECK(net_number(said, "status") == FERRY_OK, "leaving: %s", said);
    net_stopwatch_check(&watch, net_now_ns(), bound_ms * (SECOND_NS / 1000), "leaving");
}

/* A step that has to do with one of them. */
static void play_member(net_member *member, const char *word, const char *rest)
{
    long long good = 0, failed = 0;
    int status = 0;
    if (strcmp(word, "do") == 0)
        net_tell(member, "do %s", rest);
    else if (strcmp(word, "left-within") == 0)
        expect_left(member, strtoll(rest, NULL, 10));
    else if (strcmp(word, "stops") == 0)
        net_signal(member, SIGSTOP);
    else if (strcmp(word, "goes-on") == 0)
        net_signal(member, SIGCONT);
    else if (sscanf(rest, "%lld %lld %d", &good, &failed, &status) >= 2)
        expect(member, word, good, failed, status);
    else
        (void)net_hear(member, word);
}

static void play_step(const char *step)
{
    char word[32] = "";
    int size = 0;
    (void)sscanf(step, "%31s %n", word, &size);
    if (strcmp(word, "now") == 0) {
        watch = net_stopwatch_start();
    } else if (strcmp(word, "rest") == 0) {
        net_rest(strtoll(step + size, NULL, 10) * (SECOND_NS / 1000));
    } else {
        NET_CHECK(word[0] >= '0' && word[0] <= '1' && word[1] == '\0', "no step: %s", step);
        const char *of = step + size;
        (void)sscanf(of, "%31s %n", word, &size);
        play_member(pair[step[strspn(step, " ")] - '0'], word, of + size);
    }
}

/*
 * Steps parted by `|`, from now on:
 *   now | rest MS | 0 do ORDER;ORDER... | 0 WORD (which it says) | 0 sent GOOD FAILED [STATUS]
 *   0 received GOOD FAILED [STATUS] | 0 left-within MS (of `now`) | 0 stops | 0 goes-on
 * `@` is the load's count and size, `#` its count.
 */
static void go_on(const char *script, const load *load)
{
    char steps[1024];
    size_t at = 0;
    for (; *script != '\0' && at < sizeof(steps) - 32; script++) {
        if (*script == '@')
            at += (size_t)sprintf(steps + at, "%d %zu", load->count, load->bytes);
        else if (*script == '#')
            at += (size_t)sprintf(steps + at, "%d", load->count);
        else
            steps[at++] = *script;
    }
    NET_CHECK(*script == '\0', "a script too long");
    steps[at] = '\0';
    char *rest = NULL;
    for (char *step = strtok_r(steps, "|", &rest); step; step = strtok_r(NULL, "|", &rest))
        play_step(step);
}

static void begin(void)
{
    for (int i = 0; i < 2; i++)
        pair[i] = start(i);
    net_pair_hear(pair, "joined");
}

static void finish(void)
{
    net_pair_tell(pair, "do end");
    net_pair_end(pair);
}

/* With two members that begin and end with it. */
static void play(const char *script)
{
    begin();
    go_on(script, NULL);
    finish();
}

static void play_lingering(const char *linger, const char *script)
{
    setting before = now;
    now.linger = linger;
    play(script);
    now = before;
}

static void play_loads(const char *script)
{
    for (size_t i = 0; i < LOADS; i++) {
        begin();
        go_on(script, &loads[i]);
        finish();
    }
}

/* Sent, and gone: whether the receives are there before, or come while it leaves. */
static void leave_after_sending(void)
{
    play_loads("1 do receive @;say|1 done|now|0 do send @;leave;say|0 done|"
               "1 received # 0|0 sent # 0|0 left-within 20000");
    play_loads("now|0 do send @;leave;say|0 done|rest 50|1 do receive @|"
               "1 received # 0|0 sent # 0|0 left-within 20000");
}

/* Received, and gone. */
static void leave_after_receiving(void)
{
    play_loads("1 do receive @;await;leave;left|0 do send @|0 sent # 0|1 left|1 received # 0");
}

/* Each goes as soon as it has what it wants, and has not heard of what it sent. */
static void leave_at_once(void)
{
    play_loads("0 do receive @;send @;await;leave;left|1 do receive @;send @;await;leave;left|"
               "0 left|1 left|0 sent # 0|0 received # 0|1 sent # 0|1 received # 0");
}

/* The handle is given back, and the engine goes on; or is shut down right after the last receive.
 */
static void release(void)
{
    play_loads("1 do receive @|0 do send @;release|0 sent # 0|1 received # 0");
    play_loads("1 do receive @;await;shutdown;say|0 do send @|0 sent # 0|1 done");
    play_loads("1 do receive @;await;release;shutdown;say|0 do send @|0 sent # 0|1 done");
}

#define LEAVES_LONG "0 do send 3 9000;send 2 70000;leave;say|0 done|rest 50|"
#define IS_HEARD "|0 done|rest 50|1 do receive 3 9000;receive 2 70000|1 received 5 0|0 sent 5 0"

/* To leave again, or to give the handle back meanwhile, does not cut it short. */
static void leave_again(void)
{
    play(LEAVES_LONG "0 do release;say" IS_HEARD);
    play(LEAVES_LONG "0 do leave;say" IS_HEARD);
}

/* With nothing under way nobody is waited for, however patient the group is. */
static void nothing_under_way(void)
{
    play("now|0 do leave|0 left-within 2000");
    play("1 do receive 1 8;send 1 8|0 do send 1 8;receive 1 8;await;say|0 done|0 sent 1 0|"
         "now|0 do leave|0 left-within 2000|1 sent 1 0");
}

/* Receives that nobody sends to don't hold up their own end: cancelled. */
static void receives_are_cancelled(void)
{
    play("0 do receive 3 8;receive 1 70000;leave;left|0 left|0 received 0 4 -32");
}

/* Sends without receives: they fail at their own end, cancelled, after it has lingered; and those
 * who come later hear that it is dead. */
static void nobody_receives(void)
{
    setting before = now;
    now.linger = "linger_ms=700";
    begin();
    go_on("now|0 do send 5 8;send 1 70000;leave|0 left-within 2000", NULL);
    NET_CHECK(net_now_ns() - watch.begin_ns >= 7 * SECOND_NS / 10, "it did not linger");
    go_on("0 sent 0 6 -32|1 do miss;receive 6 8|1 received 0 6 -65", NULL);
    finish();
    now = before;
}

/* Both have sent what the other does not want, and leave: nobody lingers for that. */
static void nobody_receives_from_either(void)
{
    play("now|0 do send 5 8;send 2 70000;leave|1 do send 3 70000;leave|0 left-within 5000|"
         "1 left-within 5000|0 sent 0 7|1 sent 0 3");
}

#define IS_STOPPED "1 do receive 30 70000;say|1 done|1 stops|"

/* Who is stopped holds leaving up until it is dead to the others, or for as long as one lingers. */
static void other_is_stopped(void)
{
    begin();
    go_on(IS_STOPPED "now|0 do send 30 70000;leave|0 left-within 9000|0 do sent", NULL);
    int64_t sent = net_number(net_hear(pair[0], "sent"), "good");
    go_on("1 goes-on|1 do received", NULL);
    int64_t received = net_number(net_hear(pair[1], "received"), "good");
    NET_CHECK(sent <= received, "%lld were sent well, %lld received", (long long)sent,
              (long long)received);
    finish();
}

/* However long it was to linger: who is stopped and owes nothing is dead to the others, too. */
static void other_is_stopped_in_peace(void)
{
    play_lingering("linger_ms=-1", "1 do receive 1 8|0 do send 1 8|0 sent 1 0|1 received 1 0|"
                                   "1 stops|now|0 do leave|0 left-within 9000|1 goes-on");
}

/* Nor is its death awaited, where that takes longer than one lingers: cancelled. */
static void other_is_stopped_for_longer(void)
{
    play_lingering("linger_ms=300",
                   "1 do receive 30 70000;receive 3000 30;say|1 done|1 stops|now|"
                   "0 do send 30 70000;send 3000 30;leave|0 left-within 3000|0 sent 0 3030 -32|"
                   "1 goes-on|1 do received|1 received");
}

/* A shutdown does not linger, whatever step leaving has come to. */
static void shutdown_while_leaving(void)
{
    static const char *const leaving[] = {"0 do leave;say", "0 do send 2 70000;leave;say"};
    for (int i = 0; i < 2; i++) {
        begin();
        go_on("1 do receive 1 8;received|0 do send 1 8;sent|0 sent|1 received|1 stops", NULL);
        go_on(leaving[i], NULL);
        go_on("0 done|rest 50|now|0 do shutdown;left|0 left", NULL);
        net_stopwatch_check(&watch, net_now_ns(), 3 * SECOND_NS, "shutting down");
        go_on("1 goes-on", NULL);
        finish();
    }
}

/* For less than that: all arrives. */
static void other_is_stopped_for_a_moment(void)
{
    play("1 do receive 30 70000;receive 1000 30;say|1 done|1 stops|"
         "0 do send 30 70000;send 1000 30;leave;say|0 done|rest 1000|1 goes-on|"
         "1 received 1030 0|0 sent 1030 0");
}

static void other_is_dead(void)
{
    begin();
    go_on(IS_STOPPED "0 do send 30 70000;leave;say|0 done|now", NULL);
    net_signal(pair[1], SIGKILL);
    net_end_by(pair[1], SIGKILL);
    expect_left(pair[0], now.has_hosts ? 6000 : 3000);
    net_tell(pair[0], "do sent");
    NET_CHECK(net_number(net_hear(pair[0], "sent"), "failed") > 0, "who is dead has received all");
    net_tell(pair[0], "do end");
    net_end(pair[0]);
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
