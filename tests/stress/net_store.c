/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores under many hands. A plain program, so that it runs under ThreadSanitizer. Exit 0: all of
 * it held.
 *   members   64 clients of one folder create a key each, watch all and list all
 *   joining   processes of one folder do the same at once, each on its own
 *   counters  8 processes count numbers up by swaps: the sum is that of all steps
 *   lists     a list never lacks a key that is put anew while it is made
 *   killed    writers are killed at any moment: readers only ever see whole values of growing
 *             versions, locks are free again, leftovers go
 *   holders   a holder of a lease that is killed loses its keys at once; one that is stopped
 *             loses them with its time, and is told so when it goes on
 *   threads   threads that share a mem: store, each with a reactor of its own, come and go
 */
#include "base/lf.h"
#include "tests/support/patience.h"
#include "tests/support/store_suite.h"
#include "tests/support/temporary_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if FRY_TSAN
#define COUNTS 40
#define KILLS 15
#define ROUNDS 5
#define JOINING 8
#else
#define COUNTS 150
#define KILLS 120
#define ROUNDS 30
#define JOINING 64
#endif
#define HANG_S 170
#define MEMBERS 64
#define COUNTERS 8
#define WRITERS 4
#define KEYS 6
#define LISTED 20
#define LISTS 300
#define THREADS 4
#define CHECK STORE_CHECK

static char folder[TEMPORARY_FOLDER_BYTES];
static char uri[TEMPORARY_FOLDER_BYTES + 16];
static store_place place = {.uri = uri};

static void hung(int signal)
{
    static const char line[] = "net_store: hung\n";
    (void)signal;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(1);
}

static void set_uri(const char *name)
{
    (void)snprintf(uri, sizeof uri, "file:%s/%s", folder, name);
}

/* A child that dies with us. */
static pid_t start(void (*fn)(size_t number), size_t number)
{
    const pid_t parent = getpid();
    const pid_t child = fork();

    CHECK(child >= 0);
    if (child > 0)
        return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)alarm(HANG_S * PATIENCE);
    fn(number);
    _exit(0);
}

