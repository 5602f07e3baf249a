/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_processes [same_host] [other_hosts] [seeds=N] [first=S]: random programs of two to five
 * processes (tests/support/random_program.h says of what), on one host over shared memory, or on
 * several over TCP, with some of them on the same. Each has host memory and up to three windows,
 * and does gets, puts, messages, notices, copies and functions, one by one and in posts of plans;
 * some are cancelled, late, refused, or on windows that are closed meanwhile. Windows are closed
 * and opened anew between rounds, by the same name and by others. One process may be killed, or
 * stopped until the others have submitted all that they do. What must hold is that
 *
 *  - after each round memory is what the program, done by one process alone, makes of it;
 *  - each future resolves once, well if nothing was to hinder it, else with a status that its
 *    hindrance may give, and is quiet then;
 *  - bytes of a put are there when the notice that tells of it is taken, here and at third members;
 *  - notices come once, in the order of their sender's calls;
 *  - of what has failed each byte is an old or a new one, and nobody writes it once it is quiet, or
 *    its window closed;
 *  - who has to do with a dead member is told so, all that among the others goes well;
 *  - nothing is left in an engine in the end.
 */
#include "tests/support/effort.h"
#include "tests/support/net_hosts.h"
#include "tests/support/program_player.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEAR_NS INT64_C(1000000000) /* then it listens again: the watchdog knows how long */

enum { HOSTS = 5 };

/* ---- a member: windows ---- */

static void window_name(const player *player, uint32_t owner, uint32_t window, char name[32])
{
    (void)snprintf(name, 32, "w%u/%u", (unsigned)window,
                   (unsigned)player->program.members[owner].windows[window].name);
}

static bool is_own_painted(player *player, uint32_t window)
{
    pthread_mutex_lock(&player->mutex);
    bool is_painted = player->is_window_painted[window];
    pthread_mutex_unlock(&player->mutex);
    return is_painted;
}

/* If it has not been closed in the round before. */
static void close_own(player *player, uint32_t window, bool was_closed)
{
    if (player->own[window] != NULL && !was_closed) {
        ferry_future *closed = ferry_window_close(player->own[window]);
        ferry_status status = ferry_future_wait(closed, -1);
        PLAYER_CHECK(player, status == FERRY_OK, "closing a window: %s", ferry_status_name(status));
        ferry_future_release(closed);
    }
    ferry_window_release(player->own[window]);
    player->own[window] = NULL;
}

static void open_own(player *player, uint32_t window)
{
    char name[32];
    window_name(player, player->self.rank, window, name);
    ferry_future *open = ferry_window_open(
        player->self.group, ferry_buffer_span(player->buffers[1 + window]), name,
        player->program.members[player->self.rank].windows[window].rights, &player->own[window]);
    ferry_status status = ferry_future_wait(open, -1);
    PLAYER_CHECK(player, status == FERRY_OK, "opening %s: %s", name, ferry_status_name(status));
    ferry_future_release(open);
}

static void forget(player_found *found)
{
    ferry_window_release(found->window);
    ferry_future_release(found->future);
    ferry_future_release(found->closing);
    *found = (player_found){0};
}

/* Handles of windows that are opened anew, and of the dead. Who keeps one until the owner has
 * closed must not hold that up. */
static void forget_old(player *player, bool is_early)
{
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        for (uint32_t k = 0; k < player->program.window_count; k++) {
            const program_window *window = &player->program.members[i].windows[k];
            player_found *found = &player->found[i][k];
            bool is_over = window->is_new || (!random_program_lives(&player->program, i) &&
                                              !random_program_dies(&player->program, i));
            if (found->closing != NULL || (is_over && (window->name + k) % 2 == is_early))
                forget(found);
            ferry_future_release(found->future);
            found->future = NULL;
        }
    }
}

