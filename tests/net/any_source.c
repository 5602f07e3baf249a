/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that takes from whoever sends, while another is killed: before it has sent anything,
 * with its messages kept and received by nobody, or in the middle of receiving them. What the
 * others send is received, each message once; what fails names the dead; and when nobody is left
 * that could send, those that wait fail and say so.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { TAKER, BYSTANDER, VICTIM, MEMBERS };
enum { COUNT = 400, MIDDLE = 100, OPEN = 8, SLOT_BYTES = 65536, LAST_TAG = 99 };

/* The i-th message of a member: its size, its tag, and bytes that tell. */
static size_t size_of(size_t i)
{
    return i % 4 == 3 ? SLOT_BYTES : 16 + i % 512;
}

static void make_bytes(unsigned char *bytes, uint32_t rank, size_t i)
{
    uint32_t head[2] = {rank, (uint32_t)i};
    memset(bytes, (int)(rank * 31 + i), size_of(i));
    memcpy(bytes, head, sizeof head);
}

/* ---- who sends ---- */

static ferry_buffer *make_buffer(const net_self *self, size_t bytes)
{
    ferry_buffer *buffer = NULL;
    if (ferry_buffer_alloc(ferry_device_at(self->engine, 0), bytes, &buffer) != FERRY_OK)
        net_self_fail("no memory for %zu bytes", bytes);
    return buffer;
}

static void submit(const net_self *self, ferry_buffer *buffer, ferry_future **sends, size_t first,
                   size_t end)
{
    for (size_t i = first; i < end; i++) {
        ferry_span span = {buffer, i * SLOT_BYTES, size_of(i)};
        make_bytes((unsigned char *)ferry_buffer_data(buffer) + span.offset_bytes, self->rank, i);
        ferry_tag tag = i == COUNT - 1 ? LAST_TAG : i % 3;
        sends[i] = ferry_send(self->group, TAKER, tag, span, NULL);
    }
}

static int bystander(int argc, char **argv)
{
    net_self self;
    ferry_future *sends[COUNT];
    net_self_join(&self, argc, argv);
    ferry_buffer *buffer = make_buffer(&self, (size_t)COUNT * SLOT_BYTES);
    submit(&self, buffer, sends, 0, COUNT / 2);
    (void)net_await("go on");
    submit(&self, buffer, sends, COUNT / 2, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        NET_SELF_CHECK(ferry_future_wait(sends[i], -1) == FERRY_OK, "message %zu was not sent", i);
        ferry_future_release(sends[i]);
    }
    net_say("sent");
    (void)net_await("end");
    ferry_buffer_release(buffer);
    net_self_end(&self);
    return 0;
}

static int victim(int argc, char **argv)
{
    net_self self;
    ferry_future *sends[COUNT];
    net_self_join(&self, argc, argv);
    ferry_buffer *buffer = make_buffer(&self, (size_t)COUNT * SLOT_BYTES);
    submit(&self, buffer, sends, 0, (size_t)net_argument_number(argc, argv, "messages", 0));
    net_say("submitted");
    (void)net_await("nothing more");
    return 1;
}

/* ---- who takes ---- */

typedef struct taker {
    net_self self;
    ferry_buffer *buffer;
    ferry_future *open[OPEN];
    size_t turn; /* the oldest of them */
    size_t got[MEMBERS], failed;
    size_t next[MEMBERS][4]; /* of each member and tag: the least that may come next */
    bool has_last;
} taker;

static ferry_span slot(const taker *t, size_t i)
{
    return (ferry_span){t->buffer, i * SLOT_BYTES, SLOT_BYTES};
}

static void post(taker *t, size_t i)
{
    t->open[i] = ferry_recv(t->self.group, FERRY_RANK_ANY, FERRY_TAG_ANY, slot(t, i), NULL);
}

static void check_message(taker *t, const ferry_message_info *info, const unsigned char *bytes)
{
    static unsigned char expected[SLOT_BYTES];
    uint32_t head[2];
    memcpy(head, bytes, sizeof head);
    NET_SELF_CHECK(head[0] == info->rank && head[1] < COUNT && info->rank < MEMBERS &&
                       info->size_bytes == size_of(head[1]),
                   "message %u of member %u, told as of %u", head[1], head[0], info->rank);
    make_bytes(expected, head[0], head[1]);
    NET_SELF_CHECK(memcmp(bytes, expected, info->size_bytes) == 0, "wrong bytes");
    size_t *next = &t->next[info->rank][info->tag == LAST_TAG ? 3 : info->tag];
    NET_SELF_CHECK(head[1] >= *next, "message %u of member %u comes late, or again", head[1],
                   head[0]);
    *next = head[1] + 1;
    t->has_last |= info->tag == LAST_TAG && info->rank == BYSTANDER;
    t->got[info->rank]++;
}

/* The oldest receive; another takes its place. */
static void take_one(taker *t)
{
    size_t i = t->turn++ % OPEN;
    ferry_future *future = t->open[i];
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_status status = ferry_future_wait(future, -1);
    if (status == FERRY_OK) {
        NET_SELF_CHECK(ferry_message_describe(future, &info) == FERRY_OK, "nothing is known of it");
        check_message(t, &info, (unsigned char *)ferry_buffer_data(t->buffer) + i * SLOT_BYTES);
    } else {
        const ferry_error *error = ferry_future_error(future);
        NET_SELF_CHECK(error->rank == VICTIM, "%s", error->message);
        t->failed++;
    }
    ferry_future *quiet = ferry_future_quiet(future);
    NET_SELF_CHECK(ferry_future_wait(quiet, -1) == FERRY_OK, "it does not become quiet");
    ferry_future_release(quiet);
    ferry_future_release(future);
    post(t, i);
}

