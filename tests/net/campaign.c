/* SPDX-License-Identifier: Apache-2.0 */
/*
 * campaign [minutes=M] [members=N] [store=file|etcd] [hosts=H] [busy=B] [seed=S] [lease_ms=L]
 *          [loop=embedded|thread] [window_bytes=W] [stops=short] [halt_s=S] [fault_ms=MS]
 *
 * Members of a job exchange messages of all sizes while some of them are killed and started anew,
 * stopped for less and for more than their lease, told to leave and join again, and, on hosts of
 * their own, cut off. The faults come from a seed. Now and then all of it is halted: then every
 * member is there, every operation has ended and is quiet, the engines' dumps are empty, all have
 * one view of who lives, each reaches each, and what a process holds has not grown.
 *
 * seed=0 takes another one each time, and says which. What a seed settles is who is to have which
 * fault after what rest, and each member's own choices; what they meet, the machine settles.
 *
 * Ranks 0 and 1 are never killed, and rank 0 is never stopped for longer than its lease: it is they
 * whose memory is compared. The members check for themselves what they send, receive and wait for
 * (tests/support/campaign_*), and count it on a board.
 */
#include "tests/support/campaign.h"
#include "tests/support/etcd_server.h"
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND_NS INT64_C(1000000)
#define SECOND_NS (1000 * MILLISECOND_NS)
#define SURVIVORS 2
#define SAMPLES_MAX 4096
#define WARM_SAMPLES 3 /* that count for nothing: buffers and caches fill */
#define GROWTH_KIB_MAX 1024
#define GAPS_KIB_MAX 4096
#define CACHES_KIB 3072   /* more, while there were fewer deaths than */
#define CACHES_DEATHS 100 /* for what fills by chance, once: most in use at a time, heaps' gaps */
#define JOIN_NS (90 * SECOND_NS) /* until a member is there again; more is a hang */
#define CALM_NS (60 * SECOND_NS)
#define CUT_NS_MAX 4000 /* milliseconds that a cable is out */
#define SHOWN_HANGS 3
#define UCX_ABORTS_DEATHS 25 /* on hosts: one of UCX's own for so many deaths is known */
#define VIEWS 150            /* tries */
#define PROBES 5             /* likewise */
#define ROUNDS 5             /* likewise */
#define HALTS 5              /* likewise */
#define ANSWERS 64           /* to who lives, that are remembered */

typedef enum place_state {
    PLACE_EMPTY = 0, /* to be started at `when_ns` */
    PLACE_JOINING,
    PLACE_HERE,
    PLACE_STOPPED, /* to be continued at `when_ns` */
} place_state;

/* What a process holds. Memory is what it has alone: of what it shares with another end the pages
 * fill as a connection gets older, anew for each connection; one that stays shows among the
 * mappings. What malloc has free between others' blocks is apart: UCX's buffers for TCP leave gaps
 * of 132 KiB. */
typedef struct figures {
    int64_t used_kib, free_kib, descriptors, threads, maps;
} figures;

typedef struct place {
    place_state state;
    net_member *member; /* NULL: EMPTY */
    int64_t when_ns, since_ns;
    bool is_cut; /* its host's cable, until cut_until_ns */
    int64_t cut_until_ns;
    bool has_answered; /* what all are asked */
    char answer[256];
    figures samples[SAMPLES_MAX]; /* survivors' */
    size_t samples_from;          /* of the process that it is now */
} place;

/* Who lives, as a round found. */
typedef struct answer {
    unsigned long long round;
    char ranks[64];
} answer;

static struct {
    int64_t minutes, seconds, members, hosts, busy, seed, lease_ms, window_bytes, halt_s, fault_ms;
    const char *store, *loop;
    bool has_short_stops;
} options = {.seconds = 40,
             .members = 5,
             .lease_ms = 2000,
             .window_bytes = 65536,
             .halt_s = 20,
             .fault_ms = 550,
             .busy = 1,
             .seed = 1,
             .store = "file"};

