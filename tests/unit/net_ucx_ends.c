/* SPDX-License-Identifier: Apache-2.0 */
/* How channels over UCX end, and what they leave alone: memory, descriptors, signals, files. */
#include "net/ucx/channel.h"
#include "net/ucx/ucx.h"
#include "tests/support/no_reading.h"
#include "tests/support/owned.h"
#include "tests/support/place.h"
#include "tests/unit/ucx_pair.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <linux/if.h>

#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

TestSuite(net_ucx_ends, .timeout = 50);

#define LARGE_BYTES ((size_t)64 << 20)

/* ---- destroyed while it is at a memory ---- */

static void send_large(end *end, void *arg)
{
    open_way(end, arg);
    unsigned char *data = make_data(LARGE_BYTES, 5);
    note note = {1, 5, LARGE_BYTES};
    EXPECT(end_post(end, &note, data, true) == FRY_POST_BEGUN);
    meet_at_work(end);
    end_close(end);
    free(data);
}

static void destroy_in_flight(const way *way)
{
    end end;
    split(&end, send_large, (void *)(uintptr_t)way);
    open_way(&end, way);
    unsigned char *data = make_data(LARGE_BYTES, 9);
    WAIT_UNTIL(&end, end.held_count == 1);
    const unsigned char before = data[4096];
    end_pull(&end, end.held[0].token, data, LARGE_BYTES);
    /* Far enough for bytes to have come, and not all of them. */
    while (data[4096] == before && end.pulled == 0)
        (void)end.channel->ops->progress(end.channel);
    cr_assert_eq(end.pulled, 0, "it was too quick to be caught");
    /* Its own end as a sender is in flight as well. */
    unsigned char *more = make_data(LARGE_BYTES, 6);
    note note = {2, 6, LARGE_BYTES};
    cr_assert_eq(end_post(&end, &note, more, true), FRY_POST_BEGUN);
    end_destroy(&end);
    cr_assert_eq(end.pulled + end.pulled_badly, 0, "destroy calls nobody");
    cr_assert_eq(end.done + end.done_badly, 0);

    memset(data, 0xa5, LARGE_BYTES);
    meet(&end); /* the sender did all it ever would */
    for (size_t i = 0; i < LARGE_BYTES; i++)
        if (data[i] != 0xa5)
            cr_assert_fail("byte %zu was written after destroy", i);
    cr_assert(join(&end));
    end_close(&end);
    free(more);
    free(data);
}

Test(net_ucx_ends, destroyed_in_flight_over_shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    destroy_in_flight(SHARED_WAY);
}

Test(net_ucx_ends, destroyed_in_flight_over_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    destroy_in_flight(NET_WAY);
}

/* ---- the other process ends, or stops ---- */

/* Sends and pulls for ever. */
static void be_busy(end *end, void *arg)
{
    open_way(end, arg);
    static unsigned char data[1 << 20];
    static unsigned char into[1 << 20];
    end->pulls = true;
    end->into = into;
    for (uint64_t posted = 0;;) {
        note note = {posted, posted, sizeof data};
        if (posted < end->done + 4 && end_post(end, &note, data, true) != FRY_POST_FAILED)
            posted++;
        (void)end->channel->ops->progress(end->channel);
    }
}

typedef enum fate { KILLED, STOPPED } fate;

/* Busy both ways, and then the other one is no more; or is, and does nothing. */
static void outlive(const way *way, fate fate)
{
    end end;
    split(&end, be_busy, (void *)(uintptr_t)way);
    open_way(&end, way);
    unsigned char *data = make_data(1 << 20, 1);
    unsigned char *into = make_data(1 << 20, 2);
    end.pulls = true;
    end.into = into;
    uint64_t posted = 0;
    while (end.pulled < 100 || end.done < 100) {
        note note = {posted, 1, 1 << 20};
        if (posted < end.done + 4) {
            cr_assert(end_post(&end, &note, data, true) != FRY_POST_FAILED);
            posted++;
        }
        (void)end.channel->ops->progress(end.channel);
    }
    if (fate == KILLED)
        kill_other(&end);
    else
        cr_assert_eq(kill(end.pid, SIGSTOP), 0);
    for (int i = 0; i < 8; i++) {
        note note = {posted, 1, 1 << 20};
        (void)end_post(&end, &note, data, true);
        note.size_bytes = 100;
        (void)end_post(&end, &note, data, false);
        (void)end.channel->ops->progress(end.channel);
    }
    if (fate == KILLED && way->path == FRY_PATH_NET) {
        while (end.failed == 0)
            EXPECT(end_turn(&end, -1));
        cr_assert_str_eq(end.fault.domain, "ucx");
    }
    end_destroy(&end);
    memset(into, 0xa5, 1 << 20);
    if (fate == STOPPED) {
        cr_assert_eq(kill(end.pid, SIGCONT), 0);
        kill_other(&end);
    }
    for (size_t i = 0; i < 1 << 20; i++)
        if (into[i] != 0xa5)
            cr_assert_fail("byte %zu was written after destroy", i);
    end_close(&end);
    free(data);
    free(into);
}

