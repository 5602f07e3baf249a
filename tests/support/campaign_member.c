/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of a campaign: one thread that turns every millisecond or so, waits for nothing, and
 * does what it is told in lines "do WHAT NUMBER":
 *
 *   go          submits messages, asks the group things
 *   calm N      ends all of that; says "calm N" when all is over and the engine's dump is empty
 *   probe N     one message of each size to and from each other; says "probed N failed=M"
 *   view N      says "view N" and the state and incarnation of each member
 *   figures N   says "figures N" and what the process holds
 *   alive N     asks who lives; says "alive N STATUS ROUND RANKS"
 *   meet N      the same amid all else, and a barrier: "alive N ...", "met N STATUS"
 *   rejoin      leaves the group and joins it anew
 *   end         leaves, shuts down, exits
 *
 * Who loses its place joins anew by itself.
 */
#include "tests/support/campaign.h"
#include "tests/support/campaign_loose.h"
#include "tests/support/campaign_traffic.h"
#include "tests/support/net_self.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MILLISECOND_NS INT64_C(1000000)
#define SECOND_NS (1000 * MILLISECOND_NS)
#define TURN_NS (20 * MILLISECOND_NS) /* a turn that took longer did not run all of it */
#define ASKS 24
#define BARRIERS 4 /* of so many meetings one has a barrier: the last 512 names are remembered */
#define ASK_NS (2 * SECOND_NS)
#define CALM_ASK_NS (20 * SECOND_NS)
#define ASK_LATE_NS (SECOND_NS + 150 * MILLISECOND_NS)
#define HANG_NS (10 * SECOND_NS) /* of the loop */
#define LIFE_NS (60 * SECOND_NS) /* of a join, a leave */
#define CALM_NS (30 * SECOND_NS)
#define PROBE_SHOWN_NS (10 * SECOND_NS)
#define SETTLE_NS (2 * SECOND_NS)
#define REST_NS (200 * MILLISECOND_NS) /* between a join that was refused and the next */

typedef enum life {
    LIFE_APART = 0, /* of no group */
    LIFE_JOINING,
    LIFE_HERE,
    LIFE_LEAVING, /* what is under way ends, then it joins anew */
} life;

typedef enum ask_kind {
    ASK_NONE = 0,
    ASK_SET,
    ASK_GET,
    ASK_WATCH,
    ASK_ALIVE,
    ASK_BARRIER
} ask_kind;

static const char *const ask_names[] = {"nothing", "set", "get", "watch", "alive", "barrier"};

typedef struct ask {
    ask_kind kind;
    uint64_t number; /* of who told it to; 0: nobody */
    ferry_future *future;
    int64_t deadline_ns;
    campaign_overdue late;
} ask;

typedef struct member {
    net_self self;
    int argc;
    char **argv;
    campaign_board *board;
    campaign_traffic *traffic;
    campaign_loose *loose;
    campaign_clock clock;
    uint64_t random;
    uint32_t rank, size;
    bool is_embedded;
    life life;
    campaign_overdue life_overdue;
    int64_t rest_until_run_ns;
    ferry_future *joining, *leaving;
    ask asks[ASKS];
    ferry_future *beat;
    _Atomic uint64_t beats;
    campaign_overdue beat_overdue;
    int64_t beat_run_ns, longest_stall_ns;
    bool is_calm, is_calm_told, is_probing, is_ending;
    bool is_probe_shown;
    uint64_t calm_number, probe_number;
    int64_t probe_ns;
    int64_t calm_run_ns, settle_run_ns;
    bool is_calm_late;
} member;