static int end_of(pid_t child)
{
    int status = 0;

    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* Keys are the same in all processes. */
static void open_rig(store_rig *rig, size_t count)
{
    store_rig_open(rig, &place, count);
    (void)strcpy(rig->prefix, "all/");
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* --- members --- */

static void members(void)
{
    static store_rig rig;
    static store_seen seen[MEMBERS];
    static store_held held[MEMBERS];
    static store_ask creates[MEMBERS], lists[MEMBERS];
    char key[32];

    set_uri("members");
    const int64_t start_ns = fry_clock_monotonic_ns();
    open_rig(&rig, MEMBERS);
    const int64_t opened_ns = fry_clock_monotonic_ns();
    for (size_t i = 0; i < MEMBERS; i++) {
        store_seen_start(&seen[i], &rig.clients[i], "");
        store_held_open(&held[i], &rig.clients[i]);
        (void)snprintf(key, sizeof key, "member/%zu", i);
        store_ask_init(&creates[i], &rig.clients[i], FRY_STORE_CREATE, key);
        creates[i].request.value = key;
        creates[i].request.value_bytes = strlen(key);
        creates[i].request.lease = &held[i].lease;
        CHECK(store_ask_run(&rig.clients[i], &creates[i]) == FERRY_OK);
        store_ask_free(&creates[i]);
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        while (seen[i].puts < MEMBERS)
            store_rig_turn(&rig);
        CHECK(seen[i].puts == MEMBERS && seen[i].deletes == 0);
    }
    const int64_t seen_ns = fry_clock_monotonic_ns();
    for (size_t i = 0; i < MEMBERS; i++) {
        store_ask_init(&lists[i], &rig.clients[i], FRY_STORE_LIST, "member/");
        CHECK(store_ask_run(&rig.clients[i], &lists[i]) == FERRY_OK);
        CHECK(lists[i].count == MEMBERS);
        store_ask_free(&lists[i]);
    }
    const int64_t listed_ns = fry_clock_monotonic_ns();
    for (size_t i = 0; i < MEMBERS; i++) {
        store_held_close(&held[i]);
        store_seen_free(&seen[i]);
    }
    store_rig_close(&rig);
    (void)printf("members: %d opened in %.1f ms, all seen by all after %.1f ms, listed by all "
                 "in %.1f ms\n",
                 MEMBERS, (double)(opened_ns - start_ns) / 1e6, (double)(seen_ns - start_ns) / 1e6,
                 (double)(listed_ns - seen_ns) / 1e6);
}

/* --- joining --- */

static int go[2], ready[2], joined[2];

static void join(size_t number)
{
    static store_rig rig;
    static store_seen seen;
    store_held held;
    char key[32], byte = 0;

    CHECK(write(ready[1], &byte, 1) == 1);
    (void)close(go[1]);
    CHECK(read(go[0], &byte, 1) == 0); /* closed: all at once */
    open_rig(&rig, 1);
    store_seen_start(&seen, &rig.clients[0], "member/");
    store_held_open(&held, &rig.clients[0]);
    (void)snprintf(key, sizeof key, "member/%zu", number);
    (void)store_put(&rig.clients[0], key, "here", &held.lease);
    while (seen.puts < JOINING)
        store_rig_turn(&rig);
    CHECK(seen.puts == JOINING && seen.deletes == 0 && seen.lost == 0);
    CHECK(write(joined[1], &byte, 1) == 1);
    store_rig_until(&rig, &held.is_over); /* till it is killed */
}

static void wait_for(int fd, size_t count)
{
    char byte;

    for (size_t i = 0; i < count; i++)
        CHECK(read(fd, &byte, 1) == 1);
}

static void joining(void)
{
    static pid_t children[JOINING];
    static store_rig rig;
    store_ask list;

    set_uri("joining");
    CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0);
    CHECK(pipe2(joined, O_CLOEXEC) == 0);
    for (size_t i = 0; i < JOINING; i++)
        children[i] = start(join, i);
    wait_for(ready[0], JOINING);
    const int64_t start_ns = fry_clock_monotonic_ns();
    (void)close(go[1]);
    wait_for(joined[0], JOINING);
    const int64_t joined_ns = fry_clock_monotonic_ns();
    for (size_t i = 0; i < JOINING; i++)
        CHECK(kill(children[i], SIGKILL) == 0);
    for (size_t i = 0; i < JOINING; i++)
        CHECK(WIFSIGNALED(end_of(children[i])));
    open_rig(&rig, 1); /* whoever comes next finds nobody, although no lease has run out */
    CHECK(store_ask_with(&rig.clients[0], FRY_STORE_LIST, "", NULL, 0, &list) == FERRY_OK);
    CHECK(list.count == 0);
    store_rig_close(&rig);
    (void)printf("joining: %d processes, all seen by all after %.1f ms\n", JOINING,
                 (double)(joined_ns - start_ns) / 1e6);
}

/* --- counters --- */

static void count_up(size_t number)
{
    static store_rig rig;
    uint64_t random = number + 1;

    open_rig(&rig, 1);
    store_client *client = &rig.clients[0];
    for (size_t i = 0; i < COUNTS; i++) {
        char key[16], value[32];
        bool is_done = false;

        (void)snprintf(key, sizeof key, "n%d", (int)(next_random(&random) % 3));
        while (!is_done) {
            store_ask get, set;
            const ferry_status status = store_get(client, key, &get);
            const unsigned long from = status == FERRY_OK ? strtoul(get.entry.value, NULL, 10) : 0;

            CHECK(status == FERRY_OK || status == FERRY_E_NOT_FOUND);
            (void)snprintf(value, sizeof value, "%lu", from + 1);
            const ferry_status swapped =
                store_ask_with(client, status == FERRY_OK ? FRY_STORE_SWAP : FRY_STORE_CREATE, key,
                               value, get.entry.version, &set);
            CHECK(swapped == FERRY_OK || swapped == FERRY_E_CHANGED);
            is_done = swapped == FERRY_OK;
            store_ask_free(&get);
            store_ask_free(&set);
        }
    }
    store_rig_leave(&rig);
}

static void counters(void)
{
    static store_rig rig;
    pid_t children[COUNTERS];
    unsigned long sum = 0;

    set_uri("counters");
    for (size_t i = 0; i < COUNTERS; i++)
        children[i] = start(count_up, i);
    for (size_t i = 0; i < COUNTERS; i++)
        CHECK(end_of(children[i]) == 0);
    open_rig(&rig, 1);
    for (int i = 0; i < 3; i++) {
        char key[32];
        store_ask get;

        (void)snprintf(key, sizeof key, "n%d", i);
        CHECK(store_get(&rig.clients[0], key, &get) == FERRY_OK);
        sum += strtoul(get.entry.value, NULL, 10);
        store_ask_free(&get);
    }
    CHECK(sum == (unsigned long)COUNTERS * COUNTS);
    store_rig_close(&rig);
    (void)printf("counters: %lu steps of %d processes, none lost\n", sum, COUNTERS);
}

/* --- lists --- */

static void put_on(size_t number)
{
    static store_rig rig;

    (void)number;
    open_rig(&rig, 1);
    for (size_t i = 0;; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "k%zu", i % LISTED);
        (void)store_put(&rig.clients[0], key, "value", NULL);
    }
}