Test(net_ucx_ends, peer_killed_on_shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    outlive(SHARED_WAY, KILLED);
}

Test(net_ucx_ends, peer_killed_on_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    outlive(NET_WAY, KILLED);
}

Test(net_ucx_ends, peer_stopped_on_shared_memory)
{
    PLACE_NEEDS(place_lacks_this_host);
    outlive(SHARED_WAY, STOPPED);
}

Test(net_ucx_ends, peer_stopped_on_tcp)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    outlive(NET_WAY, STOPPED);
}

#define FLOOD 500
#define DOZES 100

typedef struct sleeper {
    end *end;
    pthread_mutex_t baton;
    bool is_done; /* atomic */
} sleeper;

static void *sleep_often(void *arg)
{
    sleeper *sleeper = arg;
    fry_channel *channel = sleeper->end->channel;
    for (int i = 0; i < DOZES; i++) {
        (void)pthread_mutex_lock(&sleeper->baton);
        fry_arming arming = FRY_ARMING_BUSY;
        while ((arming = channel->ops->arm(channel)) == FRY_ARMING_BUSY)
            (void)channel->ops->progress(channel);
        EXPECT(arming == FRY_ARMING_STUCK);
        (void)pthread_mutex_unlock(&sleeper->baton);
        (void)poll(NULL, 0, 1);
    }
    __atomic_store_n(&sleeper->is_done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* As the engine's loop sleeps, a moment at a time, while another thread looks. */
static void doze_among_lookers(end *end)
{
    sleeper sleeper = {.end = end, .baton = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, sleep_often, &sleeper) == 0);
    while (!__atomic_load_n(&sleeper.is_done, __ATOMIC_ACQUIRE)) {
        (void)pthread_mutex_lock(&sleeper.baton);
        (void)end->channel->ops->progress(end->channel);
        (void)pthread_mutex_unlock(&sleeper.baton);
    }
    (void)pthread_join(thread, NULL);
}

static void take_all(end *end, void *arg)
{
    open_way(end, SHARED_WAY);
    end->drops = true; /* what is offered */
    WAIT_UNTIL(end, end->arrived == 1);
    EXPECT(end_post(end, &end->last, arg, false) != FRY_POST_FAILED);
    meet(end);
    WAIT_UNTIL(end, end->arrived == 1 + FLOOD + 1);
    meet(end);
    end_close(end);
}

/* Whose queue is full, and who takes nothing: there is no progress, and no need to try all the
 * time. Nor does who sleeps do so for ever. */
Test(net_ucx_ends, stopped_peer_costs_no_core)
{
    PLACE_NEEDS(place_lacks_this_host);
    static unsigned char data[100];
    paint(data, sizeof data, 7);
    end end;
    split(&end, take_all, data);
    open_way(&end, SHARED_WAY);
    note first = {0, 7, sizeof data};
    cr_assert(end_post(&end, &first, data, false) != FRY_POST_FAILED);
    WAIT_UNTIL(&end, end.done == 1 && end.arrived == 1);
    meet(&end);
    cr_assert_eq(kill(end.pid, SIGSTOP), 0);
    for (uint64_t i = 0; i < FLOOD; i++) {
        note note = {i, 7, sizeof data};
        cr_assert(end_post(&end, &note, data, false) != FRY_POST_FAILED);
    }
    /* What is offered waits behind them, and says so: nothing but progress here will send it. */
    note offer = {FLOOD, 7, sizeof data};
    cr_assert_eq(end.channel->leaving, 0);
    cr_assert_eq(end_post(&end, &offer, data, true), FRY_POST_BEGUN);
    cr_assert_eq(end.channel->leaving, 1);
    doze_among_lookers(&end);
    cr_assert(end.done < FLOOD);
    cr_assert_eq(kill(end.pid, SIGCONT), 0);
    WAIT_UNTIL(&end, end.done == 1 + FLOOD + 1);
    cr_assert_eq(end.channel->leaving, 0);
    meet(&end);
    end_close(&end);
    cr_assert(join(&end));
}

/* ---- the network goes ---- */

/* A network of this process's and its children's own, with a loopback; false: not allowed. */
static bool have_own_network(void)
{
    return unshare(CLONE_NEWNET) == 0;
}

static void set_loopback(bool is_up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT(any >= 0 && ioctl(any, SIOCGIFFLAGS, &request) == 0);
    request.ifr_flags = (short)(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    EXPECT(ioctl(any, SIOCSIFFLAGS, &request) == 0);
    (void)close(any);
}

static void answer_until_it_fails(end *end, void *arg)
{
    end->keepalive_ns = *(const int64_t *)arg;
    open_way(end, NET_WAY);
    static unsigned char into[100000];
    end->pulls = true;
    end->into = into;
    while (end->failed == 0)
        EXPECT(end_turn(end, -1));
    end_close(end);
}

/* Both ends are told, whether something was under way or not. */
static void cut_network(int64_t keepalive_ns, bool is_at_work)
{
    if (!have_own_network())
        cr_skip_test("a network namespace takes root");
    set_loopback(true);
    end end;
    split(&end, answer_until_it_fails, &keepalive_ns);
    end.keepalive_ns = keepalive_ns;
    open_way(&end, NET_WAY);
    static unsigned char data[100000];
    note note = {1, 1, sizeof data};
    cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    WAIT_UNTIL(&end, end.done == 1);
    (void)end_turn(&end, 0);
    set_loopback(false);
    if (is_at_work)
        (void)end_post(&end, &note, data, true);
    while (end.failed == 0)
        EXPECT(end_turn(&end, -1));
    cr_assert(!is_at_work || strstr(end.fault.message, "the network") != NULL, "%s",
              end.fault.message);
    end_close(&end);
    if (is_at_work)
        kill_other(&end); /* it is silent, and has time */
    else
        cr_assert(join(&end));
}

Test(net_ucx_ends, network_cut_at_work)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    cut_network(500000000, true);
}

Test(net_ucx_ends, network_cut_in_silence)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    cut_network(1, false);
}