campaign_board *campaign_board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(campaign_board)) != 0)
        return NULL;
    void *memory = mmap(NULL, sizeof(campaign_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return memory != MAP_FAILED ? memory : NULL;
}

/* ---- what is wrong ---- */

static void write_dump(void *arg, const char *text, size_t size_bytes)
{
    (void)arg;
    (void)fwrite(text, 1, size_bytes, stderr);
}

static void show(member *member, const char *what)
{
    fprintf(stderr, "campaign: rank %u: %s; what it knows of:\n", (unsigned)member->rank, what);
    campaign_traffic_show(member->traffic);
    campaign_loose_show(member->loose);
    (void)ferry_engine_dump(member->self.engine, FERRY_DUMP_JSON, write_dump, NULL);
    fputc('\n', stderr);
}

static void note(member *member, campaign_count count)
{
    campaign_note(member->board, member->rank, count);
}

/* Once for each state of its life, or each beat. */
static void watch_hang(member *member, campaign_overdue *overdue, int64_t bound_ns,
                       const char *what)
{
    campaign_clock clock = member->clock;
    clock.beat_ns = clock.turn_ns; /* whether the loop runs or not */
    if (!campaign_is_overdue(overdue, &clock, bound_ns))
        return;
    note(member, CAMPAIGN_HANGS);
    show(member, what);
}

/* ---- time ---- */

static bool has_asks(const member *member)
{
    for (size_t i = 0; i < ASKS; i++) {
        if (member->asks[i].kind != ASK_NONE)
            return true;
    }
    return false;
}

static bool is_idle(const member *member)
{
    return !has_asks(member) && campaign_traffic_is_quiet(member->traffic) &&
           campaign_loose_is_quiet(member->loose);
}

static ferry_status beat(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
    return FERRY_OK;
}

static void keep_beating(member *member)
{
    if (member->beat != NULL && ferry_future_poll(member->beat) == FERRY_PENDING) {
        int64_t stall_ns = member->clock.run_ns - member->beat_run_ns;
        if (stall_ns > member->longest_stall_ns)
            member->longest_stall_ns = stall_ns;
        watch_hang(member, &member->beat_overdue, HANG_NS, "the loop stands still");
        return;
    }
    ferry_future_release(member->beat);
    member->beat = NULL;
    if (member->is_calm && !member->is_calm_told && is_idle(member))
        return; /* nothing is to be in the dump */
    member->beat_overdue = (campaign_overdue){0};
    member->beat_run_ns = member->clock.run_ns;
    member->beat =
        ferry_call(member->self.engine, ferry_executor_loop(), beat, &member->beats, NULL);
}

static void tick(member *member)
{
    int64_t now_ns = net_now_ns();
    int64_t took_ns = now_ns - member->clock.now_ns;
    member->clock.turn_ns = took_ns < TURN_NS ? took_ns : TURN_NS;
    member->clock.run_ns += member->clock.turn_ns;
    member->clock.now_ns = now_ns;
    uint64_t beats = atomic_load(&member->beats);
    member->clock.beat_ns = beats != member->clock.beats ? member->clock.turn_ns : 0;
    member->clock.beats = beats;
}

/* ---- asking the group ---- */

static ask *free_ask(member *member)
{
    for (size_t i = 0; i < ASKS; i++) {
        if (member->asks[i].kind == ASK_NONE)
            return &member->asks[i];
    }
    return NULL;
}

static void begin_ask(member *member, ask_kind kind, uint64_t number, int64_t from_now_ns)
{
    ask *ask = free_ask(member);
    if (ask == NULL)
        return;
    char key[32];
    *ask = (struct ask){
        .kind = kind, .number = number, .deadline_ns = member->clock.now_ns + from_now_ns};
    ferry_group *group = member->self.group;
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.deadline_ns = ask->deadline_ns;
    bool is_own = kind == ASK_SET;
    uint64_t of = is_own ? member->rank : campaign_random(&member->random, member->size);
    (void)snprintf(key, sizeof key, kind == ASK_BARRIER ? "b%llu" : "v/%llu",
                   (unsigned long long)(kind == ASK_BARRIER ? number : of));
    switch (kind) {
    case ASK_SET:
        ask->future =
            ferry_group_set(group, key, &member->clock, sizeof member->clock, ask->deadline_ns);
        break;
    case ASK_GET:
        ask->future = ferry_group_get(group, key, ask->deadline_ns);
        break;
    case ASK_WATCH:
        ask->future = ferry_group_watch(group, key, 1 + campaign_random(&member->random, 1000),
                                        ask->deadline_ns);
        break;
    case ASK_ALIVE:
        ask->future = ferry_group_alive(group, ask->deadline_ns);
        break;
    default:
        ask->future = ferry_barrier(group, key, &options);
        break;
    }
}

static void say_answer(const ask *ask, ferry_status status)
{
    char ranks[128] = "";
    ferry_value value = FERRY_VALUE_INIT;
    if (ask->number == 0 || (ask->kind != ASK_ALIVE && ask->kind != ASK_BARRIER))
        return;
    if (ask->kind == ASK_ALIVE && ferry_future_value(ask->future, &value) == FERRY_OK) {
        const ferry_rank *alive = value.data;
        size_t used = 0;
        for (size_t i = 0; i < value.size_bytes / sizeof *alive && used < sizeof ranks - 12; i++)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%u", i > 0 ? "," : "",
                                     (unsigned)alive[i]);
    }
    net_say("%s %llu %s %llu %s", ask->kind == ASK_ALIVE ? "alive" : "met",
            (unsigned long long)ask->number, ferry_status_name(status),
            (unsigned long long)value.version, ranks);
}