static campaign_board *board;
static place *places;
static uint64_t random_state;
static char store_uri[512];
static int64_t deaths, stops, rejoins, cuts, hangs, aborts, ucx_aborts;
static int64_t disagreements, probes_failed;
static uint64_t question, meeting;
static answer answers[ANSWERS];
static int64_t answers_compared;
static bool has_barrier_passed, has_barrier_failed;
static size_t sample_count;
static bool is_disturbed; /* somebody has ended by itself during this halt */

/* ---- members ---- */

/*
 * Loops, spins and bounds of its own for each start. A member that gets no time posts hundreds
 * fewer receives than the others' sends; a connection on which as many as unexpected_max have no
 * receive takes no probe either, so there is room for several times as many.
 */
static void start(uint32_t rank)
{
    static const unsigned windows[] = {1024, 1024, 16, 2};
    static const unsigned unexpected[] = {65536, 65536, 4096, 2048};
    place *place = &places[rank];
    char arguments[11][600];
    const char *loops[] = {"thread", "thread", "embedded"};
    const struct {
        const char *format;
        long long number;
    } numbers[] = {{"rank=%lld", rank},
                   {"size=%lld", options.members},
                   {"lease_ms=%lld", options.lease_ms},
                   {"seed=%lld", (long long)campaign_random(&random_state, INT32_MAX)},
                   {"window_bytes=%lld", options.window_bytes},
                   {"wait_spin_us=%lld", 20 * (long long)campaign_random(&random_state, 3)},
                   {"window_messages=%lld", windows[campaign_random(&random_state, 4)]},
                   {"unexpected_max=%lld", unexpected[campaign_random(&random_state, 4)]}};
    const char *loop =
        options.loop != NULL ? options.loop : loops[campaign_random(&random_state, 3)];
    for (size_t i = 0; i < 8; i++)
        (void)snprintf(arguments[i], sizeof arguments[i], numbers[i].format, numbers[i].number);
    (void)snprintf(arguments[8], sizeof arguments[8], "store=%s", store_uri);
    (void)snprintf(arguments[9], sizeof arguments[9], "board=%s/board", net_folder());
    (void)snprintf(arguments[10], sizeof arguments[10], "loop=%s", loop);
    place->member =
        net_start(options.hosts > 0 ? (int)(rank % (uint32_t)options.hosts) : NET_HERE, "member",
                  arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                  arguments[5], arguments[6], arguments[7], arguments[8], arguments[9],
                  arguments[10], options.hosts > 0 ? "network=eth0" : "network=lo",
                  getenv("CAMPAIGN_LOG") != NULL ? "" : "silent=yes", NULL);
    place->state = PLACE_JOINING;
    place->since_ns = net_now_ns();
    net_tell(place->member, "do go");
}