/* Those that may be looked for before they are open, or the others. */
static void look_for(player *player, bool is_early)
{
    const random_program *program = &player->program;
    bool is_hasty = program->members[player->self.rank].is_hasty;
    for (uint32_t i = 0; i < program->member_count; i++) {
        bool is_here = random_program_lives(program, i) || random_program_dies(program, i);
        for (uint32_t k = 0; k < program->window_count; k++) {
            const program_window *window = &program->members[i].windows[k];
            bool can_be_early =
                is_hasty && window->is_new && window->is_name_fresh && (window->name + k) % 2 == 1;
            player_found *found = &player->found[i][k];
            if (i == player->self.rank || !is_here || found->window != NULL ||
                can_be_early != is_early)
                continue;
            char name[32];
            window_name(player, i, k, name);
            found->future = ferry_window_find(player->self.group, i, name, 0, &found->window);
        }
    }
}

static void await_found(player *player)
{
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        for (uint32_t k = 0; k < player->program.window_count; k++) {
            ferry_future *future = player->found[i][k].future;
            ferry_status status = future != NULL ? ferry_future_wait(future, -1) : FERRY_OK;
            bool may_fail = random_program_dies(&player->program, i);
            PLAYER_CHECK(player, status == FERRY_OK || may_fail,
                         "window %u of rank %u is not found: %s", (unsigned)k, (unsigned)i,
                         ferry_status_name(status));
        }
    }
}

/* ---- a member: rounds ---- */

/* All that are here meet; at a round's end without who has died in it. */
static void meet(player *player, bool is_end)
{
    char name[32];
    ferry_rank members[PROGRAM_MEMBERS_MAX];
    ferry_barrier_options options = FERRY_BARRIER_OPTIONS_INIT;
    options.members = members;
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        if (random_program_lives(&player->program, i) ||
            (!is_end && random_program_dies(&player->program, i)))
            members[options.member_count++] = i;
    }
    (void)snprintf(name, sizeof name, "m%u", (unsigned)player->meetings++);
    ferry_future *barrier = ferry_barrier(player->self.group, name, &options);
    ferry_status status = ferry_future_wait(barrier, -1);
    const ferry_error *error = ferry_future_error(barrier);
    PLAYER_CHECK(player, status == FERRY_OK, "barrier %s: %s", name,
                 error != NULL ? error->message : "");
    ferry_future_release(barrier);
}

static void write_anew(player *player, uint32_t buffer, size_t offset)
{
    const unsigned char *model = player->program.members[player->self.rank].memory[buffer];
    memcpy(player->bytes[buffer] + offset, model + offset, PROGRAM_BYTES - offset);
    ferry_span span = {player->buffers[buffer], offset, PROGRAM_BYTES - offset};
    if (offset == 0)
        span.size_bytes = PROGRAM_BYTES;
    PLAYER_CHECK(player, ferry_buffer_define(span, NULL) == FERRY_OK, "no definition");
}

/* The program's next round is known to the taker before any other member can do its part. */
static void begin_round(player *player)
{
    bool was_closed[PROGRAM_WINDOWS_MAX];
    for (uint32_t i = 0; i < PROGRAM_WINDOWS_MAX; i++)
        was_closed[i] = is_own_painted(player, i);
    pthread_mutex_lock(&player->mutex);
    random_program_next(&player->program);
    player->has_begun = false;
    memset(player->is_painted, 0, sizeof player->is_painted);
    memset(player->is_window_painted, 0, sizeof player->is_window_painted);
    memset(player->taken, 0, sizeof player->taken);
    memset(player->next_index, 0, sizeof player->next_index);
    pthread_mutex_unlock(&player->mutex);
    forget_old(player, true);
    const program_member *own = &player->program.members[player->self.rank];
    for (uint32_t i = 0; i < player->program.window_count; i++) {
        if (own->windows[i].is_new)
            close_own(player, i, was_closed[i]);
    }
    write_anew(player, 0, player->program.round == 0 ? 0 : PROGRAM_FIRM_BYTES);
    for (uint32_t i = 0; i < player->program.window_count; i++)
        write_anew(player, 1 + i, own->windows[i].is_new ? 0 : PROGRAM_FIRM_BYTES);
    pthread_mutex_lock(&player->mutex);
    random_program_act(&player->program);
    pthread_mutex_unlock(&player->mutex);
    forget_old(player, false);
    look_for(player, true);
    for (uint32_t i = 0; i < player->program.window_count; i++) {
        if (own->windows[i].is_new)
            open_own(player, i);
    }
    meet(player, false);
    look_for(player, false);
    if (!own->is_hasty)
        await_found(player);
    pthread_mutex_lock(&player->mutex);
    player->has_begun = true;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->mutex);
}

