/* SPDX-License-Identifier: Apache-2.0 */
/* Who calls a member's port and gets nothing: one line in the log, and no effect on the group. */
#include "net/connect/link_endpoint.h"
#include "tests/support/place.h"
#include "tests/unit/link_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/socket.h>

static rig_member other;

/* ---- a caller or answerer of the test's own, which says what it likes ---- */

typedef struct puppet {
    int fd;
    fry_hello hello;
    fry_hello_offer own;
    uint8_t psk[FRY_NOISE_KEY_BYTES];
    bool is_closed, is_offered, is_addressed, is_done;
    size_t sent, limit; /* it says no more than so many bytes */
} puppet;

static fry_hello_offer usual_offer(uint32_t rank, uint64_t incarnation)
{
    fry_hello_offer offer = {
        .rank = rank,
        .incarnation = incarnation,
        .pid = getpid(),
        .started = fry_process_started(getpid()),
        .paths = FRY_HELLO_PATH(FRY_PATH_SHARED) | FRY_HELLO_PATH(FRY_PATH_NET),
        .window_messages = 5,
        .unexpected_max = 50,
        .window_bytes = 500,
    };
    fry_machine_identify(offer.host);
    return offer;
}

static void puppet_call(puppet *p, const rig_member *member, const fry_hello_greeting *greeting)
{
    memset(p, 0, sizeof(*p));
    p->limit = SIZE_MAX;
    p->own = usual_offer(greeting->rank, greeting->incarnation);
    cr_assert_eq(fry_hello_key(p->psk, rig_usual.secret, strlen(rig_usual.secret)), FERRY_OK);
    p->fd = rig_dial(member);
    fry_hello_call(&p->hello, p->psk, greeting);
}

static fry_hello_greeting greeting_from(uint32_t rank, uint64_t incarnation, const rig_member *to)
{
    fry_hello_greeting greeting = {.rank = rank,
                                   .incarnation = incarnation,
                                   .to_rank = to->rank,
                                   .to_incarnation = to->incarnation};

    (void)snprintf(greeting.job, sizeof(greeting.job), "job");
    return greeting;
}

static void puppet_close(puppet *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
}

static void puppet_decide(puppet *p, fry_hello_event event)
{
    switch (event) {
    case FRY_HELLO_GREETED:
        cr_assert(fry_hello_answer(&p->hello, &p->own));
        break;
    case FRY_HELLO_OFFERED:
        p->is_offered = true;
        if (p->hello.is_caller)
            fry_hello_offer_own(&p->hello, &p->own);
        cr_assert(fry_hello_agree(&p->hello));
        fry_hello_address(&p->hello, "12345678", 8);
        break;
    case FRY_HELLO_ADDRESSED:
        p->is_addressed = true;
        p->is_done = fry_hello_ready(&p->hello);
        break;
    case FRY_HELLO_DONE:
        p->is_done = true;
        break;
    default:
        break;
    }
}

/* Sends and reads what there is. */
static void puppet_turn(puppet *p)
{
    uint8_t bytes[FRY_HELLO_FRAME_BYTES_MAX];
    size_t size = p->hello.out_bytes;

    if (p->fd < 0)
        return;
    if (size > p->limit - p->sent)
        size = p->limit - p->sent;
    if (size > 0 && send(p->fd, p->hello.out, size, MSG_NOSIGNAL) == (ssize_t)size) {
        fry_hello_took(&p->hello, size);
        p->sent += size;
    }
    if (p->sent == p->limit) {
        puppet_close(p);
        return;
    }
    for (;;) {
        const size_t wants = fry_hello_wants(&p->hello);
        const ssize_t count = recv(p->fd, bytes, wants > 0 ? wants : 1, MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN)
            return;
        p->is_closed = count <= 0;
        if (count <= 0 || wants == 0)
            return;
        puppet_decide(p, fry_hello_feed(&p->hello, bytes, (size_t)count));
    }
}

