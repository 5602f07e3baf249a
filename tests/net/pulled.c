/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A campaign against large messages: members of one host send all others messages that are pulled
 * out of the senders' memory, while some of them are stopped, for moments and for longer than their
 * lease, and killed. Each message says who sent it, in which life, and as the how many-th, and ends
 * with a hash; a sender overwrites it as soon as it is quiet. A receive that ends well must have
 * one whole message, newer than the one before.
 *
 * In the cases with GPUs most slots are GPU memory at either end, and messages are larger than one
 * piece; CUDA must be there, or the emulated one.
 *
 *     pulled [CASE...] [messages=N] [seed=N]
 *
 * ends once so many have come well (the default is made for every day), and says what it did.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"
#include "tests/support/no_reading.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define MEMBERS 3
#define SLOTS 6 /* messages under way, each way of each pair */
#define MILLISECOND_NS INT64_C(1000000)
#define LEASE_MS 5000 /* as long as a busy machine keeps nobody from a CPU */
#define BYTES_MAX 66000
#define BYTES_MIN 16500
#define LOOK_NS (50 * MILLISECOND_NS) /* whether all is over */
#define STOP_MS (2 * LEASE_MS)        /* then it is dead to the others for sure */

/* What all members count, killed or not: a file that they map. */
typedef struct counts {
    uint64_t good, good_bytes, nccl_bytes, failed_receives, sent, failed_sends, wrong;
} counts;

static uint64_t messages_wanted = 6000;
static uint64_t seed = 1;

static void count(uint64_t *at, uint64_t more)
{
    (void)__atomic_fetch_add(at, more, __ATOMIC_RELAXED);
}