static void meet_fault(const player *player)
{
    const random_program *program = &player->program;
    if (program->fault == PROGRAM_KILL && program->is_fault_exact)
        (void)kill(getpid(), SIGKILL);
    net_say(program->fault == PROGRAM_KILL ? "kill" : "stop");
}

static void let_go(player *player, uint32_t submitted)
{
    const program_member *own = &player->program.members[player->self.rank];
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        for (uint32_t k = 0; k < player->program.window_count; k++) {
            if (own->lets_go[i][k] && player->found[i][k].closing == NULL &&
                submitted >= player->program.members[i].windows[k].close_after)
                player_let_go(player, i, k);
        }
    }
}

/* Before each act, and behind the last. */
static void submitting(player *player, uint32_t submitted)
{
    const random_program *program = &player->program;
    const program_member *own = &program->members[player->self.rank];
    bool is_last = submitted == UINT32_MAX;
    for (uint32_t i = 0; i < program->window_count; i++) {
        if (own->windows[i].use == PROGRAM_CLOSING && player->closing[i] == NULL &&
            submitted >= own->windows[i].close_after)
            player_close(player, i);
    }
    let_go(player, submitted);
    if (program->fault == PROGRAM_NO_FAULT || program->round != program->fault_round)
        return;
    if (player->self.rank == program->victim && submitted >= program->fault_after &&
        !player->has_met_fault) {
        player->has_met_fault = true;
        meet_fault(player);
    }
    if (is_last && player->self.rank == program->victim && program->fault == PROGRAM_KILL)
        (void)net_await("nothing more");
    if (is_last && player->self.rank != program->victim && program->fault == PROGRAM_STOP)
        net_say("submitted");
}

/* Notices to all that live, this member too. */
static void say_end(player *player)
{
    ferry_future *ends[PROGRAM_MEMBERS_MAX] = {NULL};
    player_note note = {.kind = NOTE_END, .round = player->program.round};
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        if (random_program_lives(&player->program, i))
            ends[i] = player_note_send(player, i, note, NULL);
    }
    for (uint32_t i = 0; i < player->program.member_count; i++) {
        ferry_status status = ends[i] != NULL ? ferry_future_wait(ends[i], -1) : FERRY_OK;
        PLAYER_CHECK(player, status == FERRY_OK, "the last notice to rank %u: %s", (unsigned)i,
                     ferry_status_name(status));
        ferry_future_release(ends[i]);
    }
}

/* Who has died can't say when its puts are quiet: they are when the window is closed. */
static void end_window_of_dead(player *player, uint32_t window)
{
    const random_program *program = &player->program;
    const program_member *dead = &program->members[program->victim];
    for (uint32_t i = 0; i < dead->act_count && !player->is_window_painted[window]; i++) {
        const program_act *put = &dead->acts[i];
        bool is_put = put->kind == FERRY_OP_PUT && put->end != PROGRAM_REFUSED &&
                      put->peer == player->self.rank && put->window == window;
        if (is_put)
            player_check_put(player, put, FERRY_PENDING);
    }
    memset(player->bytes[1 + window], PROGRAM_PAINT, PROGRAM_BYTES);
    player->is_window_painted[window] = true;
}

static void end_windows_of_dead(player *player)
{
    const random_program *program = &player->program;
    if (program->fault != PROGRAM_KILL || program->round != program->fault_round)
        return;
    for (uint32_t i = 0; i < program->window_count; i++) {
        close_own(player, i, is_own_painted(player, i));
        end_window_of_dead(player, i);
    }
}