#define PUPPET_UNTIL(p, condition)                                                                 \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            puppet_turn(p);                                                                        \
            (void)rig_turn();                                                                      \
        }                                                                                          \
    } while (0)

/* ---- what is the same after each ---- */

static size_t descriptors;

/* Before each: who is there needs a process that can be looked at. */
static void open_both(void)
{
    PLACE_NEEDS(place_lacks_this_host);
    rig_open_both();
    descriptors = rig_count_descriptors();
}

/* A connection can be had as if nothing had been, and nothing has been told. */
static void assert_unharmed(void)
{
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 0);
    cr_assert_eq(rig_count_descriptors(), descriptors);
    cr_assert_eq(low.connected + low.failed + low.died + low.ended, 0);
    cr_assert_eq(low.opened, 0);
    fry_link_want(high.link, 0);
    RIG_UNTIL(low.channel != NULL && high.channel != NULL);
    cr_assert_eq(low.channel->id, high.channel->other);
}

static void assert_refused(const char *why)
{
    cr_assert_eq(rig_logged(&low, why), 1, "%s: %s", why, low.lines);
    cr_assert_eq(rig_logged(&low, "hello from 127.0.0.1:"), 1, "%s", low.lines);
    cr_assert_eq(rig_logged(&low, "\n"), 1, "%s", low.lines);
    assert_unharmed();
}

/* ---- each of them ---- */

TestSuite(net_link_refused, .init = open_both, .fini = rig_close_all);

Test(net_link_refused, another_secret)
{
    rig_options options = rig_usual;

    options.secret = "another one";
    rig_open(&other, 7, 30, &options);
    rig_meet(&other, &low);
    fry_link_want(other.link, rig_now_ns() + INT64_C(60000000));
    for (int i = 0; i < 10; i++) {
        rig_rest();
        rig_step_ns(INT64_C(10000000));
    }
    RIG_UNTIL(other.failed == 1);
    cr_assert(strstr(other.fault.message, "another secret") != NULL, "%s", other.fault.message);
    rig_close(&other);
    assert_refused("another secret, or changed bytes");
}

Test(net_link_refused, no_secret)
{
    rig_options options = rig_usual;

    options.secret = NULL;
    rig_open(&other, 7, 30, &options);
    rig_meet(&other, &low);
    fry_link_want(other.link, rig_now_ns() + 1);
    rig_rest();
    rig_step_ns(INT64_C(10000000));
    RIG_UNTIL(other.failed == 1);
    rig_close(&other);
    assert_refused("another secret, or changed bytes");
}

Test(net_link_refused, another_job)
{
    rig_options options = rig_usual;

    options.job = "another.job";
    rig_open(&other, 5, 20, &options);
    rig_meet(&other, &low);
    fry_link_want(other.link, 0);
    RIG_UNTIL(other.failed == 1);
    cr_assert(strstr(other.fault.message, "another job") != NULL, "%s", other.fault.message);
    rig_close(&other);
    assert_refused("it is of another job: as member 5, start 20");
}

Test(net_link_refused, not_a_member)
{
    rig_open(&other, 7, 30, &rig_usual);
    rig_meet(&other, &low);
    fry_link_want(other.link, rig_now_ns() + INT64_C(3000000000));
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 1);
    rig_step_ns(INT64_C(3000000000));
    RIG_UNTIL(other.failed == 1);
    rig_close(&other);
    rig_rest();
    cr_assert_leq(low.links->stranger_count, 0);
    assert_refused("not known as a member: as member 7, start 30");
}

Test(net_link_refused, an_old_start)
{
    rig_open(&other, 5, 19, &rig_usual);
    rig_meet(&other, &low);
    fry_link_want(other.link, 0);
    RIG_UNTIL(other.failed == 1);
    cr_assert_eq(other.fault.rank, 2);
    rig_close(&other);
    assert_refused("restarted since: as member 5, start 19");
}