/* True: one said that this member lost its place. */
static bool look_at_asks(member *member)
{
    bool is_fenced = false;
    for (ask *ask = member->asks; ask < member->asks + ASKS; ask++) {
        if (ask->kind == ASK_NONE)
            continue;
        ferry_status status = ferry_future_poll(ask->future);
        if (status == FERRY_PENDING) {
            if (member->clock.now_ns > ask->deadline_ns &&
                campaign_is_overdue(&ask->late, &member->clock, ASK_LATE_NS)) {
                note(member, CAMPAIGN_LATE);
                fprintf(stderr, "campaign: rank %u: %s %llu is late\n", (unsigned)member->rank,
                        ask_names[ask->kind], (unsigned long long)ask->number);
            }
            continue;
        }
        note(member, CAMPAIGN_ASKED);
        is_fenced = is_fenced || status == FERRY_E_FENCED;
        say_answer(ask, status);
        ferry_future_release(ask->future);
        *ask = (struct ask){0};
    }
    return is_fenced;
}

/* But those for which others may wait: who cancels one of a series is ahead of them from then on.
 */
static void cancel_asks(member *member)
{
    for (size_t i = 0; i < ASKS; i++) {
        ask_kind kind = member->asks[i].kind;
        if (kind == ASK_SET || kind == ASK_GET || kind == ASK_WATCH)
            (void)ferry_future_cancel(member->asks[i].future);
    }
}

/* ---- what the process holds ---- */

static size_t entries_of(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        (void)closedir(folder);
    return count - 2;
}

static void say_figures(member *member, uint64_t number)
{
    long long rss = 0, anonymous = 0, file = 0, shared = 0;
    char line[256];
    size_t maps = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        (void)sscanf(line, "VmRSS: %lld", &rss);
        (void)sscanf(line, "RssAnon: %lld", &anonymous);
        (void)sscanf(line, "RssFile: %lld", &file);
        (void)sscanf(line, "RssShmem: %lld", &shared);
    }
    if (status != NULL)
        (void)fclose(status);
    /* Not those without access: guards, and what base/memory.c keeps under AddressSanitizer. */
    FILE *mapped = fopen("/proc/self/maps", "re");
    while (mapped != NULL && fgets(line, sizeof line, mapped) != NULL)
        maps += strchr(line, '\n') != NULL && strstr(line, " ---p ") == NULL;
    if (mapped != NULL)
        (void)fclose(mapped);
    struct mallinfo2 heap = mallinfo2();
    net_say("figures %llu rss_kib=%lld anonymous_kib=%lld file_kib=%lld shared_kib=%lld "
            "heap_kib=%zu free_kib=%zu descriptors=%zu threads=%zu maps=%zu stall_ms=%lld",
            (unsigned long long)number, rss, anonymous, file, shared,
            (heap.uordblks + heap.hblkhd) / 1024, heap.fordblks / 1024, entries_of("/proc/self/fd"),
            entries_of("/proc/self/task"), maps,
            (long long)(member->longest_stall_ns / MILLISECOND_NS));
    member->longest_stall_ns = 0;
}