/* Nobody killed it. */
static void has_aborted(uint32_t rank)
{
    place *place = &places[rank];
    int status = net_end_status(place->member);
    if (options.hosts > 0 && WIFEXITED(status) && WEXITSTATUS(status) == CAMPAIGN_UCX_STATUS)
        ucx_aborts++;
    else
        aborts++;
    is_disturbed = true;
    place->samples_from = sample_count;
    fprintf(stderr, "campaign: rank %u ended by itself: %s %d\n", (unsigned)rank,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    place->member = NULL;
    place->state = PLACE_EMPTY;
    place->when_ns = net_now_ns();
}

static void has_joined(uint32_t rank)
{
    place *place = &places[rank];
    if (place->state == PLACE_JOINING)
        place->state = PLACE_HERE;
}

/* What one round's answer is to one member it is to all. */
static void compare_alive(uint32_t rank, const char *line)
{
    unsigned long long number = 0, round = 0;
    char status[32] = "", ranks[64] = "";
    (void)sscanf(line, "alive %llu %31s %llu %63s", &number, status, &round, ranks);
    if (strcmp(status, "FERRY_OK") != 0)
        return;
    answer *answer = &answers[round % ANSWERS];
    answers_compared++;
    if (answer->round != round || strcmp(answer->ranks, ranks) != 0) {
        if (answer->round == round) {
            disagreements++;
            fprintf(stderr, "campaign: round %llu: rank %u says that %s live, another said %s\n",
                    round, (unsigned)rank, ranks, answer->ranks);
        }
        answer->round = round;
        (void)snprintf(answer->ranks, sizeof answer->ranks, "%s", ranks);
    }
}

static void compare_barrier(const char *line)
{
    unsigned long long number = 0;
    char status[32] = "";
    (void)sscanf(line, "met %llu %31s", &number, status);
    if (number != meeting)
        return;
    has_barrier_passed |= strcmp(status, "FERRY_OK") == 0;
    has_barrier_failed |= strcmp(status, "FERRY_E_DEAD") == 0;
}

static void take_line(uint32_t rank, const char *line)
{
    place *place = &places[rank];
    char word[32] = "";
    unsigned long long number = 0;
    (void)sscanf(line, "%31s %llu", word, &number);
    if (strcmp(word, "joined") == 0) {
        has_joined(rank);
    } else if (strcmp(word, "met") == 0) {
        compare_barrier(line);
    } else if (number == question && question != meeting) {
        place->has_answered = true;
        (void)snprintf(place->answer, sizeof place->answer, "%s", line);
    }
    if (strcmp(word, "alive") == 0)
        compare_alive(rank, line);
}

/* Hears what members say until then, and one line at least if there is one. */
static void listen_until(int64_t until_ns)
{
    net_member *from[CAMPAIGN_MEMBERS_MAX];
    for (;;) {
        size_t which = 0;
        const char *line = NULL;
        for (int64_t i = 0; i < options.members; i++)
            from[i] = places[i].member;
        int64_t left_ns = until_ns - net_now_ns();
        switch (
            net_listen(from, (size_t)options.members, left_ns > 0 ? left_ns : 0, &which, &line)) {
        case NET_LINE:
            take_line((uint32_t)which, line);
            break;
        case NET_ENDED:
            has_aborted((uint32_t)which);
            break;
        default:
            if (left_ns <= 0)
                return;
            break;
        }
    }
}

/* ---- faults ---- */

static void kill_one(uint32_t rank)
{
    place *place = &places[rank];
    net_signal(place->member, SIGKILL);
    (void)net_end_status(place->member);
    deaths++;
    place->member = NULL;
    place->state = PLACE_EMPTY;
    place->when_ns = net_now_ns();
    if (campaign_random(&random_state, 2) == 0)
        place->when_ns += (int64_t)campaign_random(&random_state, 3000) * MILLISECOND_NS;
}

static void stop_one(uint32_t rank, bool is_long)
{
    place *place = &places[rank];
    int64_t lease_ms = options.lease_ms;
    int64_t stop_ms =
        is_long ? lease_ms + 500 + (int64_t)campaign_random(&random_state, (uint64_t)lease_ms)
                : (int64_t)campaign_random(&random_state, (uint64_t)lease_ms * 3 / 5);
    net_signal(place->member, SIGSTOP);
    stops++;
    place->state = PLACE_STOPPED;
    place->when_ns = net_now_ns() + stop_ms * MILLISECOND_NS;
}

static void cut_one(uint32_t rank)
{
    place *place = &places[rank];
    net_host_plug(rank, false);
    cuts++;
    place->is_cut = true;
    place->cut_until_ns =
        net_now_ns() + (int64_t)campaign_random(&random_state, CUT_NS_MAX) * MILLISECOND_NS;
}

static void tell_all(const char *what, uint64_t number)
{
    for (int64_t i = 0; i < options.members; i++) {
        if (places[i].member != NULL)
            net_tell(places[i].member, "do %s %llu", what, (unsigned long long)number);
    }
}

/* Those who are told meet in the same round, or hear that they don't. */
static void meet(void)
{
    if (has_barrier_passed && has_barrier_failed) {
        disagreements++;
        fprintf(stderr, "campaign: barrier %llu was passed, and a death there\n",
                (unsigned long long)meeting);
    }
    has_barrier_passed = has_barrier_failed = false;
    meeting = ++question;
    tell_all("meet", meeting);
}

static void do_one_fault(void)
{
    uint64_t dice = campaign_random(&random_state, 100);
    uint32_t rank = (uint32_t)campaign_random(&random_state, (uint64_t)options.members);
    place *place = &places[rank];
    if (dice < 12) {
        meet();
        return;
    }
    if (place->state != PLACE_HERE)
        return;
    if (dice < 55) {
        if (rank >= SURVIVORS)
            kill_one(rank);
    } else if (dice < 75) {
        stop_one(rank, false);
    } else if (dice < 83) {
        if (rank > 0 && !options.has_short_stops)
            stop_one(rank, true);
    } else if (dice < 92) {
        rejoins++;
        net_tell(place->member, "do rejoin");
    } else if (options.hosts >= options.members && !place->is_cut && rank > 0) {
        cut_one(rank);
    }
}

/* What is due: starts, continues, plugs in. */
static void do_what_is_due(bool is_all)
{
    int64_t now_ns = net_now_ns();
    for (uint32_t i = 0; i < (uint32_t)options.members; i++) {
        place *place = &places[i];
        if (place->is_cut && (is_all || now_ns >= place->cut_until_ns)) {
            net_host_plug(i, true);
            place->is_cut = false;
        }
        bool is_due = is_all || now_ns >= place->when_ns;
        if (place->state == PLACE_EMPTY && is_due) {
            start(i);
        } else if (place->state == PLACE_STOPPED && is_due) {
            net_signal(place->member, SIGCONT);
            place->state = PLACE_HERE;
        } else if (place->state == PLACE_JOINING && now_ns - place->since_ns > JOIN_NS) {
            fprintf(stderr, "campaign: rank %u does not come back\n", (unsigned)i);
            if (hangs++ < SHOWN_HANGS)
                net_show(place->member);
            place->since_ns = now_ns;
        }
    }
}

/* ---- halts ---- */

/* Asks all, and waits until all have answered. False: some have not, in time, or can't. */
static bool ask_all(const char *what, int64_t bound_ns)
{
    int64_t end_ns = net_now_ns() + bound_ns;
    question++;
    for (int64_t i = 0; i < options.members; i++)
        places[i].has_answered = false;
    tell_all(what, question);
    for (;;) {
        int64_t left = 0;
        listen_until(net_now_ns() + 20 * MILLISECOND_NS);
        for (int64_t i = 0; i < options.members; i++)
            left += !places[i].has_answered;
        if (left == 0)
            return true;
        if (is_disturbed)
            return false;
        if (net_now_ns() > end_ns)
            break;
    }
    for (int64_t i = 0; i < options.members; i++) {
        if (places[i].has_answered)
            continue;
        fprintf(stderr, "campaign: rank %lld does not answer \"%s %llu\"\n", (long long)i, what,
                (unsigned long long)question);
        if (hangs++ < SHOWN_HANGS && places[i].member != NULL)
            net_show(places[i].member);
    }
    return false;
}

static bool are_answers_same(void)
{
    for (int64_t i = 1; i < options.members; i++) {
        const char *first = strchr(places[0].answer, ' ');
        const char *other = strchr(places[i].answer, ' ');
        if (first == NULL || other == NULL || strcmp(first, other) != 0)
            return false;
    }
    return true;
}

/* All see the same, which may take as long as the store takes to tell, and that all are there.
 * False: they don't. */
static bool compare_views(void)
{
    for (int i = 0; i < VIEWS; i++) {
        if (!ask_all("view", CALM_NS))
            return false;
        if (are_answers_same() && strstr(places[0].answer, " 0:") == NULL &&
            strstr(places[0].answer, " 2:") == NULL && strstr(places[0].answer, " 3:") == NULL)
            return true;
        listen_until(net_now_ns() + 100 * MILLISECOND_NS);
    }
    disagreements++;
    for (int64_t i = 0; i < options.members; i++)
        fprintf(stderr, "campaign: rank %lld sees: %s\n", (long long)i, places[i].answer);
    return true;
}

/* Each reaches each, unless one loses its place meanwhile, as a machine that is busy enough may
 * bring about. False: it can't be gone on with. */
static bool probe(void)
{
    char view[256];
    for (int i = 0; i < PROBES; i++) {
        int64_t failed = 0;
        if (!compare_views())
            return false;
        (void)snprintf(view, sizeof view, "%s", strchr(places[0].answer + 5, ' '));
        if (!ask_all("probe", CALM_NS))
            return false;
        for (int64_t rank = 0; rank < options.members; rank++)
            failed += net_number(places[rank].answer, "failed");
        if (failed == 0)
            return true;
        listen_until(net_now_ns() + (options.lease_ms + 1000) * MILLISECOND_NS);
        if (!compare_views())
            return false;
        if (strcmp(view, strchr(places[0].answer + 5, ' ')) == 0) {
            probes_failed += failed;
            return true;
        }
    }
    return true;
}

static void sample(void)
{
    if (!ask_all("figures", CALM_NS) || sample_count == SAMPLES_MAX)
        return;
    for (int64_t i = 0; i < SURVIVORS; i++) {
        const char *answer = places[i].answer;
        places[i].samples[sample_count] = (figures){
            .used_kib = net_number(answer, "anonymous_kib") - net_number(answer, "free_kib"),
            .free_kib = net_number(answer, "free_kib"),
            .descriptors = net_number(answer, "descriptors"),
            .threads = net_number(answer, "threads"),
            .maps = net_number(answer, "maps")};
        printf("%4lld deaths, rank %lld: %s\n", (long long)deaths, (long long)i,
               strstr(answer, "rss_kib"));
    }
    (void)fflush(stdout);
    sample_count++;
}

static size_t folder_entries(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        (void)closedir(folder);
    return count;
}

/* Who was stopped may be a round behind the others, which an answer mends; and who has lost its
 * place just now is there again when all see it. */
static bool ask_who_lives(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (!ask_all("alive", CALM_NS))
            return false;
        if (are_answers_same() && strstr(places[0].answer, " FERRY_OK ") != NULL)
            return true;
        if (!compare_views())
            return false;
    }
    disagreements++;
    for (int64_t i = 0; i < options.members; i++)
        fprintf(stderr, "campaign: rank %lld: %s\n", (long long)i, places[i].answer);
    return true;
}