static void compare(const player *player)
{
    const program_member *own = &player->program.members[player->self.rank];
    for (uint32_t i = 0; i <= player->program.window_count; i++) {
        if (i > 0 && own->windows[i - 1].use == PROGRAM_CLOSING)
            continue;
        for (uint32_t k = 0; k < PROGRAM_FIRM_BYTES; k++) {
            if (memcmp(player->bytes[i], own->memory[i], PROGRAM_FIRM_BYTES) == 0)
                break;
            PLAYER_CHECK(player, player->bytes[i][k] == own->memory[i][k],
                         "byte %u of buffer %u is 0x%02x, not 0x%02x", (unsigned)k, (unsigned)i,
                         player->bytes[i][k], own->memory[i][k]);
        }
    }
}

static void play_round(player *player)
{
    begin_round(player);
    player_submit(player, submitting);
    player_collect(player);
    await_found(player);
    say_end(player);
    player_taker_await(player);
    compare(player);
    end_windows_of_dead(player);
    meet(player, true);
    player_check_paint(player);
}

/* ---- a member: beginning and end ---- */

typedef struct text {
    char *bytes;
    size_t size_bytes;
} text;

static void take_text(void *arg, const char *piece, size_t size_bytes)
{
    text *text = arg;
    char *bytes = realloc(text->bytes, text->size_bytes + size_bytes);
    NET_SELF_CHECK(bytes != NULL, "no memory");
    memcpy(bytes + text->size_bytes, piece, size_bytes);
    text->bytes = bytes;
    text->size_bytes += size_bytes;
}

static bool is_engine_empty(player *player)
{
    text text = {0};
    if (ferry_engine_dump(player->self.engine, FERRY_DUMP_JSON, take_text, &text) != FERRY_OK)
        return false;
    json_t *whole = json_loadb(text.bytes, text.size_bytes, 0, NULL);
    free(text.bytes);
    bool is_empty = json_is_object(whole) &&
                    json_array_size(json_object_get(whole, "nodes")) == 0 &&
                    json_array_size(json_object_get(whole, "promises")) == 0 &&
                    json_array_size(json_object_get(whole, "not_quiet")) == 0;
    json_decref(whole);
    return is_empty;
}

/* The loop of an engine that has none, beside threads that wait. */
static void *drive(void *arg)
{
    player *player = arg;
    ferry_engine *engine = player->self.engine;
    struct pollfd sleepers[] = {{.fd = ferry_engine_fd(engine), .events = POLLIN},
                                {.fd = player->driver_end_fd, .events = POLLIN}};
    while (poll(&sleepers[1], 1, 0) == 0) {
        if (ferry_engine_progress(engine, 0) <= 0 && ferry_engine_arm(engine) == FERRY_OK)
            (void)poll(sleepers, 2, -1);
    }
    return NULL;
}

static void driver_start(player *player)
{
    player->driver_end_fd = eventfd(0, EFD_CLOEXEC);
    PLAYER_CHECK(player,
                 player->driver_end_fd >= 0 &&
                     pthread_create(&player->driver, NULL, drive, player) == 0,
                 "no thread");
}

static void driver_stop(player *player)
{
    const uint64_t one = 1;
    PLAYER_CHECK(player, write(player->driver_end_fd, &one, sizeof one) == sizeof one, "no write");
    pthread_join(player->driver, NULL);
    (void)close(player->driver_end_fd);
}

static void open_player(player *player, int argc, char **argv)
{
    player->again = net_argument(argc, argv, "again");
    player_map(player, net_argument(argc, argv, "memory"));
    net_self_join(&player->self, argc, argv);
    pthread_mutex_init(&player->mutex, NULL);
    pthread_cond_init(&player->changed, NULL);
    random_program_open(&player->program, (uint64_t)net_argument_number(argc, argv, "seed", 1));
    ferry_device *device = ferry_device_at(player->self.engine, 0);
    for (uint32_t i = 0; i <= player->program.window_count; i++) {
        player->bytes[i] = player_memory(player, player->self.rank, i);
        PLAYER_CHECK(player,
                     ferry_buffer_wrap(device, player->bytes[i], PROGRAM_BYTES, NULL, NULL,
                                       &player->buffers[i]) == FERRY_OK,
                     "no buffer");
    }
    player_taker_start(player);
    player->is_embedded = net_argument(argc, argv, "loop") != NULL;
    if (player->is_embedded)
        driver_start(player);
}