/* ---- the group ---- */

static void set_life(member *member, life life)
{
    member->life = life;
    member->life_overdue = (campaign_overdue){0};
}

static void apart(member *member)
{
    if (member->clock.run_ns < member->rest_until_run_ns)
        return;
    member->joining = net_self_begin_join(&member->self, member->argc, member->argv);
    set_life(member, LIFE_JOINING);
}

static void joining(member *member)
{
    ferry_status status = ferry_future_poll(member->joining);
    if (status == FERRY_PENDING) {
        watch_hang(member, &member->life_overdue, LIFE_NS, "joining does not end");
        return;
    }
    if (status == FERRY_OK) {
        ferry_member_info own = FERRY_MEMBER_INFO_INIT;
        (void)ferry_group_member(member->self.group, member->rank, &own);
        campaign_traffic_begin(member->traffic, member->self.group, own.incarnation);
        net_say("joined rank=%u incarnation=%llu", (unsigned)member->rank,
                (unsigned long long)own.incarnation);
        set_life(member, LIFE_HERE);
    } else {
        const ferry_error *error = ferry_future_error(member->joining);
        note(member, CAMPAIGN_REFUSED_JOINS);
        fprintf(stderr, "campaign: rank %u may not join: %s, %s\n", (unsigned)member->rank,
                ferry_status_name(status), error != NULL ? error->message : "");
        ferry_group_release(member->self.group);
        member->self.group = NULL;
        member->rest_until_run_ns = member->clock.run_ns + REST_NS;
        set_life(member, LIFE_APART);
    }
    ferry_future_release(member->joining);
    member->joining = NULL;
}

static void begin_leaving(member *member)
{
    if (member->life != LIFE_HERE)
        return;
    cancel_asks(member);
    member->leaving = ferry_group_leave(member->self.group);
    set_life(member, LIFE_LEAVING);
}

static void leaving(member *member)
{
    if (ferry_future_poll(member->leaving) == FERRY_PENDING || !is_idle(member)) {
        watch_hang(member, &member->life_overdue, LIFE_NS, "leaving does not end");
        return;
    }
    ferry_future_release(member->leaving);
    member->leaving = NULL;
    ferry_group_release(member->self.group);
    member->self.group = NULL;
    set_life(member, LIFE_APART);
}

static void here(member *member)
{
    if (member->is_calm || member->is_probing)
        return;
    campaign_traffic_submit(member->traffic, &member->clock);
    campaign_loose_submit(member->loose, member->self.group, &member->clock);
    uint64_t chance = campaign_random(&member->random, 600);
    if (chance < 3)
        begin_ask(member, ASK_SET + (ask_kind)chance, 0, ASK_NS);
}

static void live(member *member)
{
    switch (member->life) {
    case LIFE_APART:
        apart(member);
        break;
    case LIFE_JOINING:
        joining(member);
        break;
    case LIFE_HERE:
        here(member);
        break;
    default:
        leaving(member);
        break;
    }
}

/* ---- calm ---- */

typedef struct text {
    char *bytes;
    size_t size_bytes;
} text;

static void take_text(void *arg, const char *bytes, size_t size_bytes)
{
    text *text = arg;
    text->bytes = realloc(text->bytes, text->size_bytes + size_bytes);
    NET_SELF_CHECK(text->bytes, "no memory");
    memcpy(text->bytes + text->size_bytes, bytes, size_bytes);
    text->size_bytes += size_bytes;
}

static bool is_dump_empty(member *member)
{
    text text = {0};
    if (ferry_engine_dump(member->self.engine, FERRY_DUMP_JSON, take_text, &text) != FERRY_OK)
        return false;
    json_t *whole = json_loadb(text.bytes, text.size_bytes, 0, NULL);
    free(text.bytes);
    bool is_empty = json_array_size(json_object_get(whole, "nodes")) == 0 &&
                    json_array_size(json_object_get(whole, "promises")) == 0 &&
                    json_array_size(json_object_get(whole, "not_quiet")) == 0 &&
                    json_is_object(whole);
    json_decref(whole);
    return is_empty;
}