Test(net_link_refused, another_member)
{
    rig_member before;

    rig_open(&other, 5, 20, &rig_usual);
    before = low;
    before.incarnation = 9; /* who had the port is not there any more */
    rig_meet(&other, &before);
    fry_link_want(other.link, 0);
    RIG_UNTIL(other.failed == 1);
    rig_close(&other);
    assert_refused("not the member that was called, or not any more");
}

Test(net_link_refused, an_answer_by_another)
{
    static rig_member named;

    rig_open(&other, 7, 30, &rig_usual);
    named = high; /* rank and start of one, port of the other */
    memcpy(named.endpoint, other.endpoint, sizeof(named.endpoint));
    fry_link_remove(low.link);
    rig_meet(&low, &named);
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.failed == 1);
    cr_assert_eq(low.opened + other.opened, 0);
}

Test(net_link_refused, its_own_words)
{
    rig_open(&other, 7, 30, &rig_usual);
    char real[FRY_ENDPOINT_BYTES]; /* the caller's own is in its place: a relay that reflects */
    memcpy(real, high.endpoint, sizeof(real));
    fry_link_remove(low.link);
    memcpy(high.endpoint, low.endpoint, sizeof(real));
    rig_meet(&low, &high);
    fry_link_want(low.link, 0);
    RIG_UNTIL(low.failed == 1);
    memcpy(high.endpoint, real, sizeof(real));
    cr_assert_eq(low.opened, 0);
    cr_assert_eq(low.connected, 0);
    cr_assert_eq(rig_logged(&low, "not the member that was called, or not any more"), 1, "%s",
                 low.lines);
}

Test(net_link_refused, another_version)
{
    uint8_t bytes[16] = "ferry~", got[16];
    char text[80];

    const int fd = rig_dial(&low);
    bytes[7] = FRY_HELLO_VERSION + 1;
    cr_assert_eq(send(fd, bytes, 8, 0), 8);
    rig_rest();
    bytes[7] = FRY_HELLO_VERSION;
    cr_assert_eq(recv(fd, got, sizeof(got), 0), 8, "what it speaks itself, and nothing more");
    cr_assert_arr_eq(got, bytes, 8);
    cr_assert_leq(recv(fd, got, sizeof(got), 0), 0);
    close(fd);
    (void)snprintf(text, sizeof(text), "another version of the protocol: it speaks %d, this one %d",
                   FRY_HELLO_VERSION + 1, FRY_HELLO_VERSION);
    assert_refused(text);
}

Test(net_link_refused, another_protocol)
{
    static const char words[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";

    const int fd = rig_dial(&low);
    cr_assert_gt(send(fd, words, sizeof(words), 0), 0);
    rig_rest();
    close(fd);
    assert_refused("another protocol than ferry's");
}

Test(net_link_refused, who_says_nothing)
{
    char byte;

    const int fd = rig_dial(&low);
    cr_assert_eq(send(fd, "fer", 3, 0), 3);
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 1);
    rig_step_ns(FRY_LINK_HELLO_NS);
    rig_rest();
    cr_assert_leq(recv(fd, &byte, 1, 0), 0);
    close(fd);
    assert_refused("its hello took too long");
}

/* Looked at and left again: no line for that, as it is what checks of ports do. */
Test(net_link_refused, who_only_looks)
{
    for (int i = 0; i < 100; i++) {
        const int fd = rig_dial(&low);
        if (i % 2 != 0)
            rig_rest();
        close(fd);
    }
    rig_rest();
    cr_assert_eq(low.lines_length, 0, "%s", low.lines);
    assert_unharmed();
}

