/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans between processes. Rank 0 owns a window; rank 1 posts a plan of scattered gets out of one
 * half of it and puts into the other, again and again, and looks at each byte that it gets. Either
 * is stopped and killed in the midst of a post; what must hold is that
 *
 *  - the post ends, by its deadline at the latest, with the member that is the cause;
 *  - when it is quiet nobody writes its memory, here and in the window, that is still alive;
 *  - the window can be closed, and is quiet then.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AFTER 0xaa

enum { BLOCK = 8192, BLOCKS = 256, GETS = 200, PUTS = 56, HALF = BLOCK * BLOCKS, BUSY = 5 };

static unsigned char byte_of(size_t block)
{
    return (unsigned char)(block % 100 + 1);
}

static ferry_buffer *new_buffer(net_self *self, size_t size_bytes)
{
    ferry_buffer *buffer = NULL;
    NET_SELF_CHECK(ferry_buffer_alloc(ferry_device_find(self->engine, "host:0"), size_bytes,
                                      &buffer) == FERRY_OK,
                   "no buffer");
    return buffer;
}

static bool is_filled(const unsigned char *bytes, size_t size_bytes, unsigned char with)
{
    return bytes[0] == with && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

/* ---- the owner ---- */

static int owner(net_self *self)
{
    ferry_window *window = NULL;
    ferry_buffer *buffer = new_buffer(self, 2 * (size_t)HALF);
    unsigned char *bytes = ferry_buffer_data(buffer);
    for (size_t i = 0; i < BLOCKS; i++)
        memset(bytes + i * BLOCK, byte_of(i), BLOCK);
    ferry_future *open = ferry_window_open(self->group, ferry_buffer_span(buffer), "kv",
                                           FERRY_WINDOW_GET_PUT, &window);
    NET_SELF_CHECK(ferry_future_wait(open, -1) == FERRY_OK, "the window could not be opened");
    ferry_future_release(open);
    net_say("open");
    (void)net_await("close");
    net_say("closing");
    ferry_future *closed = ferry_window_close(window);
    NET_SELF_CHECK(ferry_future_wait(closed, -1) == FERRY_OK, "the window could not be closed");
    ferry_future_release(closed);
    ferry_window_release(window);
    memset(bytes, AFTER, 2 * (size_t)HALF);
    net_say("closed");
    (void)net_await("end");
    NET_SELF_CHECK(is_filled(bytes, 2 * (size_t)HALF, AFTER), "a closed window was written");
    ferry_buffer_release(buffer);
    net_self_end(self);
    return 0;
}

/* ---- who uses it ---- */

typedef struct user {
    net_self *self;
    ferry_window *window;
    ferry_buffer *local; /* GETS blocks, then PUTS blocks */
    ferry_plan *plan;
    int64_t deadline_ns; /* of each post, from its beginning; 0: none */
} user;

static void prepare(user *user)
{
    ferry_op ops[GETS + PUTS];
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < GETS; i++)
        ops[i] = (ferry_op){.kind = FERRY_OP_GET,
                            .window = user->window,
                            .window_offset = i * 37 % BLOCKS * BLOCK,
                            .dst = {user->local, i * BLOCK, BLOCK}};
    for (size_t i = 0; i < PUTS; i++)
        ops[GETS + i] = (ferry_op){.kind = FERRY_OP_PUT,
                                   .window = user->window,
                                   .window_offset = HALF + i * 37 % BLOCKS * BLOCK,
                                   .src = {user->local, (GETS + i) * BLOCK, BLOCK}};
    NET_SELF_CHECK(ferry_plan_create(user->self->engine, ops, sizeof ops[0], GETS + PUTS,
                                     &user->plan, NULL) == FERRY_OK,
                   "no plan");
}

static void check_gets(const user *user)
{
    const unsigned char *bytes = ferry_buffer_data(user->local);
    for (size_t i = 0; i < GETS; i++)
        NET_SELF_CHECK(is_filled(bytes + i * BLOCK, BLOCK, byte_of(i * 37 % BLOCKS)),
                       "block %zu is wrong", i);
}

/* A failed post: its reason, and then its quiet. */
static void tell_failure(const user *user, ferry_future *post)
{
    net_self_tell_failure(post);
    unsigned char *bytes = ferry_buffer_data(user->local);
    memset(bytes, AFTER, GETS * BLOCK);
    net_say("quiet");
}

/* Until a post fails, or so many were made. */
static void post_many(const user *user, uint64_t count)
{
    for (uint64_t done = 0; done < count; done++) {
        ferry_op_options options = FERRY_OP_OPTIONS_INIT;
        options.deadline_ns = user->deadline_ns != 0
                                  ? ferry_engine_deadline_in(user->self->engine, user->deadline_ns)
                                  : 0;
        ferry_future *post = ferry_plan_post(user->plan, NULL, 0, &options);
        if (ferry_future_wait(post, -1) != FERRY_OK) {
            tell_failure(user, post);
            ferry_future_release(post);
            return;
        }
        ferry_future_release(post);
        check_gets(user);
        if (done == BUSY)
            net_say("busy");
    }
    net_say("used");
}