static void close_player(player *player)
{
    for (uint32_t i = 0; i < player->program.window_count; i++)
        close_own(player, i, player->is_window_painted[i]);
    for (uint32_t i = 0; i < PROGRAM_MEMBERS_MAX; i++) {
        for (uint32_t k = 0; k < PROGRAM_WINDOWS_MAX; k++)
            forget(&player->found[i][k]);
    }
    meet(player, true);
    player_taker_stop(player);
    while (!is_engine_empty(player))
        continue; /* what is never over is for the time-out */
    for (uint32_t i = 0; i <= player->program.window_count; i++)
        ferry_buffer_release(player->buffers[i]);
    PLAYER_CHECK(player, player->calls == player->waiters, "a waiter was called twice");
    if (player->is_embedded)
        driver_stop(player);
    random_program_close(&player->program);
    net_self_end(&player->self);
}

static int member(int argc, char **argv)
{
    static player player;
    open_player(&player, argc, argv);
    while (player.program.round + 1 != player.program.round_count)
        play_round(&player);
    close_player(&player);
    net_say("done firm=%llu well=%llu failed=%llu notices=%llu",
            (unsigned long long)player.firm_count, (unsigned long long)player.loose_well,
            (unsigned long long)player.loose_failed, (unsigned long long)player.notices);
    return 0;
}

/* ---- the test ---- */

static struct {
    int64_t count, first; /* seeds; 0: the case's own number */
    uint64_t firm, well, failed, notices;
} all = {.first = 1};

static net_member *start(const random_program *program, uint32_t rank, bool has_hosts,
                         const char *memory, const char *again)
{
    char store[128], job[32], size[32], own[32], seed[40], lease[32], spin[32], command[200];
    char path[160], few[40], small[40];
    bool is_narrow = program->seed % 4 == 1, is_embedded = (program->seed + rank) % 3 == 2;
    (void)snprintf(path, sizeof path, "memory=%s", memory);
    (void)snprintf(few, sizeof few, "window_messages=%d", is_narrow ? 4 : 0);
    (void)snprintf(small, sizeof small, "window_bytes=%d", is_narrow ? 65536 : 0);
    bool is_patient = !has_hosts || program->fault != PROGRAM_KILL;
    (void)snprintf(store, sizeof store, "store=file:%s/store", net_folder());
    (void)snprintf(job, sizeof job, "job=%llu", (unsigned long long)program->seed);
    (void)snprintf(size, sizeof size, "size=%u", (unsigned)program->member_count);
    (void)snprintf(own, sizeof own, "rank=%u", (unsigned)rank);
    (void)snprintf(seed, sizeof seed, "seed=%llu", (unsigned long long)program->seed);
    /* As long as a busy machine keeps nobody from a CPU. */
    (void)snprintf(lease, sizeof lease, "lease_ms=%d", is_patient ? 60000 : 5000);
    (void)snprintf(spin, sizeof spin, "wait_spin_us=%d", program->seed % 3 == 0 ? 50 : 0);
    (void)snprintf(command, sizeof command, "again=%s", again);
    return net_start(has_hosts ? (int)program->hosts[rank] : NET_HERE, "member", store, job, size,
                     own, seed, lease, spin, command, has_hosts ? "network=eth0" : "network=lo",
                     path, few, small, "silent=yes", "unexpected_max=4096", "deadline_ms=300000",
                     is_embedded ? "loop=embedded" : NULL, NULL);
}

static void have_fault(const random_program *program, net_member **members)
{
    net_member *victim = members[program->victim];
    if (program->fault == PROGRAM_KILL) {
        if (!program->is_fault_exact) {
            (void)net_hear(victim, "kill");
            net_signal(victim, SIGKILL);
        }
        net_end_by(victim, SIGKILL);
    } else if (program->fault == PROGRAM_STOP) {
        (void)net_hear(victim, "stop");
        net_signal(victim, SIGSTOP);
        for (uint32_t i = 0; i < program->member_count; i++) {
            if (i != program->victim)
                (void)net_hear(members[i], "submitted");
        }
        net_signal(victim, SIGCONT);
    }
}

