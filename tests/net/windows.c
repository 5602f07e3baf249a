/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other processes. Rank 0 owns two: others get from one and put into the other. Rank 1
 * gets and puts all the time, and looks at each byte. Either is stopped and killed at each step;
 * what must hold is that
 *
 *  - a close resolves when the other end has left the window, or is dead, and not before;
 *  - what is in the memory then stays, and nobody who reads it takes it for the window's bytes;
 *  - who is alive gets the status of a dead member, with its rank, and finds the windows of its
 * next life, which are others.
 *
 * On one host, with memory of both kinds: with memory that is shared, gets are read by the user's
 * own thread, out of a mapping that the owner can't take back.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define BYTES ((size_t)4 << 20)
#define AFTER 0xaa
#define BUSY 40 /* operations, after which it is in the midst of them */

enum { GETS, PUTS, WINDOWS };

static const char *const names[WINDOWS] = {"kv/gets", "kv/puts"};

static unsigned char byte_of(uint64_t life, size_t at)
{
    unsigned char byte = (unsigned char)(life * 89 + at * 7 + (at >> 12));
    return byte == AFTER ? 0 : byte;
}

static ferry_buffer *new_buffer(net_self *self, uint64_t life, ferry_memory kind)
{
    ferry_buffer *buffer = NULL;
    NET_SELF_CHECK(ferry_buffer_alloc_kind(ferry_device_find(self->engine, "host:0"), BYTES, kind,
                                           &buffer) == FERRY_OK,
                   "no buffer");
    unsigned char *bytes = ferry_buffer_data(buffer);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = byte_of(life, i);
    return buffer;
}

/* ---- the owner ---- */

static void close_windows(net_self *self, ferry_window *windows[WINDOWS],
                          ferry_buffer *buffers[WINDOWS])
{
    for (size_t i = 0; i < WINDOWS; i++) {
        ferry_future *closed = ferry_window_close(windows[i]);
        ferry_window_release(windows[i]);
        if (i == 0)
            net_say("closing");
        NET_SELF_CHECK(ferry_future_wait(closed, -1) == FERRY_OK, "a window could not be closed");
        ferry_future_release(closed);
        memset(ferry_buffer_data(buffers[i]), AFTER, BYTES);
    }
    net_say("closed rank=%u at=%lld", self->rank, (long long)net_now_ns());
    (void)net_await("look");
    for (size_t i = 0; i < WINDOWS; i++) {
        const unsigned char *bytes = ferry_buffer_data(buffers[i]);
        for (size_t k = 0; k < BYTES; k++)
            NET_SELF_CHECK(bytes[k] == AFTER, "byte %zu of a closed window was written", k);
        ferry_buffer_release(buffers[i]);
    }
}

static int owner(net_self *self, uint64_t life, ferry_memory kind)
{
    ferry_window *windows[WINDOWS];
    ferry_buffer *buffers[WINDOWS];
    static const ferry_window_rights rights[WINDOWS] = {FERRY_WINDOW_GET, FERRY_WINDOW_PUT};
    for (size_t i = 0; i < WINDOWS; i++) {
        buffers[i] = new_buffer(self, life, kind);
        ferry_future *open = ferry_window_open(self->group, ferry_buffer_span(buffers[i]), names[i],
                                               rights[i], &windows[i]);
        NET_SELF_CHECK(ferry_future_wait(open, -1) == FERRY_OK, "a window could not be opened");
        ferry_future_release(open);
    }
    net_say("open");
    (void)net_await("close");
    close_windows(self, windows, buffers);
    (void)net_await("end");
    net_self_end(self);
    return 0;
}

/* ---- who uses them ---- */

static uint64_t random_word = 88172645463325252u;

static size_t below(size_t bound)
{
    random_word ^= random_word << 13;
    random_word ^= random_word >> 7;
    random_word ^= random_word << 17;
    return (size_t)(random_word % bound);
}

static size_t pick_size(void)
{
    static const size_t sizes[] = {1, 8, 300, 4096, 16384, 100000, (size_t)1 << 20, BYTES};
    return sizes[below(sizeof sizes / sizeof sizes[0])];
}

static void check_bytes(const unsigned char *bytes, uint64_t life, size_t offset, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        NET_SELF_CHECK(bytes[i] == byte_of(life, offset + i), "byte %zu of a get is 0x%02x",
                       offset + i, bytes[i]);
}