/* A member that was killed after it sent its words: it has died, and that is no refusal. */
Test(net_link_refused, a_process_that_is_not_there)
{
    puppet p;

    for (int i = 0; i < 2; i++) {
        const fry_hello_greeting greeting = greeting_from(5, 20, &low);
        puppet_call(&p, &low, &greeting);
        if (i == 0)
            p.own.started++; /* its number was used again */
        else
            p.own.pid = 0x3ffffff7; /* more than there can be */
        PUPPET_UNTIL(&p, p.is_closed);
        cr_assert_eq(p.hello.reason, FRY_HELLO_NO_PROCESS);
        cr_assert_not(p.is_addressed);
        puppet_close(&p);
        rig_rest();
        cr_assert_eq(low.died, 1);
        cr_assert_eq(low.opened + low.connected + low.failed + low.ended, 0);
        cr_assert_eq(low.links->stranger_count, 0);
        cr_assert_eq(rig_count_descriptors(), descriptors);
    }
    cr_assert_eq(rig_logged(&low, "the process it says it is is not there"), 1, "%s", low.lines);
}

Test(net_link_refused, repeated_words)
{
    puppet p;
    uint8_t first[512];

    const fry_hello_greeting greeting = greeting_from(5, 20, &low);
    puppet_call(&p, &low, &greeting);
    const size_t size = p.hello.out_bytes;
    memcpy(first, p.hello.out, size);
    puppet_close(&p);
    p.fd = rig_dial(&low);
    cr_assert_eq(send(p.fd, first, size, 0), (ssize_t)size);
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 1, "greeted, and nothing more");
    cr_assert_eq(low.link->state, FRY_LINK_IDLE);
    cr_assert_eq(send(p.fd, first, 100, 0), 100);
    rig_rest();
    puppet_close(&p);
    assert_refused("a message of a length that can't be");
}

/* ---- many ---- */

Test(net_link_refused, a_million_bytes_of_garbage)
{
    uint8_t bytes[2000];
    size_t sent = 0;

    while (sent < 1000000) {
        int fds[20];
        for (size_t i = 0; i < 20; i++) {
            fds[i] = rig_dial(&low);
            randombytes_buf(bytes, sizeof(bytes));
            /* Some get as far as they can. */
            if (i % 3 == 1)
                memcpy(bytes, "ferry~\0\2", 8);
            if (i % 3 == 2)
                memcpy(bytes, "ferry~\0\2\0\210", 10);
            const ssize_t count = send(fds[i], bytes, sizeof(bytes), MSG_NOSIGNAL);
            cr_assert_gt(count, 0);
            sent += (size_t)count;
        }
        rig_rest();
        for (size_t i = 0; i < 20; i++)
            close(fds[i]);
        rig_step_ns(INT64_C(100000000));
    }
    cr_assert_leq(rig_logged(&low, "\n"), 4, "%s", low.lines);
    assert_unharmed();
}

/* More than there is room for: the oldest go, and a member still comes through. */
Test(net_link_refused, many_who_say_nothing)
{
    static int fds[3 * FRY_LINK_STRANGERS_MAX];
    const size_t count = sizeof(fds) / sizeof(fds[0]);

    for (size_t i = 0; i < count; i++) {
        fds[i] = rig_dial(&low);
        rig_rest();
        cr_assert_leq(low.links->stranger_count, FRY_LINK_STRANGERS_MAX);
    }
    cr_assert_eq(low.links->stranger_count, FRY_LINK_STRANGERS_MAX);
    fry_link_want(high.link, 0);
    RIG_UNTIL(low.channel != NULL && high.channel != NULL);
    cr_assert_lt(rig_logged(&low, "\n"), 3, "%s", low.lines);
    rig_step_ns(FRY_LINK_HELLO_NS);
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 0);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* Those who know the secret and wait for the store's news stay; the silent ones make room. */
Test(net_link_refused, who_waits_keeps_its_place)
{
    static int fds[2 * FRY_LINK_STRANGERS_MAX];
    const size_t count = sizeof(fds) / sizeof(fds[0]);

    rig_open(&other, 7, 30, &rig_usual);
    rig_meet(&other, &low);
    fry_link_want(other.link, 0);
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 1);
    for (size_t i = 0; i < count; i++) {
        fds[i] = rig_dial(&low);
        rig_rest();
    }
    fry_link_remove(low.link);
    rig_meet(&low, &other);
    RIG_UNTIL(low.channel != NULL && other.channel != NULL);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