/* A member that is done, or has failed, whoever is first: others may wait for it for long. False:
 * they all are done. */
static bool hear_any(net_member **members, size_t count)
{
    size_t which = 0, left = 0;
    const char *line = NULL;
    for (size_t i = 0; i < count; i++)
        left += members[i] != NULL;
    if (left == 0)
        return false;
    net_news news = net_listen(members, count, HEAR_NS, &which, &line);
    if (news == NET_ENDED)
        (void)net_hear(members[which], "done"); /* which says how it ended */
    if (news != NET_LINE)
        return true;
    NET_CHECK(strncmp(line, "done ", 5) == 0, "a member says \"%s\"", line);
    all.firm += (uint64_t)net_number(line, "firm");
    all.well += (uint64_t)net_number(line, "well");
    all.failed += (uint64_t)net_number(line, "failed");
    all.notices += (uint64_t)net_number(line, "notices");
    net_end(members[which]);
    members[which] = NULL;
    return true;
}

static void run_seed(uint64_t seed, bool has_hosts)
{
    static random_program program;
    static const char *const faults[] = {"", ", one is killed", ", one is stopped"};
    net_member *members[PROGRAM_MEMBERS_MAX];
    char again[160], memory[128];
    random_program_open(&program, seed);
    (void)snprintf(again, sizeof again, "random_processes %s seeds=1 first=%llu",
                   has_hosts ? "other_hosts" : "same_host", (unsigned long long)seed);
    printf("%s: %u members, %u rounds%s\n", again, (unsigned)program.member_count,
           (unsigned)program.round_count, faults[program.fault]);
    (void)fflush(stdout);
    (void)snprintf(memory, sizeof memory, "%s/memory", net_folder());
    int fd = open(memory, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NET_CHECK(fd >= 0 && ftruncate(fd, PLAYER_MEMORY_BYTES) == 0 && close(fd) == 0, "no memory");
    for (uint32_t i = 0; i < program.member_count; i++)
        members[i] = start(&program, i, has_hosts, memory, again);
    for (uint32_t i = 0; i < program.member_count; i++)
        (void)net_hear(members[i], "joined");
    (void)unlink(memory);
    have_fault(&program, members);
    if (program.fault == PROGRAM_KILL)
        members[program.victim] = NULL;
    while (hear_any(members, program.member_count))
        continue;
    random_program_close(&program);
}

static void run_seeds(uint64_t count, bool has_hosts)
{
    for (uint64_t i = 0; i < count; i++)
        run_seed((uint64_t)all.first + i, has_hosts);
    printf("%llu seeds: %llu firm acts and posts, %llu loose ones that ended well, %llu that did "
           "not, %llu notices\n",
           (unsigned long long)count, (unsigned long long)all.firm, (unsigned long long)all.well,
           (unsigned long long)all.failed, (unsigned long long)all.notices);
    NET_CHECK(count < 4 || (all.well > 0 && all.failed > 0 && all.notices > 0),
              "nothing of a sort was tried");
}

static void same_host(void)
{
    run_seeds(all.count != 0 ? (uint64_t)all.count : SEEDS_OF(50), false);
}

static void other_hosts(void)
{
    net_hosts_open(HOSTS, NET_CABLE_VETH);
    run_seeds(all.count != 0 ? (uint64_t)all.count : SEEDS_OF(30), true);
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    net_case cases[] = {{"same_host", same_host, 120}, {"other_hosts", other_hosts, 120}};
    if (argc > 2 && strcmp(argv[1], "--role") == 0)
        return net_test_main(argc, argv, roles, 1, NULL, 0);
    all.count = net_argument_number(argc, argv, "seeds", 0);
    all.first = net_argument_number(argc, argv, "first", 1);
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strchr(argv[i], '=') == NULL)
            argv[kept++] = argv[i];
    }
    for (int i = 0; i < 2; i++)
        cases[i].limit_s += (int)all.count;
    return net_test_main(kept, argv, roles, 1, cases, 2);
}