static void lists(void)
{
    static store_rig rig;
    store_ask list;
    size_t complete = 0;

    set_uri("lists");
    open_rig(&rig, 1);
    const pid_t putter = start(put_on, 0);
    while (complete < LISTS) {
        CHECK(store_ask_with(&rig.clients[0], FRY_STORE_LIST, "", NULL, 0, &list) == FERRY_OK);
        CHECK(list.count == LISTED || complete == 0); /* it begins, too */
        complete += list.count == LISTED;
        store_ask_free(&list);
    }
    CHECK(kill(putter, SIGKILL) == 0 && WIFSIGNALED(end_of(putter)));
    store_rig_close(&rig);
    (void)printf("lists: %d of %d keys each\n", LISTS, LISTED);
}

/* --- killed --- */

#define BIG_BYTES 60000

/* A value of one letter, as long as the letter says, so that a part of one is told. */
static size_t fill(char *value, uint64_t random)
{
    const size_t letter = random % 26, bytes = 1 + letter * (BIG_BYTES / 26);

    memset(value, (int)('a' + letter), bytes);
    return bytes;
}

static bool is_whole(const fry_store_entry *entry)
{
    const char *value = entry->value;
    const size_t letter = (size_t)(value[0] - 'a');

    if (letter >= 26 || entry->value_bytes != 1 + letter * (BIG_BYTES / 26))
        return false;
    for (size_t i = 0; i < entry->value_bytes; i++) {
        if (value[i] != value[0])
            return false;
    }
    return true;
}

static void write_on(size_t number)
{
    static store_rig rig;
    static char value[BIG_BYTES];
    uint64_t random = number * 7919 + (uint64_t)getpid();

    open_rig(&rig, 1);
    for (;;) {
        static const fry_store_verb verbs[] = {FRY_STORE_PUT, FRY_STORE_CREATE, FRY_STORE_DELETE};
        store_ask ask;
        char key[32];

        (void)snprintf(key, sizeof key, "k%d", (int)(next_random(&random) % KEYS));
        store_ask_init(&ask, &rig.clients[0], verbs[next_random(&random) % 3], key);
        ask.request.value = value;
        ask.request.value_bytes = fill(value, next_random(&random));
        const ferry_status status = store_ask_run(&rig.clients[0], &ask);
        CHECK(status == FERRY_OK || status == FERRY_E_CHANGED || status == FERRY_E_NOT_FOUND);
        store_ask_free(&ask);
    }
}

static void check_event(store_seen *seen, fry_store_event event, const fry_store_entry *entry)
{
    (void)seen;
    if (event == FRY_STORE_IS_PUT)
        CHECK(is_whole(entry));
}

static size_t count_files(const char *name, bool makes_old)
{
    char path[160];
    size_t count = 0;

    (void)snprintf(path, sizeof path, "%s/killed/%s", folder, name);
    DIR *open_folder = opendir(path);
    CHECK(open_folder != NULL);
    for (const struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (makes_old)
            CHECK(utimensat(dirfd(open_folder), entry->d_name, times, 0) == 0);
    }
    (void)closedir(open_folder);
    return count;
}

static void killed(void)
{
    static store_rig rig;
    static store_seen seen;
    pid_t writers[WRITERS];
    uint64_t random = 77;

    set_uri("killed");
    open_rig(&rig, 2);
    store_seen_start(&seen, &rig.clients[0], "");
    seen.on_event = check_event;
    for (size_t i = 0; i < WRITERS; i++)
        writers[i] = start(write_on, i);
    for (size_t i = 0; i < KILLS; i++) {
        const size_t who = next_random(&random) % WRITERS;
        const int64_t until_ns =
            fry_clock_monotonic_ns() + (int64_t)(next_random(&random) % 20000000);

        while (fry_clock_monotonic_ns() < until_ns) {
            store_ask get;
            char key[32];

            (void)snprintf(key, sizeof key, "k%d", (int)(next_random(&random) % KEYS));
            const ferry_status status = store_get(&rig.clients[1], key, &get);
            CHECK(status == FERRY_E_NOT_FOUND || (status == FERRY_OK && is_whole(&get.entry)));
            store_ask_free(&get);
        }
        CHECK(kill(writers[who], SIGKILL) == 0);
        CHECK(WIFSIGNALED(end_of(writers[who])));
        writers[who] = start(write_on, who);
    }
    for (size_t i = 0; i < WRITERS; i++) {
        CHECK(kill(writers[i], SIGKILL) == 0);
        CHECK(WTERMSIG(end_of(writers[i])) == SIGKILL);
    }
    /* What they held is free, and the watch comes to know what there is. */
    for (int i = 0; i < KEYS; i++) {
        char key[32];

        (void)snprintf(key, sizeof key, "k%d", i);
        store_seen_until(&seen, key, store_put(&rig.clients[1], key, "a", NULL));
    }
    CHECK(seen.lost == 0);
    const size_t left = count_files("temporary", true);
    CHECK(left <= KILLS + WRITERS);
    store_seen_free(&seen);
    store_rig_close(&rig);
    open_rig(&rig, 1); /* who opens it tidies up */
    CHECK(count_files("temporary", false) == 0);
    store_rig_close(&rig);
    CHECK(count_files("keys", false) == 0 && count_files("leases", false) == 0);
    (void)printf("killed: %d writers, %zu leftovers, all of them gone\n", KILLS + WRITERS, left);
}