/* False: it can't be gone on with. */
static bool try_halt(void)
{
    is_disturbed = false;
    do_what_is_due(true);
    /* Who was stopped for too long learns that now. */
    listen_until(net_now_ns() + (options.lease_ms + 1000) * MILLISECOND_NS);
    if (!ask_all("calm", CALM_NS + JOIN_NS))
        return false;
    if (!probe() || !ask_who_lives())
        return false;
    sample();
    if (strncmp(store_uri, "file:", 5) == 0) {
        printf("  store: %zu entries, /dev/shm: %zu\n", folder_entries(store_uri + 5),
               folder_entries("/dev/shm"));
    }
    tell_all("go", 0);
    return true;
}

/* Again if somebody ends meanwhile. */
static bool halt(void)
{
    for (int i = 0; i < HALTS; i++) {
        if (try_halt())
            return true;
        if (!is_disturbed)
            break;
    }
    return false;
}

/* ---- the whole ---- */

static uint64_t total(campaign_count count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < CAMPAIGN_MEMBERS_MAX; i++)
        sum += atomic_load(&board->counts[i][count]);
    return sum;
}

static void run_faults(int64_t until_ns)
{
    while (net_now_ns() < until_ns) {
        int64_t rest_ns = (int64_t)(campaign_random(&random_state, (uint64_t)options.fault_ms) +
                                    campaign_random(&random_state, (uint64_t)options.fault_ms)) *
                          MILLISECOND_NS;
        int64_t next_ns = net_now_ns() + rest_ns;
        while (net_now_ns() < next_ns) {
            do_what_is_due(false);
            listen_until(net_now_ns() + 20 * MILLISECOND_NS);
        }
        do_one_fault();
    }
}