/* Nobody else is left: all of them fail, also a new one, and a probe. */
static void end_alone(taker *t)
{
    ferry_future *more[] = {
        ferry_message_probe(t->self.group, FERRY_RANK_ANY, 5, NULL),
        ferry_recv(t->self.group, FERRY_RANK_ANY, 6, slot(t, OPEN), NULL),
        ferry_recv(t->self.group, VICTIM, 6, slot(t, OPEN + 1), NULL),
        ferry_message_probe(t->self.group, VICTIM, FERRY_TAG_ANY, NULL),
    };
    for (size_t i = 0; i < OPEN + 4; i++) {
        ferry_future *future = i < OPEN ? t->open[i] : more[i - OPEN];
        ferry_status status = ferry_future_wait(future, -1);
        NET_SELF_CHECK(status == FERRY_E_DEAD, "it is %s", ferry_status_name(status));
        ferry_future_release(future);
    }
    net_say("alone");
}

static int taker_role(int argc, char **argv)
{
    static taker t;
    const char *mode = net_argument(argc, argv, "mode");
    bool is_kept = strcmp(mode, "kept") == 0;
    net_self_join(&t.self, argc, argv);
    t.buffer = make_buffer(&t.self, (size_t)(OPEN + 2) * SLOT_BYTES);
    if (is_kept) { /* the last of a tag, so all before it have come too */
        ferry_future *probe = ferry_message_probe(t.self.group, VICTIM, LAST_TAG, NULL);
        NET_SELF_CHECK(ferry_future_wait(probe, -1) == FERRY_OK, "it is not found");
        ferry_future_release(probe);
        net_say("middle");
        (void)net_self_await_member(&t.self, VICTIM, FERRY_MEMBER_DEAD, 0);
    }
    for (size_t i = 0; i < OPEN; i++)
        post(&t, i);
    while (!is_kept && t.got[VICTIM] < (strcmp(mode, "middle") == 0 ? MIDDLE : 0))
        take_one(&t);
    if (!is_kept)
        net_say("middle");
    while (!t.has_last || t.got[BYSTANDER] < COUNT)
        take_one(&t);
    net_say("tally beside=%zu victim=%zu failed=%zu", t.got[BYSTANDER], t.got[VICTIM], t.failed);
    (void)net_await("end");
    end_alone(&t);
    ferry_buffer_release(t.buffer);
    net_self_end(&t.self);
    return 0;
}

/* ---- the test ---- */

static net_member *start(const char *role, int rank, bool has_hosts, const char *more)
{
    char store[128];
    char number[16];
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    return net_start(has_hosts ? rank : NET_HERE, role, store, number, "size=3", "lease_ms=5000",
                     has_hosts ? "network=eth0" : "network=lo",
                     rank == TAKER ? "any_source_max=64" : "any_source_max=0", more, NULL);
}

static void kill_at(const char *mode, const char *messages, bool has_hosts)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "mode=%s", mode);
    net_member *taker = start("taker", TAKER, has_hosts, text);
    net_member *bystander = start("bystander", BYSTANDER, has_hosts, "messages=0");
    net_member *victim = start("victim", VICTIM, has_hosts, messages);
    (void)net_hear(taker, "joined");
    (void)net_hear(bystander, "joined");
    (void)net_hear(victim, "joined");
    (void)net_hear(victim, "submitted");
    (void)net_hear(taker, "middle");
    net_signal(victim, SIGKILL);
    net_end_by(victim, SIGKILL);
    net_tell(bystander, "go on");
    const char *tally = net_hear(taker, "tally");
    printf("%s: %s\n", mode, tally);
    NET_CHECK(net_number(tally, "beside") == COUNT, "not all that the other sent has come");
    NET_CHECK(net_number(tally, "failed") <= OPEN, "more failed than were open");
    if (strcmp(mode, "middle") != 0)
        NET_CHECK(net_number(tally, "victim") == 0, "something came of the dead");
    (void)net_hear(bystander, "sent");
    net_tell(bystander, "end");
    net_end(bystander);
    net_tell(taker, "end");
    (void)net_hear(taker, "alone");
    net_end(taker);
}

static void before_it_sends(void)
{
    kill_at("early", "messages=0", false);
}

static void what_is_kept(void)
{
    kill_at("kept", "messages=400", false);
}

static void in_the_middle(void)
{
    kill_at("middle", "messages=400", false);
}

static void in_the_middle_of_hosts(void)
{
    net_hosts_open(3, NET_CABLE_VETH);
    kill_at("middle", "messages=400", true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {
        {"taker", taker_role}, {"bystander", bystander}, {"victim", victim}};
    static const net_case cases[] = {{"before_it_sends", before_it_sends, 60},
                                     {"what_is_kept", what_is_kept, 60},
                                     {"in_the_middle", in_the_middle, 60},
                                     {"in_the_middle_of_hosts", in_the_middle_of_hosts, 60}};
    return net_test_main(argc, argv, roles, 3, cases, 4);
}