/* --- holders --- */

static void hold(size_t number)
{
    static store_rig rig;
    static store_held held;
    char key[32];

    open_rig(&rig, 1);
    store_held_open(&held, &rig.clients[0]);
    (void)snprintf(key, sizeof key, "h%zu", number);
    (void)store_put(&rig.clients[0], key, "held", &held.lease);
    store_rig_until(&rig, &held.is_over);
    CHECK(store_get(&rig.clients[0], key, NULL) == FERRY_E_NOT_FOUND);
    _exit(42);
}

static void holders(void)
{
    static store_rig rig;
    static store_seen seen;

    set_uri("holders");
    open_rig(&rig, 1);
    store_seen_start(&seen, &rig.clients[0], "");
    store_rig_until(&rig, &seen.is_listed);
    const pid_t dies = start(hold, 0), stops = start(hold, 1);
    while (store_seen_of(&seen, "h0") == NULL || store_seen_of(&seen, "h1") == NULL)
        store_rig_turn(&rig);
    const int64_t start_ns = fry_clock_monotonic_ns();
    CHECK(kill(dies, SIGKILL) == 0);
    store_seen_until(&seen, "h0", 0);
    const int64_t dead_ns = fry_clock_monotonic_ns();
    CHECK(WIFSIGNALED(end_of(dies)) && store_seen_of(&seen, "h1") != NULL);
    CHECK(kill(stops, SIGSTOP) == 0);
    store_seen_until(&seen, "h1", 0);
    const int64_t stopped_ns = fry_clock_monotonic_ns();
    CHECK(kill(stops, SIGCONT) == 0);
    const int status = end_of(stops);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    store_seen_free(&seen);
    store_rig_close(&rig);
    (void)printf("holders: killed, known after %.2f ms; stopped, after %.2f s of a lease of %d s\n",
                 (double)(dead_ns - start_ns) / 1e6, (double)(stopped_ns - dead_ns) / 1e9,
                 (int)(STORE_TTL_NS / 1000000000));
}

/* --- threads --- */

static void *share(void *arg)
{
    const size_t number = (size_t)(uintptr_t)arg;
    static const store_place shared = {.uri = "mem:threads"};

    for (size_t round = 0; round < ROUNDS; round++) {
        store_rig *rig = calloc(1, sizeof *rig);
        store_seen *seen = calloc(1, sizeof *seen);
        store_held held;
        char key[32];
        uint64_t version = 0;

        store_rig_open(rig, &shared, 1);
        (void)snprintf(rig->prefix, sizeof rig->prefix, "all/");
        (void)snprintf(key, sizeof key, "t%zu", number);
        store_seen_start(seen, &rig->clients[0], "");
        store_held_open(&held, &rig->clients[0]);
        for (size_t i = 0; i < 20; i++) {
            version = store_put(&rig->clients[0], key, "mine", i % 2 == 0 ? &held.lease : NULL);
            (void)store_put(&rig->clients[0], "both", "ours", NULL);
            (void)store_try(&rig->clients[0], FRY_STORE_DELETE, "both", NULL, 0);
        }
        store_seen_until(seen, key, version);
        if (round % 2 == 0)
            store_seen_free(seen);
        store_held_close(&held);
        if (round % 2 == 1)
            store_seen_free(seen);
        (void)snprintf(rig->prefix, sizeof rig->prefix, "all/t%zu", number); /* only its own go */
        store_rig_close(rig);
        free(seen);
        free(rig);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i], NULL, share, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    (void)printf("threads: %d x %d\n", THREADS, ROUNDS);
}

int main(void)
{
    (void)signal(SIGALRM, hung);
    (void)alarm(HANG_S * PATIENCE);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    temporary_folder_make(folder);
    members();
    joining();
    counters();
    lists();
    killed();
    holders();
    threads();
    return 0;
}