/* A cut that ends in time is nothing. */
Test(net_ucx_ends, network_cut_and_mended)
{
    PLACE_NEEDS(place_lacks_ucx_tcp);
    if (!have_own_network())
        cr_skip_test("a network namespace takes root");
    set_loopback(true);
    end end;
    int64_t keepalive_ns = INT64_C(20000000000);
    split(&end, answer_until_it_fails, &keepalive_ns);
    end.keepalive_ns = keepalive_ns;
    open_way(&end, NET_WAY);
    static unsigned char data[100000];
    note note = {1, 1, sizeof data};
    cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    WAIT_UNTIL(&end, end.done == 1);
    set_loopback(false);
    cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    for (int i = 0; i < 100; i++)
        (void)end.channel->ops->progress(end.channel);
    set_loopback(true);
    WAIT_UNTIL(&end, end.done == 2);
    end_close(&end);
    cr_assert(join(&end));
}

/* A connection to who does not answer holds nobody up, and can be destroyed. */
Test(net_ucx_ends, nobody_is_there)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    for (int i = 0; i < 2; i++) {
        const way *way = i == 0 ? SHARED_WAY : NET_WAY;
        end end;
        memset(&end, 0, sizeof end);
        int sockets[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
        end.socket = sockets[0];
        end_open(&end, way->net_devices);
        /* The address of a channel that is gone. */
        char address[FRY_ADDRESS_BYTES_MAX];
        size_t address_bytes;
        fry_fault fault;
        fry_channel *gone;
        cr_assert_eq(fry_ucx_channel_open(end.ucx, way->path, &end_events, &end, &gone, address,
                                          &address_bytes, &fault),
                     FERRY_OK);
        gone->ops->destroy(gone);
        char mine[FRY_ADDRESS_BYTES_MAX];
        cr_assert_eq(fry_ucx_channel_open(end.ucx, way->path, &end_events, &end, &end.channel, mine,
                                          &address_bytes, &fault),
                     FERRY_OK);
        if (fry_ucx_channel_connect(end.channel, address, address_bytes, &fault) == FERRY_OK) {
            static unsigned char data[100000];
            note note = {1, 1, sizeof data};
            (void)end_post(&end, &note, data, true);
            if (way->path == FRY_PATH_NET)
                while (end.failed == 0)
                    EXPECT(end_turn(&end, -1));
        } else {
            cr_assert_str_eq(fault.domain, "ucx");
        }
        end_close(&end);
        (void)close(sockets[0]);
        (void)close(sockets[1]);
    }
}