static void end_all(void)
{
    for (int64_t i = 0; i < options.members; i++) {
        if (places[i].member != NULL)
            net_tell(places[i].member, "do end");
    }
    for (int64_t i = 0; i < options.members; i++) {
        if (places[i].member == NULL)
            continue;
        int status = net_end_status(places[i].member);
        places[i].member = NULL;
        if (status != 0) {
            aborts++;
            fprintf(stderr, "campaign: rank %lld ended with %d\n", (long long)i, status);
        }
    }
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Of a third of the samples, the first or the last, that of the middle. */
static int64_t median(const place *place, bool is_last, size_t offset)
{
    int64_t numbers[SAMPLES_MAX];
    size_t warm = place->samples_from + WARM_SAMPLES;
    size_t third = (sample_count - warm) / 3 > 0 ? (sample_count - warm) / 3 : 1;
    size_t first = is_last ? sample_count - third : warm;
    for (size_t i = 0; i < third; i++)
        numbers[i] =
            *(const int64_t *)(const void *)((const char *)&place->samples[first + i] + offset);
    qsort(numbers, third, sizeof numbers[0], compare_numbers);
    return numbers[third / 2];
}

/* A sanitizer keeps what is freed for a while. */
static int64_t growth_kib_max(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return INT64_MAX;
#else
    return GROWTH_KIB_MAX + (deaths < CACHES_DEATHS ? CACHES_KIB : 0);
#endif
}

static bool say_growth(uint32_t rank)
{
    const place *place = &places[rank];
    if (sample_count < place->samples_from + WARM_SAMPLES + 2)
        return true;
    const struct {
        const char *name;
        size_t offset;
        int64_t bound;
    } parts[] = {{"KiB", offsetof(figures, used_kib), growth_kib_max()},
                 {"KiB of gaps", offsetof(figures, free_kib), GAPS_KIB_MAX},
                 {"descriptors", offsetof(figures, descriptors), 8},
                 {"threads", offsetof(figures, threads), 0},
                 {"mappings", offsetof(figures, maps), 16}};
    bool is_flat = true;
    printf("rank %u grew by", (unsigned)rank);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t growth =
            median(place, true, parts[i].offset) - median(place, false, parts[i].offset);
        printf("%s %lld %s", i > 0 ? "," : "", (long long)growth, parts[i].name);
        is_flat = is_flat && growth <= parts[i].bound;
    }
    printf("%s\n", is_flat ? "" : ": NOT FLAT");
    return is_flat;
}