static int use(net_self *self, int argc, char **argv)
{
    user user = {.self = self, .local = new_buffer(self, (GETS + PUTS) * (size_t)BLOCK)};
    memset(ferry_buffer_data(user.local), 1, (GETS + PUTS) * (size_t)BLOCK);
    user.deadline_ns = 1000000 * net_argument_number(argc, argv, "post_ms", 0);
    ferry_future *found = ferry_window_find(self->group, 0, "kv", 0, &user.window);
    NET_SELF_CHECK(ferry_future_wait(found, -1) == FERRY_OK, "the window is not found");
    ferry_future_release(found);
    prepare(&user);
    post_many(&user, (uint64_t)net_argument_number(argc, argv, "count", INT64_MAX));
    (void)net_await("end");
    NET_SELF_CHECK(
        is_filled((unsigned char *)ferry_buffer_data(user.local), 1, AFTER) ==
            is_filled((unsigned char *)ferry_buffer_data(user.local), GETS * BLOCK, AFTER),
        "memory was written after it was quiet");
    ferry_plan_release(user.plan);
    ferry_window_release(user.window);
    ferry_buffer_release(user.local);
    net_self_end(self);
    return 0;
}

static int member(int argc, char **argv)
{
    net_self self;
    net_self_join(&self, argc, argv);
    return self.rank == 0 ? owner(&self) : use(&self, argc, argv);
}

/* ---- cases ---- */

static void end(net_member *member)
{
    net_tell(member, "end");
    net_end(member);
}

static void begin(net_member *members[2], bool has_hosts, const char *lease, const char *more)
{
    net_pair_start(members, has_hosts, "member", lease, more, NULL);
    (void)net_hear(members[0], "open");
    (void)net_hear(members[1], "busy");
}

/* Closed in the midst of posts. */
static void owner_closes(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=10000", NULL);
    net_tell(members[0], "close");
    (void)net_hear(members[0], "closing");
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "cause=FERRY_E_NOT_FOUND rank=0") != NULL, "%s", failed);
    (void)net_hear(members[1], "quiet");
    (void)net_hear(members[0], "closed");
    end(members[1]);
    end(members[0]);
}

static void owner_is_killed(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=5000", NULL);
    net_signal(members[0], SIGKILL);
    net_end_by(members[0], SIGKILL);
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "rank=0") != NULL &&
                  (strstr(failed, "cause=FERRY_E_DEAD") != NULL ||
                   strstr(failed, "cause=FERRY_E_PEER") != NULL ||
                   strstr(failed, "cause=FERRY_E_NOT_FOUND") != NULL),
              "%s", failed);
    (void)net_hear(members[1], "quiet");
    end(members[1]);
}

/* Puts need it: a post is late, and quiet when the owner goes on. */
static void owner_stands_still(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=30000", "post_ms=2000");
    net_signal(members[0], SIGSTOP);
    const char *failed = net_hear(members[1], "failed");
    NET_CHECK(strstr(failed, "FERRY_E_DEADLINE") != NULL && strstr(failed, "rank=0") != NULL, "%s",
              failed);
    net_signal(members[0], SIGCONT);
    (void)net_hear(members[1], "quiet");
    net_tell(members[0], "close");
    (void)net_hear(members[0], "closing");
    end(members[1]);
    (void)net_hear(members[0], "closed");
    end(members[0]);
}

static void user_is_killed(bool has_hosts)
{
    net_member *members[2];
    begin(members, has_hosts, "lease_ms=5000", NULL);
    net_signal(members[1], SIGSTOP);
    net_tell(members[0], "close");
    (void)net_hear(members[0], "closing");
    net_signal(members[1], SIGKILL);
    net_end_by(members[1], SIGKILL);
    (void)net_hear(members[0], "closed");
    end(members[0]);
}

#define SAME_AND_OTHER_HOSTS(name)                                                                 \
    static void name##_same_host(void)                                                             \
    {                                                                                              \
        name(false);                                                                               \
    }                                                                                              \
    static void name##_other_hosts(void)                                                           \
    {                                                                                              \
        net_hosts_open(2, NET_CABLE_VETH);                                                         \
        name(true);                                                                                \
    }

SAME_AND_OTHER_HOSTS(owner_closes)
SAME_AND_OTHER_HOSTS(owner_is_killed)
SAME_AND_OTHER_HOSTS(owner_stands_still)
SAME_AND_OTHER_HOSTS(user_is_killed)

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    static const net_case cases[] = {
        {"owner_closes_same_host", owner_closes_same_host, 60},
        {"owner_closes_other_hosts", owner_closes_other_hosts, 60},
        {"owner_is_killed_same_host", owner_is_killed_same_host, 60},
        {"owner_is_killed_other_hosts", owner_is_killed_other_hosts, 60},
        {"owner_stands_still_same_host", owner_stands_still_same_host, 60},
        {"owner_stands_still_other_hosts", owner_stands_still_other_hosts, 60},
        {"user_is_killed_same_host", user_is_killed_same_host, 60},
        {"user_is_killed_other_hosts", user_is_killed_other_hosts, 60},
    };
    return net_test_main(argc, argv, roles, 1, cases, sizeof cases / sizeof cases[0]);
}