/* ---- several at once, to oneself, and after a fork ---- */

/* Both ends of a channel in one process. */
static void open_self(end *end, fry_channel_path path)
{
    char address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;
    fry_fault fault;
    EXPECT(fry_ucx_channel_open(end->ucx, path, &end_events, end, &end->channel, address,
                                &address_bytes, &fault) == FERRY_OK);
    EXPECT(fry_ucx_channel_connect(end->channel, address, address_bytes, &fault) == FERRY_OK);
}

static void talk_to_self(end *end)
{
    static unsigned char data[100000];
    static unsigned char into[100000];
    end->pulls = true;
    end->into = into;
    uint64_t arrived = end->arrived;
    uint64_t done = end->done;
    uint64_t pulled = end->pulled;
    for (uint64_t i = 0; i < 20; i++) {
        note note = {i, 3, i % 2 == 0 ? 100000 : i * 10};
        paint(data, note.size_bytes, note.seed);
        EXPECT(end_post(end, &note, data, i % 2 == 0) != FRY_POST_FAILED);
        WAIT_UNTIL(end, end->arrived == arrived + i + 1 && end->done == done + i + 1 &&
                            end->pulled == pulled + i / 2 + 1);
        EXPECT(i % 2 != 0 || is_painted(into, note.size_bytes, note.seed));
    }
}

Test(net_ucx_ends, several_channels_to_oneself)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    enum { UCXS = 2, CHANNELS = 3 };
    static end ends[UCXS][CHANNELS];
    for (int u = 0; u < UCXS; u++) {
        end_open(&ends[u][0], "lo");
        for (int c = 0; c < CHANNELS; c++) {
            ends[u][c].ucx = ends[u][0].ucx;
            open_self(&ends[u][c], c == 0   ? FRY_PATH_SELF
                                   : c == 1 ? FRY_PATH_SHARED
                                            : FRY_PATH_NET);
        }
    }
    for (int round = 0; round < 3; round++)
        for (int c = 0; c < CHANNELS; c++)
            for (int u = 0; u < UCXS; u++)
                talk_to_self(&ends[u][c]);
    /* One's end is not another's. */
    end_destroy(&ends[0][1]);
    talk_to_self(&ends[0][0]);
    talk_to_self(&ends[1][1]);
    for (int u = 0; u < UCXS; u++) {
        for (int c = CHANNELS; c-- > 1;)
            end_destroy(&ends[u][c]);
        end_close(&ends[u][0]);
    }
}

Test(net_ucx_ends, a_child_touches_nothing)
{
    PLACE_NEEDS(place_lacks_this_host);
    end end;
    memset(&end, 0, sizeof end);
    end_open(&end, "lo");
    open_self(&end, FRY_PATH_SHARED);
    talk_to_self(&end);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        end_close(&end);
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    talk_to_self(&end);
    end_close(&end);
}

/* Whatever a thread of the parent's held of UCX is held in the child for ever. */
Test(net_ucx_ends, a_child_has_no_ucx_of_its_own)
{
    end end = {0};
    int status = -1;
    end_open(&end, NULL);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        fry_ucx_options options = {.memory = &end.memory, .log = &end.log};
        const char *why = NULL;
        fry_ucx *ucx = NULL;
        ferry_status found = fry_ucx_open(&options, &ucx, &why);
        _exit(found == FERRY_E_UNSUPPORTED && strstr(why, "fork") != NULL ? 0 : 1);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fry_ucx_close(end.ucx);
}

/* ---- what is there, and what is left ---- */

#define DESCRIPTION_BYTES 64

/* "posix": the transports of the endpoint's lanes, as UCX prints them; and "cma", if large
 * messages are read out of the other's memory. */