static bool say_summary(void)
{
    bool is_good = hangs == 0 && aborts == 0 && disagreements == 0 && probes_failed == 0 &&
                   ucx_aborts <= 1 + deaths / UCX_ABORTS_DEATHS;
    for (uint32_t i = 0; i < SURVIVORS; i++)
        is_good = say_growth(i) && is_good;
    printf("campaign seed=%lld: %lld deaths, %lld stops, %lld rejoins, %lld cuts, %lld hangs, "
           "%lld aborts, %lld of UCX, %lld disagreements of %lld, %lld failed probes",
           (long long)options.seed, (long long)deaths, (long long)stops, (long long)rejoins,
           (long long)cuts, (long long)hangs, (long long)aborts, (long long)ucx_aborts,
           (long long)disagreements, (long long)answers_compared, (long long)probes_failed);
#define SAY(name, text, is_fault)                                                                  \
    printf(", %llu %s", (unsigned long long)total(CAMPAIGN_##name), text);                         \
    is_good = is_good && !((is_fault) && total(CAMPAIGN_##name) > 0);
    CAMPAIGN_COUNT_MAP(SAY)
#undef SAY
    printf(": %s\n", is_good ? "good" : "NOT GOOD");
    return is_good;
}

/* Something that computes all the time beside the members; dies with the test. */
static void start_busy(void)
{
    for (int64_t i = 0; i < options.busy; i++) {
        if (fork() != 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t number = 0;; number++)
            continue;
    }
}

static void open_store(void)
{
    if (access("/sys/class/net", F_OK) != 0)
        net_skip("UCX finds no network without /sys");
    if (strcmp(options.store, "etcd") != 0) {
        (void)snprintf(store_uri, sizeof store_uri, "file:%s/store", net_folder());
        return;
    }
    if (etcd_absent() != NULL)
        net_skip("%s", etcd_absent());
    etcd_cluster *cluster = etcd_cluster_start(3, NULL);
    NET_CHECK(cluster != NULL, "no etcd");
    (void)snprintf(store_uri, sizeof store_uri, "%s", etcd_cluster_uri(cluster));
}

static void campaign(void)
{
    char path[128];
    int64_t length_ns = options.seconds * SECOND_NS;
    int64_t halt_ns = options.halt_s * SECOND_NS;
    if (halt_ns > length_ns / 8)
        halt_ns = length_ns / 8;
    printf("campaign seed=%lld\n", (long long)options.seed);
    random_state = (uint64_t)options.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    (void)snprintf(path, sizeof path, "%s/board", net_folder());
    board = campaign_board_open(path);
    places = calloc((size_t)options.members, sizeof *places);
    NET_CHECK(board != NULL && places != NULL, "no memory");
    open_store();
    if (options.hosts > 0)
        net_hosts_open((unsigned)options.hosts, NET_CABLE_VETH);
    start_busy();
    int64_t end_ns = net_now_ns() + length_ns;
    bool is_well = true;
    while (is_well && net_now_ns() < end_ns) {
        run_faults(net_now_ns() + halt_ns);
        is_well = halt();
    }
    if (is_well)
        end_all();
    bool is_good = say_summary() && is_well;
    NET_CHECK(is_good, "seed %lld", (long long)options.seed);
}

static bool take_option(const char *text)
{
    static const struct {
        const char *name;
        int64_t *number;
    } numbers[] = {{"minutes=", &options.minutes},   {"seconds=", &options.seconds},
                   {"members=", &options.members},   {"hosts=", &options.hosts},
                   {"busy=", &options.busy},         {"seed=", &options.seed},
                   {"lease_ms=", &options.lease_ms}, {"window_bytes=", &options.window_bytes},
                   {"halt_s=", &options.halt_s},     {"fault_ms=", &options.fault_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(text, numbers[i].name, length) == 0) {
            *numbers[i].number = strtoll(text + length, NULL, 10);
            return true;
        }
    }
    if (strncmp(text, "store=", 6) == 0)
        options.store = text + 6;
    else if (strncmp(text, "loop=", 5) == 0)
        options.loop = text + 5;
    else if (strcmp(text, "stops=short") == 0)
        options.has_short_stops = true;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", campaign_member}};
    if (argc > 2 && strcmp(argv[1], "--role") == 0)
        return net_test_main(argc, argv, roles, 1, NULL, 0);
    for (int i = 1; i < argc; i++) {
        if (!take_option(argv[i])) {
            fprintf(stderr, "campaign: no option %s\n", argv[i]);
            return 2;
        }
    }
    if (options.minutes > 0)
        options.seconds = options.minutes * 60;
    if (options.seed == 0)
        options.seed = (int64_t)(net_now_ns() / 1000 % 1000000);
    NET_CHECK(options.members > SURVIVORS && options.members <= CAMPAIGN_MEMBERS_MAX,
              "3 to %d members", CAMPAIGN_MEMBERS_MAX);
    const net_case whole = {"campaign", campaign, (int)options.seconds + 600};
    return net_test_main(1, argv, roles, 1, &whole, 1);
}