Test(net_link_refused, no_descriptors)
{
    static int fds[4096];
    size_t count = 0;
    struct rlimit limit;

    const int fd = rig_dial(&low); /* it waits in the kernel */
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 200;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < 4096 && (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    cr_assert_eq(errno, EMFILE);
    (void)rig_turn();
    (void)rig_turn();
    cr_assert_eq(rig_logged(&low, "hellos can't be answered now"), 1, "%s", low.lines);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(rig_turn(), 0, "it rests");
    rig_step_ns(INT64_C(100000000));
    (void)rig_turn();
    (void)rig_turn();
    /* And calls that can't be made are made later. */
    fry_link_want(low.link, 0);
    rig_rest();
    cr_assert_eq(low.failed, 0);
    cr_assert_eq(low.link->state, FRY_LINK_WAITING);
    while (count > 0)
        close(fds[--count]);
    rig_step_ns(INT64_C(100000000));
    RIG_UNTIL(low.channel != NULL && high.channel != NULL);
    rig_rest();
    cr_assert_eq(low.links->stranger_count, 1);
    close(fd);
}

/* ---- a member that goes at any moment ---- */

/* How much a caller says in all; the connection ends with it. */
static size_t say_all(void)
{
    puppet p;
    const fry_hello_greeting greeting = greeting_from(5, 20, &low);

    puppet_call(&p, &low, &greeting);
    PUPPET_UNTIL(&p, p.is_done && low.channel != NULL);
    const size_t size = p.sent;
    puppet_close(&p);
    RIG_UNTIL(low.ended == 1);
    cr_assert_eq(low.fault.status, FERRY_E_PEER);
    rig_end_connection(&low);
    low.ended = low.connected = low.opened = 0;
    return size;
}

Test(net_link_refused, a_caller_that_goes_after_each_byte)
{
    puppet p;

    const size_t size = say_all();
    for (size_t limit = 1; limit <= size; limit++) {
        const fry_hello_greeting greeting = greeting_from(5, 20, &low);
        puppet_call(&p, &low, &greeting);
        p.limit = limit;
        PUPPET_UNTIL(&p, p.fd < 0);
        rig_rest();
        rig_step_ns(INT64_C(200000000));
        rig_rest();
        cr_assert_eq(low.links->stranger_count, 0);
        cr_assert_eq(low.connected, limit == size);
        if (low.channel != NULL)
            rig_end_connection(&low);
        cr_assert_eq(low.open_channels, 0);
        cr_assert_eq(low.open_connections, 0);
    }
    low.ended = low.connected = low.opened = 0;
    assert_unharmed();
}

Test(net_link_refused, an_answerer_that_goes_after_each_byte)
{
    static rig_member named;
    puppet p;
    fry_link_endpoint endpoint = {.place.v4 = {.sin_family = AF_INET}};
    socklen_t size = sizeof(endpoint.place.v4);

    endpoint.place.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(port, &endpoint.place.any, size), 0);
    cr_assert_eq(listen(port, 10), 0);
    cr_assert_eq(getsockname(port, &endpoint.place.any, &size), 0);
    named = high;
    fry_machine_identify(endpoint.host);
    fry_link_write_endpoint(&endpoint, named.endpoint);
    fry_link_remove(low.link);
    rig_meet(&low, &named);
    for (size_t limit = 1; low.connected == 0; limit++) {
        memset(&p, 0, sizeof(p));
        p.own = usual_offer(5, 20);
        cr_assert_eq(fry_hello_key(p.psk, rig_usual.secret, strlen(rig_usual.secret)), FERRY_OK);
        fry_hello_await(&p.hello, p.psk);
        p.limit = limit;
        const int failed = low.failed;
        fry_link_want(low.link, rig_now_ns() + 1000000);
        while ((p.fd = accept4(port, NULL, NULL, SOCK_CLOEXEC)) < 0)
            (void)rig_turn();
        PUPPET_UNTIL(&p, p.fd < 0);
        rig_rest();
        rig_step_ns(INT64_C(10000000));
        RIG_UNTIL(low.failed > failed || low.connected > 0);
        cr_assert_eq(low.open_channels, low.connected);
        cr_assert_lt(limit, 2000);
    }
    rig_step_ns(INT64_C(200000000));
    RIG_UNTIL(low.ended == 1);
    close(port);
}