/* Returns the status of the first operation that fails; tells of it. */
static ferry_status use(net_self *self, ferry_window *windows[WINDOWS],
                        ferry_buffer *buffers[WINDOWS], uint64_t life, size_t count, bool puts)
{
    size_t done = 0;
    for (; done < count; done++) {
        size_t size_bytes = pick_size(), offset = below(BYTES - size_bytes + 1);
        size_t which = puts && below(4) == 0 ? PUTS : GETS;
        ferry_span span = {buffers[which], which == GETS ? 0 : offset, size_bytes};
        ferry_future *future = which == GETS ? ferry_get(windows[GETS], offset, span, NULL)
                                             : ferry_put(windows[PUTS], offset, span, NULL);
        ferry_status status = ferry_future_wait(future, -1);
        if (status == FERRY_OK && which == GETS)
            check_bytes(ferry_buffer_data(buffers[GETS]), life, offset, size_bytes);
        if (status != FERRY_OK)
            return net_self_tell(self, "failed", future);
        ferry_future_release(future);
        if (done == BUSY)
            net_say("busy");
    }
    net_say("used %zu", done);
    return FERRY_OK;
}

static void find(net_self *self, ferry_window *windows[WINDOWS])
{
    for (size_t i = 0; i < WINDOWS; i++) {
        ferry_future *found = ferry_window_find(self->group, 0, names[i], 0, &windows[i]);
        ferry_status status = ferry_future_wait(found, -1);
        NET_SELF_CHECK(status == FERRY_OK, "%s is not found: %s", names[i],
                       ferry_status_name(status));
        ferry_future_release(found);
    }
}

static int user(net_self *self, int argc, char **argv)
{
    ferry_window *windows[WINDOWS];
    int64_t gets = net_argument_number(argc, argv, "only_gets", 0);
    size_t count = (size_t)net_argument_number(argc, argv, "count", gets != 0 ? gets : INT64_MAX);
    bool lives_on = net_argument(argc, argv, "lives_on") != NULL;
    ferry_buffer *buffers[WINDOWS] = {new_buffer(self, 0, FERRY_MEMORY_DEFAULT),
                                      new_buffer(self, 0, FERRY_MEMORY_DEFAULT)};
    for (uint64_t life = 0;; life++) {
        find(self, windows);
        net_say("found");
        (void)net_await("go");
        ferry_status status = use(self, windows, buffers, life, count, gets == 0);
        for (size_t i = 0; i < WINDOWS; i++)
            ferry_window_release(windows[i]);
        if (status == FERRY_OK || !lives_on || life == 1)
            break;
        ferry_buffer_release(buffers[GETS]); /* it is poisoned by what failed */
        buffers[GETS] = new_buffer(self, 0, FERRY_MEMORY_DEFAULT);
        (void)net_self_await_member(self, 0, FERRY_MEMBER_HERE, 1);
    }
    for (size_t i = 0; i < WINDOWS; i++)
        ferry_buffer_release(buffers[i]);
    (void)net_await("end");
    net_self_end(self);
    return 0;
}

static int member(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    if (self.rank != 0)
        return user(&self, argc, argv);
    return owner(&self, (uint64_t)net_argument_number(argc, argv, "life", 0),
                 (ferry_memory)net_argument_number(argc, argv, "memory", FERRY_MEMORY_DEFAULT));
}

/* ---- cases ---- */

static char memory[32]; /* the owner's, of the case that runs */

static void begin(net_member *members[2], bool has_hosts, const char *lease, const char *more)
{
    net_pair_start(members, has_hosts, "member", lease, memory, more, NULL);
    (void)net_hear(members[0], "open");
    (void)net_hear(members[1], "found");
}

static void end_owner(net_member *owner)
{
    net_tell(owner, "look");
    net_tell(owner, "end");
    net_end(owner);
}

static void with_both_kinds(void (*body)(bool has_hosts))
{
    static const ferry_memory kinds[] = {FERRY_MEMORY_DEFAULT, FERRY_MEMORY_SHARED};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)snprintf(memory, sizeof memory, "memory=%d", (int)kinds[i]);
        body(false);
    }
}

/* The owner is told to close, and does: what it said of that. */
static const char *closes(net_member *member)
{
    net_tell(member, "close");
    (void)net_hear(member, "closing");
    return net_hear(member, "closed");
}

/* Closed by their owner while the other uses them. */
static void use_and_close(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=10000", "count=300");
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    (void)net_hear(members[1], "used");
    (void)closes(members[0]);
    net_tell(members[1], "end");
    net_end(members[1]);
    end_owner(members[0]);

    begin(members, has_hosts, "lease_ms=10000", NULL);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    (void)closes(members[0]);
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "FERRY_E_NOT_FOUND") != NULL && strstr(failed, "rank=0") != NULL, "%s",
              failed);
    net_tell(members[1], "end");
    net_end(members[1]);
    end_owner(members[0]);
}