static uint64_t look(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* The test's, or a member's. */
static counts *map_counts(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NET_SELF_CHECK(file >= 0 && ftruncate(file, sizeof(counts)) == 0, "no file for counts");
    counts *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    NET_SELF_CHECK(found != MAP_FAILED, "counts can't be mapped");
    (void)close(file);
    return found;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t word = (*state += UINT64_C(0x9e3779b97f4a7c15));
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* ---- messages ---- */

typedef struct head {
    uint64_t sender, receiver, life, number, size_bytes;
} head;

static ferry_device *gpu; /* of this member; NULL: it uses the host alone */

/* Both ends know the sizes, by the slot. With GPUs the larger ones go in pieces. */
static size_t slot_bytes(size_t slot)
{
    size_t bytes = BYTES_MIN + (BYTES_MAX - BYTES_MIN) / (SLOTS - 1) * slot;
    return gpu != NULL && slot >= SLOTS / 2 ? bytes * 40 : bytes;
}

static void write_message(unsigned char *at, const head *head)
{
    uint64_t state = head->life << 40 ^ head->number << 8 ^ head->sender;
    memcpy(at, head, sizeof(*head));
    size_t end = head->size_bytes - sizeof(XXH64_hash_t);
    for (size_t i = sizeof(*head); i + 8 <= end; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(at + i, &state, sizeof(state));
    }
    XXH64_hash_t hash = XXH64(at, end, head->life);
    memcpy(at + end, &hash, sizeof(hash));
}

static bool is_message(const unsigned char *at, size_t size_bytes, uint64_t sender,
                       uint64_t receiver, const head *before, head *found)
{
    XXH64_hash_t hash;
    size_t end = size_bytes - sizeof(hash);
    memcpy(found, at, sizeof(*found));
    memcpy(&hash, at + end, sizeof(hash));
    return found->sender == sender && found->receiver == receiver &&
           found->size_bytes == size_bytes && hash == XXH64(at, end, found->life) &&
           (found->life > before->life ||
            (found->life == before->life && found->number > before->number));
}

/* ---- members ---- */

/* One direction of a pair. */
typedef struct way {
    net_self *self;
    uint32_t peer;
    bool is_send;
    uint64_t life;
    counts *counts;
    const bool *is_over; /* atomic */
    bool *is_shut_out;   /* atomic: it was stopped for too long */
} way;

typedef struct slot {
    ferry_buffer *buffer; /* what is sent, or received into */
    ferry_buffer *host;   /* where it is written and looked at: the same, or `buffer` is a GPU's */
    unsigned char *bytes;
    ferry_future *future;
    uint64_t number; /* a send's */
    head last;       /* a receive's */
} slot;

static bool is_set(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void copy(const way *way, ferry_buffer *to, ferry_buffer *from)
{
    if (to == from)
        return;
    ferry_future *copied =
        ferry_copy(way->self->engine, ferry_buffer_span(to), ferry_buffer_span(from), NULL);
    NET_SELF_CHECK(ferry_future_wait(copied, -1) == FERRY_OK, "a copy failed");
    ferry_future_release(copied);
}

static void begin(const way *way, slot *slot, size_t index)
{
    size_t size_bytes = slot_bytes(index);
    if (way->is_send) {
        head head = {way->self->rank, way->peer, way->life, ++slot->number, size_bytes};
        write_message(slot->bytes, &head);
        copy(way, slot->buffer, slot->host);
    }
    ferry_span span = {slot->buffer, 0, size_bytes};
    slot->future = (way->is_send ? ferry_send : ferry_recv)(way->self->group, way->peer,
                                                            100 + index, span, NULL);
}

/* Its memory is the member's again. */
static void await_quiet(slot *slot)
{
    ferry_future *quiet = ferry_future_quiet(slot->future);
    NET_SELF_CHECK(ferry_future_wait(quiet, -1) == FERRY_OK, "quiet failed");
    ferry_future_release(quiet);
}

static void check(const way *way, slot *slot, size_t index)
{
    head found;
    if (!is_message(slot->bytes, slot_bytes(index), way->peer, way->self->rank, &slot->last,
                    &found)) {
        count(&way->counts->wrong, 1);
        net_self_fail("slot %zu of rank %u holds, well received: sender %" PRIu64 ", life %" PRIu64
                      ", number %" PRIu64 " after %" PRIu64 " of %" PRIu64,
                      index, (unsigned)way->peer, found.sender, found.life, found.number,
                      slot->last.number, slot->last.life);
    }
    slot->last = found;
}

/* Once all is over nobody may be there for it: the other's way ended a round ahead of this one, and
 * the other waits in the same manner for a way of this member's. */
static ferry_status await_end(const way *way, slot *slot)
{
    ferry_status status;
    while ((status = ferry_future_wait(slot->future, LOOK_NS)) == FERRY_PENDING) {
        if (is_set(way->is_over))
            (void)ferry_future_cancel(slot->future);
    }
    return status;
}

static void end(const way *way, slot *slot, size_t index)
{
    ferry_status status = await_end(way, slot);
    await_quiet(slot);
    if (way->is_send) {
        count(status == FERRY_OK ? &way->counts->sent : &way->counts->failed_sends, 1);
    } else if (status == FERRY_OK) {
        copy(way, slot->host, slot->buffer);
        check(way, slot, index);
        count(&way->counts->good, 1);
        count(&way->counts->good_bytes, slot_bytes(index));
    } else {
        count(&way->counts->failed_receives, 1);
    }
    memset(slot->bytes, 0xee, slot_bytes(index));
    copy(way, slot->buffer, slot->host);
    ferry_future_release(slot->future);
    slot->future = NULL;
    if (status == FERRY_E_FENCED)
        __atomic_store_n(way->is_shut_out, true, __ATOMIC_RELEASE);
    if (status != FERRY_OK && !is_set(way->is_over)) /* until the other is there again */
        (void)nanosleep(&(struct timespec){.tv_nsec = 5 * MILLISECOND_NS}, NULL);
}

static void *run_way(void *arg)
{
    const way *way = arg;
    slot slots[SLOTS] = {0};
    ferry_device *device = ferry_device_at(way->self->engine, 0);
    for (size_t i = 0; i < SLOTS; i++) {
        NET_SELF_CHECK(ferry_buffer_alloc(device, slot_bytes(i), &slots[i].host) == FERRY_OK,
                       "no memory");
        slots[i].bytes = ferry_buffer_data(slots[i].host);
        slots[i].buffer = slots[i].host;
        if (gpu != NULL && (i % 3 != 0 || way->is_send)) /* some go from a GPU to a host */
            NET_SELF_CHECK(ferry_buffer_alloc(gpu, slot_bytes(i), &slots[i].buffer) == FERRY_OK,
                           "no memory");
        begin(way, &slots[i], i);
    }
    while (!is_set(way->is_over)) {
        for (size_t i = 0; i < SLOTS; i++) {
            end(way, &slots[i], i);
            begin(way, &slots[i], i);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        (void)ferry_future_cancel(slots[i].future);
        end(way, &slots[i], i);
        if (slots[i].buffer != slots[i].host)
            ferry_buffer_release(slots[i].buffer);
        ferry_buffer_release(slots[i].host);
    }
    return NULL;
}

static int member(int argc, char **argv)
{
    net_self self;
    way ways[2 * MEMBERS];
    pthread_t threads[2 * MEMBERS];
    size_t way_count = 0;
    bool is_over = false;
    bool is_shut_out = false;
    if (net_argument(argc, argv, "forbid"))
        NET_SELF_CHECK(forbid_reading(), "no seccomp");
    counts *counts = map_counts(net_argument(argc, argv, "counts"));
    bool has_gpu = net_argument(argc, argv, "gpu_way") != NULL;
    bool has_own = net_argument_number(argc, argv, "gpu_way", 0) == FERRY_GPU_WAY_ALL;
    char name[16];
    net_self_join(&self, argc, argv);
    (void)snprintf(name, sizeof(name), "cuda:%u", has_own ? (unsigned)self.rank : 0);
    NET_SELF_CHECK(!has_gpu || ferry_device_open(self.engine, name, NULL, &gpu, NULL) == FERRY_OK,
                   "no GPU");
    for (uint32_t peer = 0; peer < MEMBERS; peer++) {
        for (int k = 0; k < 2 && peer != self.rank; k++) {
            way *way = &ways[way_count];
            *way = (struct way){.self = &self,
                                .peer = peer,
                                .is_send = k == 0,
                                .life = (uint64_t)net_argument_number(argc, argv, "life", 0),
                                .counts = counts,
                                .is_over = &is_over,
                                .is_shut_out = &is_shut_out};
            NET_SELF_CHECK(pthread_create(&threads[way_count++], NULL, run_way, way) == 0,
                           "no thread");
        }
    }
    /* Until the test says so, or the others have shut it out. */
    struct pollfd words = {.fd = NET_WORDS_FD, .events = POLLIN};
    while (!is_set(&is_shut_out) && poll(&words, 1, 50) == 0)
        continue;
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < way_count; i++)
        (void)pthread_join(threads[i], NULL);
    for (uint32_t peer = 0; peer < MEMBERS; peer++) {
        ferry_member_info info = FERRY_MEMBER_INFO_INIT;
        (void)ferry_group_member(self.group, peer, &info);
        count(&counts->nccl_bytes, info.nccl_bytes);
    }
    net_self_end(&self);
    return 0;
}

/* ---- the test ---- */

typedef struct campaign {
    net_member *members[MEMBERS];
    const char *more; /* an argument of all members */
    bool has_hosts;
    char store[256], counts_path[256];
    counts *counts;
    uint64_t life, random;
    unsigned short_stops, long_stops, kills;
} campaign;

static void start(campaign *campaign, int rank)
{
    char number[16], life[32], lease[32], counts_path[300];
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    (void)snprintf(life, sizeof(life), "life=%" PRIu64, ++campaign->life);
    (void)snprintf(lease, sizeof(lease), "lease_ms=%d", LEASE_MS);
    (void)snprintf(counts_path, sizeof(counts_path), "counts=%s", campaign->counts_path);
    campaign->members[rank] = net_start(
        campaign->has_hosts ? rank : NET_HERE, "member", campaign->store, number, life, counts_path,
        "size=3", lease, campaign->has_hosts ? "network=eth0" : "network=lo", campaign->more, NULL);
}

static void restart(campaign *campaign, int rank)
{
    start(campaign, rank);
    (void)net_hear(campaign->members[rank], "joined");
}

static void kill_one(campaign *campaign, int rank)
{
    net_signal(campaign->members[rank], SIGKILL);
    net_end_by(campaign->members[rank], SIGKILL);
    campaign->kills++;
}

/* For longer than the others bear it: they give up what it was at, and use the memory. */
static void stop_long(campaign *campaign, int rank, bool kills_another)
{
    int other = (rank + 1) % MEMBERS;
    net_signal(campaign->members[rank], SIGSTOP);
    if (kills_another)
        kill_one(campaign, other);
    net_rest(STOP_MS * MILLISECOND_NS);
    net_signal(campaign->members[rank], SIGCONT);
    net_tell(campaign->members[rank], "end"); /* if it is not shut out by then */
    net_end(campaign->members[rank]);
    campaign->long_stops++;
    if (kills_another)
        start(campaign, other);
    restart(campaign, rank);
    if (kills_another)
        (void)net_hear(campaign->members[other], "joined");
}

static void disturb(campaign *campaign)
{
    int rank = (int)(next_random(&campaign->random) % MEMBERS);
    uint64_t choice = next_random(&campaign->random) % 16;
    net_rest((int64_t)(next_random(&campaign->random) % 200) * MILLISECOND_NS);
    if (choice < 9) {
        net_signal(campaign->members[rank], SIGSTOP);
        net_rest((int64_t)(next_random(&campaign->random) % 60) * MILLISECOND_NS);
        net_signal(campaign->members[rank], SIGCONT);
        campaign->short_stops++;
    } else if (choice < 13) {
        kill_one(campaign, rank);
        restart(campaign, rank);
    } else {
        stop_long(campaign, rank, choice == 15);
    }
}

static const counts *run(const char *more, bool has_hosts, uint64_t wanted, unsigned long_stops)
{
    campaign campaign = {.more = more, .has_hosts = has_hosts, .random = seed};
    (void)snprintf(campaign.store, sizeof(campaign.store), "store=file:%s/store", net_folder());
    (void)snprintf(campaign.counts_path, sizeof(campaign.counts_path), "%s/counts", net_folder());
    campaign.counts = map_counts(campaign.counts_path);
    for (int rank = 0; rank < MEMBERS; rank++)
        start(&campaign, rank);
    for (int rank = 0; rank < MEMBERS; rank++)
        (void)net_hear(campaign.members[rank], "joined");
    const counts *counts = campaign.counts;
    while (look(&counts->good) < wanted || campaign.kills == 0 || campaign.short_stops == 0 ||
           campaign.long_stops < long_stops) {
        disturb(&campaign);
        NET_CHECK(look(&counts->wrong) == 0, "wrong bytes, well received");
    }
    for (int rank = 0; rank < MEMBERS; rank++)
        net_tell(campaign.members[rank], "end");
    for (int rank = 0; rank < MEMBERS; rank++)
        net_end(campaign.members[rank]);
    NET_CHECK(look(&counts->wrong) == 0, "wrong bytes, well received");
    printf("%" PRIu64 " messages received well (%" PRIu64 " MB), %" PRIu64
           " receives failed, %" PRIu64 " sends well, %" PRIu64
           " failed, %u short stops, %u long ones, %u kills: none wrong\n",
           look(&counts->good), look(&counts->good_bytes) >> 20, look(&counts->failed_receives),
           look(&counts->sent), look(&counts->failed_sends), campaign.short_stops,
           campaign.long_stops, campaign.kills);
    return counts;
}

static void pulled(void)
{
    (void)run("allow=1", false, messages_wanted, 3);
}

/* The same where nobody may read another's memory, and between hosts. */
static void copied(void)
{
    (void)run("forbid=1", false, messages_wanted / 4, 1);
}

static void other_hosts(void)
{
    net_hosts_open(MEMBERS, NET_CABLE_VETH);
    (void)run("allow=1", true, messages_wanted / 4, 1);
}

/* GPU memory, on one host and between hosts. */
static void staged(void)
{
    (void)run("gpu_way=0", false, messages_wanted / 8, 1);
}

static void staged_hosts(void)
{
    net_hosts_open(MEMBERS, NET_CABLE_VETH);
    (void)run("gpu_way=0", true, messages_wanted / 8, 1);
}

/* All ways are allowed: between hosts it goes over NCCL. */
static void joint_hosts(void)
{
    net_hosts_open(MEMBERS, NET_CABLE_VETH);
    const counts *counts = run("gpu_way=4", true, messages_wanted / 40, 1);
    NET_CHECK(look(&counts->nccl_bytes) != 0, "nothing went over NCCL");
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {{"member", member}};
    messages_wanted =
        (uint64_t)net_argument_number(argc, argv, "messages", (int64_t)messages_wanted);
    seed = (uint64_t)net_argument_number(argc, argv, "seed", (int64_t)seed);
    int limit_s = 200 + (int)(messages_wanted / 100);
    const net_case cases[] = {{"pulled", pulled, limit_s},
                              {"copied", copied, limit_s},
                              {"other_hosts", other_hosts, limit_s},
                              {"staged", staged, limit_s},
                              {"staged_hosts", staged_hosts, limit_s},
                              {"joint_hosts", joint_hosts, limit_s}};
    return net_test_main(argc, argv, roles, 1, cases, sizeof(cases) / sizeof(*cases));
}