/* One of the two has a connection that the other has not, and nobody said so. */
Test(net_link_refused, half_a_connection)
{
    puppet old, new;
    char byte;

    const fry_hello_greeting greeting = greeting_from(5, 20, &low);
    puppet_call(&old, &low, &greeting);
    PUPPET_UNTIL(&old, old.is_done && low.channel != NULL);
    rig_rest();
    /* It never was ready, as it thinks: no connections yet. Refused, and asked over the old line.
     */
    puppet_call(&new, &low, &greeting);
    PUPPET_UNTIL(&new, new.is_closed);
    cr_assert_eq(new.hello.reason, FRY_HELLO_HAS_CONNECTION);
    cr_assert_eq(low.ended, 0);
    puppet_close(&new);
    cr_assert_gt(recv(old.fd, &byte, 1, MSG_DONTWAIT), 0, "is there still somebody?");
    /* It has had the connection that stands here, and ended it. */
    puppet_call(&new, &low, &greeting);
    new.own.connections = 1;
    PUPPET_UNTIL(&new, low.ended == 1);
    cr_assert_not(new.is_done);
    rig_end_connection(&low);
    PUPPET_UNTIL(&new, new.is_done &&low.channel != NULL);
    cr_assert_eq(low.connected, 2);
    puppet_close(&new);
    puppet_close(&old);
}

/* All who are there know the secret: a caller waits in the kernel for a second, then the oldest
 * goes. */
Test(net_link_refused, many_who_know_the_secret)
{
    static puppet many[FRY_LINK_STRANGERS_MAX];

    for (uint32_t i = 0; i < FRY_LINK_STRANGERS_MAX; i++) {
        const fry_hello_greeting greeting = greeting_from(100 + i, 1, &low);
        puppet_call(&many[i], &low, &greeting);
        PUPPET_UNTIL(&many[i], many[i].is_offered);
        puppet_turn(&many[i]);
        rig_rest();
    }
    cr_assert_eq(low.links->stranger_count, FRY_LINK_STRANGERS_MAX);
    fry_link_want(high.link, 0);
    for (int i = 0; i < 90; i++) {
        rig_rest();
        rig_step_ns(INT64_C(10000000));
    }
    rig_rest();
    cr_assert_null(low.channel);
    cr_assert_eq(low.lines_length, 0, "%s", low.lines);
    for (int i = 0; i < 20; i++) {
        rig_step_ns(INT64_C(10000000));
        rig_rest();
    }
    cr_assert_not_null(low.channel);
    cr_assert_not_null(high.channel);
    puppet_turn(&many[0]);
    cr_assert(many[0].is_closed, "the oldest");
    cr_assert_eq(many[0].hello.reason, FRY_HELLO_TOO_MANY);
    puppet_turn(&many[FRY_LINK_STRANGERS_MAX - 1]);
    cr_assert_not(many[FRY_LINK_STRANGERS_MAX - 1].is_closed);
    for (uint32_t i = 0; i < FRY_LINK_STRANGERS_MAX; i++)
        puppet_close(&many[i]);
}