static void describe(const end *end, char description[DESCRIPTION_BYTES])
{
    const fry_ucx_channel *channel = (const fry_ucx_channel *)end->channel;
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(library);
    void *symbol = dlsym(library, "ucp_ep_print_info");
    __typeof__(&ucp_ep_print_info) print_info;
    memcpy(&print_info, &symbol, sizeof print_info);
    char *text = NULL;
    size_t text_bytes = 0, length = 0;
    FILE *stream = open_memstream(&text, &text_bytes);
    cr_assert_not_null(stream);
    print_info(channel->endpoint, stream);
    (void)fclose(stream);
    (void)dlclose(library);
    description[0] = '\0';
    /* A line: "#                 lane[0]:  1:posix/memory md[1]   ..." */
    for (const char *at = text; (at = strstr(at, " lane[")) != NULL;) {
        at += strlen(" lane[");
        const char *name = strchr(at, ':');
        name = name != NULL ? strchr(name + 1, ':') : NULL;
        cr_assert_not_null(name);
        char word[DESCRIPTION_BYTES];
        (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(name + 1, "/ \n"), name + 1);
        if (strstr(description, word) == NULL)
            length += (size_t)snprintf(description + length, DESCRIPTION_BYTES - length, "%s%s",
                                       length > 0 ? ", " : "", word);
        cr_assert_lt(length, DESCRIPTION_BYTES - sizeof ", cma");
    }
    free(text);
    if (channel->reads_other)
        (void)strcat(description, ", cma");
}

static bool maps_have(const char *word)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps != NULL);
    char line[512];
    bool found = false;
    while (fgets(line, sizeof line, maps) != NULL)
        found |= strstr(line, word) != NULL;
    (void)fclose(maps);
    return found;
}

Test(net_ucx_ends, shared_memory_it_is)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    OWNED(end_close) end end;
    memset(&end, 0, sizeof end);
    end_open(&end, "lo");
    open_self(&end, FRY_PATH_SHARED);
    char text[DESCRIPTION_BYTES];
    describe(&end, text);
    cr_assert(strstr(text, "posix") != NULL || strstr(text, "sysv") != NULL, "%s", text);
    cr_assert_null(strstr(text, "tcp"));
    cr_assert(maps_have("ucx_shm_posix") || maps_have("SYSV"));
    end_destroy(&end);
    open_self(&end, FRY_PATH_NET);
    describe(&end, text);
    cr_assert_not_null(strstr(text, "tcp"), "%s", text);
    cr_assert_null(strstr(text, "posix"));
}

/* ---- where one process may not read another's memory ---- */

static void pull_messages(end *end, void *arg)
{
    EXPECT(forbid_reading());
    open_way(end, arg);
    WAIT_UNTIL(end, end->held_count == 1);
    unsigned char *data = make_data(LARGE_BYTES, 9);
    end_pull(end, end->held[0].token, data, LARGE_BYTES);
    WAIT_UNTIL(end, end->pulled == 1);
    EXPECT(is_painted(data, LARGE_BYTES, 4));
    meet(end);
    free(data);
    end_close(end);
}

Test(net_ucx_ends, without_reading_bytes_come_as_messages)
{
    PLACE_NEEDS(place_lacks_this_host);
    end end;
    split(&end, pull_messages, (void *)(uintptr_t)SHARED_WAY);
    EXPECT(forbid_reading());
    open_way(&end, SHARED_WAY);
    char text[DESCRIPTION_BYTES];
    describe(&end, text);
    cr_assert_str_eq(text, "posix");
    unsigned char *data = make_data(LARGE_BYTES, 4);
    note note = {1, 4, LARGE_BYTES};
    cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    WAIT_UNTIL(&end, end.done == 1);
    meet(&end);
    end_close(&end);
    free(data);
    cr_assert(join(&end));
}

/* Destroyed while the sender has to do its part, and does not. */
static void pull_and_leave(end *end, void *arg)
{
    EXPECT(forbid_reading());
    open_way(end, arg);
    WAIT_UNTIL(end, end->held_count == 1);
    meet(end);
    unsigned char *data = make_data(LARGE_BYTES, 9);
    end_pull(end, end->held[0].token, data, LARGE_BYTES);
    for (int i = 0; i < 100; i++)
        (void)end->channel->ops->progress(end->channel);
    EXPECT(end->pulled == 0);
    end_close(end);
    free(data);
}