static void calm_down(member *member)
{
    if (!member->is_calm || member->is_calm_told)
        return;
    campaign_traffic_cancel(member->traffic);
    campaign_loose_cancel(member->loose);
    if (member->clock.run_ns - member->calm_run_ns > CALM_NS && !member->is_calm_late) {
        member->is_calm_late = true;
        show(member, "it does not become calm");
    }
    if (member->life != LIFE_HERE || member->beat != NULL || !is_idle(member))
        return;
    if (member->settle_run_ns == 0)
        member->settle_run_ns = member->clock.run_ns;
    if (!is_dump_empty(member)) {
        if (member->clock.run_ns - member->settle_run_ns < SETTLE_NS)
            return;
        note(member, CAMPAIGN_LEFTOVERS);
        show(member, "something is left in the engine");
    }
    member->is_calm_told = true;
    campaign_loose_heal(member->loose);
    net_say("calm %llu", (unsigned long long)member->calm_number);
}

static void say_view(member *member, uint64_t number)
{
    char view[256];
    size_t used = 0;
    for (uint32_t i = 0; i < member->size && used < sizeof view - 32; i++) {
        ferry_member_info info = FERRY_MEMBER_INFO_INIT;
        if (member->life == LIFE_HERE)
            (void)ferry_group_member(member->self.group, i, &info);
        used += (size_t)snprintf(view + used, sizeof view - used, " %d:%llu", (int)info.state,
                                 (unsigned long long)info.incarnation);
    }
    net_say("view %llu%s", (unsigned long long)number, view);
    if (member->life == LIFE_HERE)
        begin_ask(member, ASK_SET, 0, ASK_NS); /* who has lost its place learns it */
}

static void show_members(const member *member)
{
    for (uint32_t i = 0; i < member->size; i++) {
        ferry_member_info info = FERRY_MEMBER_INFO_INIT;
        if (ferry_group_member(member->self.group, i, &info) == FERRY_OK)
            fprintf(stderr, "campaign: rank %u sees rank %u: state %d, incarnation %llu\n",
                    (unsigned)member->rank, (unsigned)i, (int)info.state,
                    (unsigned long long)info.incarnation);
    }
}

static void end_probe(member *member)
{
    if (!member->is_probing)
        return;
    if (!campaign_traffic_is_quiet(member->traffic)) {
        /* While it can be seen what it waits for. */
        if (!member->is_probe_shown && member->clock.now_ns - member->probe_ns > PROBE_SHOWN_NS) {
            member->is_probe_shown = true;
            show(member, "a probe takes long");
            show_members(member);
        }
        return;
    }
    member->is_probing = false;
    net_say("probed %llu failed=%zu", (unsigned long long)member->probe_number,
            campaign_traffic_probes_failed(member->traffic));
}

/* ---- what it is told ---- */

static void begin_calm(member *member, uint64_t number)
{
    member->is_calm = true;
    member->is_calm_told = false;
    member->is_calm_late = false;
    member->calm_number = number;
    member->calm_run_ns = member->clock.run_ns;
    member->settle_run_ns = 0;
    cancel_asks(member);
}

static void obey(member *member)
{
    char what[16] = "";
    unsigned long long number = 0;
    (void)sscanf(net_await("do"), "%15s %llu", what, &number);
    bool is_here = member->life == LIFE_HERE;
    if (strcmp(what, "go") == 0) {
        member->is_calm = false;
    } else if (strcmp(what, "calm") == 0) {
        begin_calm(member, number);
    } else if (strcmp(what, "probe") == 0) {
        member->is_probing = true;
        member->is_probe_shown = false;
        member->probe_ns = member->clock.now_ns;
        member->probe_number = number;
        if (is_here)
            campaign_traffic_probe(member->traffic, number, &member->clock);
    } else if (strcmp(what, "view") == 0) {
        say_view(member, number);
    } else if (strcmp(what, "figures") == 0) {
        say_figures(member, number);
    } else if (strcmp(what, "alive") == 0 && is_here) {
        begin_ask(member, ASK_ALIVE, number, CALM_ASK_NS);
    } else if (strcmp(what, "alive") == 0) {
        net_say("alive %llu apart", number);
    } else if (strcmp(what, "meet") == 0 && is_here) {
        begin_ask(member, ASK_ALIVE, number, ASK_NS);
        if (number % BARRIERS == 0)
            begin_ask(member, ASK_BARRIER, number, ASK_NS);
    } else if (strcmp(what, "rejoin") == 0) {
        begin_leaving(member);
    } else if (strcmp(what, "end") == 0) {
        member->is_ending = true;
    }
}