/* On one host gets need nothing of the owner. */
static void stand_still(bool has_hosts)
{
    (void)has_hosts;
    net_member *members[2];
    begin(members, false, "lease_ms=20000", "only_gets=200");
    net_signal(members[0], SIGSTOP);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    (void)net_hear(members[1], "used");
    net_signal(members[0], SIGCONT);
    (void)closes(members[0]);
    net_tell(members[1], "end");
    net_end(members[1]);
    end_owner(members[0]);
}

static void owner_stands_still(void)
{
    with_both_kinds(stand_still);
}

/* It dies while it is read; the next one of its rank has windows of its own. */
static void owner_is_killed(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=5000", "lives_on=yes");
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    net_signal(members[0], SIGKILL);
    net_end_by(members[0], SIGKILL);
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "rank=0") != NULL && (strstr(failed, "FERRY_E_DEAD") != NULL ||
                                                   strstr(failed, "FERRY_E_PEER") != NULL ||
                                                   strstr(failed, "FERRY_E_NOT_FOUND") != NULL),
              "%s", failed);
    char store[512];
    (void)snprintf(store, sizeof store, "store=file:%s/store", net_folder());
    net_member *next = net_start(has_hosts ? 0 : NET_HERE, "member", store,
                                 has_hosts ? "network=eth0" : "network=lo", "rank=0", "size=2",
                                 "lease_ms=5000", "life=1", memory, NULL);
    (void)net_hear(next, "joined");
    (void)net_hear(next, "open");
    (void)net_hear(members[1], "found");
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    (void)closes(next);
    (void)net_hear(members[1], "failed");
    net_tell(members[1], "end");
    net_end(members[1]);
    end_owner(next);
}

/* Who has found it dies, while its owner would close it. */
static void user_is_killed(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=5000", NULL);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    net_signal(members[1], SIGSTOP);
    net_tell(members[0], "close");
    (void)net_hear(members[0], "closing");
    net_stopwatch watch = net_stopwatch_start();
    net_signal(members[1], SIGKILL);
    net_end_by(members[1], SIGKILL);
    const char *closed = net_hear(members[0], "closed");
    net_stopwatch_check(&watch, net_number(closed, "at"), 6 * SECOND_NS, "closing");
    end_owner(members[0]);
}

/*
 * Who has found it stands still, in the midst of a read perhaps, for longer than its lease: it is
 * dead to the owner, who closes, and writes there at once. When it goes on it may read that, and
 * must not take it for the window's.
 */
static void user_stands_still(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=2000", NULL);
    net_tell(members[1], "go");
    (void)net_hear(members[1], "busy");
    net_signal(members[1], SIGSTOP);
    net_stopwatch watch = net_stopwatch_start();
    const char *closed = closes(members[0]);
    net_stopwatch_check(&watch, net_number(closed, "at"), 3 * SECOND_NS, "closing");
    net_signal(members[1], SIGCONT);
    (void)net_hear(members[1], "failed"); /* it has looked at each byte before */
    net_tell(members[1], "end");
    net_end(members[1]);
    end_owner(members[0]);
}

static void use_same_host(void)
{
    with_both_kinds(use_and_close);
}

static void use_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    use_and_close(true);
}

static void owner_killed_same_host(void)
{
    with_both_kinds(owner_is_killed);
}

static void owner_killed_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    owner_is_killed(true);
}

static void user_killed_same_host(void)
{
    with_both_kinds(user_is_killed);
}

static void user_killed_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    user_is_killed(true);
}

static void user_still_same_host(void)
{
    for (int i = 0; i < 3; i++)
        with_both_kinds(user_stands_still);
}

static void user_still_other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    user_stands_still(true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {
        {"use_same_host", use_same_host, 60},
        {"use_other_hosts", use_other_hosts, 60},
        {"owner_stands_still", owner_stands_still, 60},
        {"owner_killed_same_host", owner_killed_same_host, 60},
        {"owner_killed_other_hosts", owner_killed_other_hosts, 60},
        {"user_killed_same_host", user_killed_same_host, 60},
        {"user_killed_other_hosts", user_killed_other_hosts, 60},
        {"user_still_same_host", user_still_same_host, 60},
        {"user_still_other_hosts", user_still_other_hosts, 60},
    };
    return net_test_main(argc, argv, roles, 1, cases, sizeof cases / sizeof cases[0]);
}