Test(net_ucx_ends, without_reading_destroy_waits_for_nobody)
{
    PLACE_NEEDS(place_lacks_this_host);
    end end;
    split(&end, pull_and_leave, (void *)(uintptr_t)SHARED_WAY);
    EXPECT(forbid_reading());
    open_way(&end, SHARED_WAY);
    unsigned char *data = make_data(LARGE_BYTES, 4);
    note note = {1, 4, LARGE_BYTES};
    cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    meet_at_work(&end);
    cr_assert(join(&end));
    end_close(&end);
    free(data);
}

/* ---- what the program keeps ---- */

/* UCX takes signals, a stack for them, rewrites the C library where memory is mapped, and prints to
 * stdout; none of it is to be seen. */
Test(net_ucx_ends, the_program_keeps_its_signals)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    static char stack_memory[1 << 16];
    const stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    cr_assert_eq(sigaltstack(&stack, NULL), 0);
    enum { CODES = 4, CODE_BYTES = 16 };
    const uintptr_t codes[CODES] = {(uintptr_t)mmap, (uintptr_t)munmap, (uintptr_t)madvise,
                                    (uintptr_t)sbrk};
    unsigned char code[CODES][CODE_BYTES];
    for (size_t i = 0; i < CODES; i++)
        memcpy(code[i], (const void *)codes[i], CODE_BYTES);
    struct sigaction before[_NSIG];
    memset(before, 0, sizeof before);
    for (int number = 1; number < _NSIG; number++)
        (void)sigaction(number, NULL, &before[number]);
    sigset_t mask_before;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask_before);
    (void)fflush(stdout);
    int screen = dup(STDOUT_FILENO);
    int sheet = memfd_create("stdout", 0);
    cr_assert(screen >= 0 && sheet >= 0 && dup2(sheet, STDOUT_FILENO) >= 0);

    end end;
    memset(&end, 0, sizeof end);
    end_open(&end, "lo");
    for (int i = 0; i < 2; i++) {
        open_self(&end, i == 0 ? FRY_PATH_SHARED : FRY_PATH_NET);
        static unsigned char data[100000];
        note note = {1, 1, sizeof data};
        cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
        WAIT_UNTIL(&end, end.held_count == 1);
        end_destroy(&end); /* with it in flight, of which UCX would warn */
        end.held_count = 0;
    }

    for (int number = 1; number < _NSIG; number++) {
        struct sigaction after;
        if (sigaction(number, NULL, &after) != 0)
            continue;
        cr_assert_eq(after.sa_handler, before[number].sa_handler, "signal %d", number);
        const int flags = ~0x04000000; /* but SA_RESTORER, the C library's own */
        cr_assert_eq(after.sa_flags & flags, before[number].sa_flags & flags, "signal %d", number);
    }
    stack_t stack_after;
    cr_assert_eq(sigaltstack(NULL, &stack_after), 0);
    cr_assert_eq(stack_after.ss_sp, stack.ss_sp);
    sigset_t mask_after;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask_after);
    /* The kernel fills in one word of each; the rest is whatever was there. */
    for (int number = 1; number < _NSIG; number++)
        cr_assert_eq(sigismember(&mask_after, number), sigismember(&mask_before, number));
    end_close(&end);
    (void)fflush(stdout);
    off_t printed = lseek(sheet, 0, SEEK_END);
    (void)dup2(screen, STDOUT_FILENO);
    cr_assert_eq(printed, 0, "%lld bytes were printed", (long long)printed);
    for (size_t i = 0; i < CODES; i++)
        cr_assert_eq(memcmp(code[i], (const void *)codes[i], CODE_BYTES), 0, "%zu", i);
}

static size_t count_entries(const char *folder)
{
    DIR *entries = opendir(folder);
    EXPECT(entries != NULL);
    size_t count = 0;
    while (readdir(entries) != NULL)
        count++;
    (void)closedir(entries);
    return count;
}

Test(net_ucx_ends, descriptors_are_given_back)
{
    PLACE_NEEDS(place_lacks_this_host);
    PLACE_NEEDS(place_lacks_ucx_tcp);
    OWNED(end_close) end end;
    memset(&end, 0, sizeof end);
    end_open(&end, "lo");
    size_t before = 0;
    for (int round = 0; round < 100; round++) {
        if (round == 10)
            before = count_entries("/proc/self/fd");
        open_self(&end, round % 2 == 0 ? FRY_PATH_SHARED : FRY_PATH_NET);
        if (round % 4 < 2)
            talk_to_self(&end);
        end_destroy(&end);
    }
    cr_assert_eq(count_entries("/proc/self/fd"), before);
}