/* Sleeps, or waits for something, which looks for messages meanwhile and may be the loop. */
static void rest(member *member)
{
    struct pollfd ready = {.fd = -1, .events = POLLIN};
    int rest_ms = 1 + (int)campaign_random(&member->random, 3);
    ferry_future *future =
        campaign_random(&member->random, 3) == 0 ? campaign_traffic_any(member->traffic) : NULL;
    if (future != NULL && ferry_future_poll(future) == FERRY_PENDING) {
        (void)ferry_future_wait(future, rest_ms * MILLISECOND_NS);
        return;
    }
    if (member->is_embedded) {
        while (ferry_engine_progress(member->self.engine, 0) > 0)
            continue;
        if (ferry_engine_arm(member->self.engine) != FERRY_OK)
            return;
        ready.fd = ferry_engine_fd(member->self.engine);
    }
    (void)poll(&ready, 1, rest_ms);
}

static void end(member *member)
{
    ferry_future_release(member->beat);
    campaign_traffic_close(member->traffic);
    campaign_loose_close(member->loose);
    net_self_end(&member->self);
}

/* Was it UCX that gave up, connecting over TCP? Everybody else's aborts are faults. */
static void has_aborted(int number)
{
    void *frames[40];
    bool is_fatal = false, is_tcp = false;
    int count = backtrace(frames, (int)(sizeof frames / sizeof frames[0]));
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (dladdr(frames[i], &info) == 0 || info.dli_sname == NULL)
            continue;
        is_fatal = is_fatal || strncmp(info.dli_sname, "ucs_fatal_error", 15) == 0;
        is_tcp = is_tcp || strncmp(info.dli_sname, "uct_tcp_", 8) == 0;
    }
    if (is_fatal && is_tcp)
        _exit(CAMPAIGN_UCX_STATUS);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* The first backtrace loads a library, which is not for a handler. */
static void watch_aborts(void)
{
    void *frame;
    (void)backtrace(&frame, 1);
    (void)signal(SIGABRT, has_aborted);
}

int campaign_member(int argc, char **argv)
{
    watch_aborts();
    member *member = calloc(1, sizeof *member);
    NET_SELF_CHECK(member, "no memory");
    member->argc = argc;
    member->argv = argv;
    member->rank = (uint32_t)net_argument_number(argc, argv, "rank", 0);
    member->size = (uint32_t)net_argument_number(argc, argv, "size", 2);
    uint64_t seed = (uint64_t)net_argument_number(argc, argv, "seed", 1);
    member->random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    member->board = campaign_board_open(net_argument(argc, argv, "board"));
    NET_SELF_CHECK(member->board, "no board: %s", strerror(errno));
    member->is_embedded = strcmp(net_argument(argc, argv, "loop"), "embedded") == 0;
    net_self_open(&member->self, argc, argv);
    member->traffic = campaign_traffic_open(member->self.engine, member->board, member->rank,
                                            member->size, member->random ^ 0x5555);
    member->loose = campaign_loose_open(member->self.engine, member->board, member->rank,
                                        member->size, member->random ^ 0x7777);
    member->clock.now_ns = net_now_ns();
    while (!member->is_ending) {
        tick(member);
        if (net_is_told())
            obey(member);
        keep_beating(member);
        campaign_loose_look(member->loose, &member->clock);
        bool has_ended = campaign_traffic_look(member->traffic, &member->clock);
        has_ended = look_at_asks(member) || has_ended;
        if (has_ended)
            begin_leaving(member);
        live(member);
        calm_down(member);
        end_probe(member);
        rest(member);
    }
    end(member);
    free(member);
    return 0;
}
