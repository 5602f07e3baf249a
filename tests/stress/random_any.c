/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_any [SEEDS [FIRST]]: one member receives from up to four others, from any source, over
 * channels that reorder, are late and break. Sends get ready, and are withdrawn, in any order; so
 * are receives and probes, which name their member and tag or leave them open. What must hold:
 *
 *  - the messages of one member and tag are met in the order of the sends, each by one receive, and
 *    none is lost: in the end receives of any member get all that are left;
 *  - a message goes to the receive that entered first of those that it suits, and is found by all
 *    probes before that;
 *  - a receive that enters takes, of the messages that suit it, the one that became known first;
 *  - nobody ever waits beside a message that could be had;
 *  - a receive has the bytes of its message, and no others; one that is too small fails at both
 * ends;
 *  - each resolves once, unless it was withdrawn, and is quiet once.
 */
#include "net/peer/any.h"
#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "net/peer/seek.h"
#include "net/peer/state.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_channel.h"
#include "tests/support/stress.h"

#if defined(__SANITIZE_THREAD__)
#define SEEDS 300 /* there is one thread */
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 1500
#else
#define SEEDS 6000
#endif

enum { LINKS = 4, SENDS = 24, TAKES = 160, TAGS = 3, BYTES = 3000, OWN_RANK = 100 };

typedef struct op {
    fry_message message; /* first */
    uint8_t bytes[BYTES];
    size_t room_bytes; /* a receive's, as it entered */
    int link;          /* a send's; what a receive or probe names, -1: any */
    ferry_tag tag;     /* FERRY_TAG_ANY: any */
    uint64_t place;
    bool is_entered, is_ready, is_withdrawn, is_probe;
    bool has_met;
    int met_link;
    ferry_tag met_tag;
    uint32_t met_nth; /* of that link and tag */
    int resolved, quiet;
    ferry_status status;
} op;

typedef struct wire_link {
    int index;
    fry_peer *from, *to; /* the sender's, and the receiver's */
    fry_peer_connection *connections[2];
    fry_channel *channels[2];
    fake_wire *wire;
    op sends[SENDS];
    uint32_t count, met[TAGS]; /* messages that receives have met */
    bool is_broken, is_narrow;
} wire_link;

static struct {
    uint64_t random;
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    fry_any *any;
    wire_link links[LINKS];
    int link_count;
    op takes[TAKES];
    uint32_t take_count;
    uint64_t places;
    bool may_break, may_withdraw, calls_back;
} all;

static uint32_t pick(uint32_t bound)
{
    return below(&all.random, bound);
}

/* ---- what must hold ---- */

static bool suits(const op *take, int link_index, ferry_tag tag)
{
    return (take->link < 0 || take->link == link_index) &&
           (take->tag == FERRY_TAG_ANY || take->tag == tag);
}

static bool is_waiting(const op *take)
{
    return take->is_entered && !take->has_met && take->resolved == 0 && !take->is_withdrawn;
}

static fry_record *first_of(const wire_link *l, ferry_tag tag)
{
    fry_message *posted;
    return l->is_broken ? NULL : fry_match_first(&l->to->receives, tag, &posted);
}

static void check_nobody_waits_beside(void)
{
    for (int i = 0; i < all.link_count; i++) {
        for (ferry_tag tag = 0; tag < TAGS; tag++) {
            bool is_there = first_of(&all.links[i], tag) != NULL;
            for (uint32_t k = 0; is_there && k < all.take_count; k++)
                CHECK(!is_waiting(&all.takes[k]) || !suits(&all.takes[k], i, tag));
        }
    }
}

/* ---- events ---- */

static void do_something(void);

static void on_met(void *turn, fry_message *message, fry_peer *peer, uint64_t size_bytes)
{
    op *take = (op *)message;
    wire_link *l = fry_peer_arg(peer);
    (void)turn;
    CHECK(!take->has_met && !take->is_withdrawn && take->resolved == 0);
    CHECK(message->tag < TAGS && suits(take, l->index, message->tag));
    for (uint32_t k = 0; k < all.take_count; k++)
        CHECK(!is_waiting(&all.takes[k]) || all.takes[k].place >= take->place ||
              !suits(&all.takes[k], l->index, message->tag));
    CHECK(size_bytes <= BYTES);
    take->has_met = true;
    take->met_link = l->index;
    take->met_tag = message->tag;
    if (!take->is_probe)
        take->met_nth = l->met[message->tag]++;
}

static void on_resolved(void *turn, fry_message *message, ferry_status status,
                        const fry_fault *fault)
{
    op *o = (op *)message;
    (void)turn;
    CHECK(o->resolved++ == 0 && !o->is_withdrawn && o->quiet == 0);
    CHECK((fault == NULL) == (status == FERRY_OK));
    CHECK(status != FERRY_OK || o->is_ready || o->is_probe);
    o->status = status;
    if (all.calls_back && pick(4) == 0)
        do_something();
}

static void on_quiet(void *turn, fry_message *message)
{
    op *o = (op *)message;
    (void)turn;
    CHECK(o->quiet++ == 0 && o->resolved + o->is_withdrawn == 1);
}

static void on_done(void *turn, fry_message *message)
{
    on_resolved(turn, message, FERRY_OK, NULL);
    on_quiet(turn, message);
}

static void on_wants_connection(void *turn, fry_peer *peer)
{
    const wire_link *l = fry_peer_arg(peer);
    (void)turn;
    CHECK(l->is_broken);
}

static void on_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    (void)turn, (void)peer;
    (void)fprintf(stderr, "a connection failed: %s\n", fault->message);
    CHECK(false);
}

static const fry_peer_events events = {.met = on_met,
                                       .resolved = on_resolved,
                                       .quiet = on_quiet,
                                       .done = on_done,
                                       .wants_connection = on_wants_connection,
                                       .connection_failed = on_failed};

/* ---- acts ---- */

static void enter_send(wire_link *l)
{
    if (l->count == SENDS || l->is_broken)
        return;
    op *o = &l->sends[l->count];
    *o = (op){.link = l->index, .tag = pick(TAGS)};
    o->message = (fry_message){.memory = o->bytes,
                               .size_bytes = pick(3) ? pick(64) : pick(BYTES),
                               .tag = o->tag,
                               .op = (uint64_t)(l->index * SENDS) + l->count + 1,
                               .is_send = true};
    if (o->message.size_bytes == 0)
        o->message.memory = NULL;
    memset(o->bytes, (int)o->message.op, o->message.size_bytes);
    CHECK(fry_peer_enter(l->from, &o->message, NULL));
    o->is_entered = true;
    l->count++;
}

/* As fry_any_look chooses: the first that is kept, of those that may be had. */
static const fry_unmatched *expected_for(const op *take)
{
    const fry_unmatched *kept;
    TAILQ_FOREACH(kept, &all.any->unmatched, entry) {
        const wire_link *l = fry_peer_arg(kept->connection->peer);
        if (first_of(l, kept->record->tag) == kept->record &&
            suits(take, l->index, kept->record->tag))
            return kept;
    }
    return NULL;
}

static void enter_take(int link_index, ferry_tag tag, size_t room_bytes, bool is_probe)
{
    if (all.take_count == TAKES)
        return;
    op *o = &all.takes[all.take_count++];
    *o = (op){.link = link_index, .tag = tag, .is_probe = is_probe, .room_bytes = room_bytes};
    o->place = ++all.places;
    o->message = (fry_message){.memory = room_bytes > 0 ? o->bytes : NULL,
                               .size_bytes = room_bytes,
                               .tag = tag,
                               .op = 10000 + o->place};
    fry_peer *peer = link_index >= 0 ? all.links[link_index].to : NULL;
    const fry_unmatched *kept = expected_for(o);
    int kept_link = kept != NULL ? ((wire_link *)fry_peer_arg(kept->connection->peer))->index : -1;
    ferry_tag kept_tag = kept != NULL ? kept->record->tag : 0;
    bool is_any_tag = tag == FERRY_TAG_ANY;
    fry_seek_result result = is_probe
                                 ? fry_seek_probe(all.any, peer, is_any_tag, &o->message, NULL)
                                 : fry_seek_enter(all.any, peer, is_any_tag, &o->message, NULL);
    bool may_wait = all.any->waiting_count == all.any->waiting_max;
    if (result != FRY_SEEK_ENTERED) {
        CHECK(result == FRY_SEEK_MANY && may_wait && kept == NULL && !o->has_met);
        all.take_count--;
        return;
    }
    CHECK(o->has_met == (kept != NULL));
    CHECK(kept == NULL || (o->met_link == kept_link && o->met_tag == kept_tag));
    o->is_entered = true;
}

static void make_ready(op *o)
{
    if (!o->is_entered || o->is_ready || o->is_withdrawn || o->resolved != 0 || o->is_probe)
        return;
    o->is_ready = true;
    if (fry_seek_is_apart(&o->message))
        fry_seek_ready(&o->message);
    else
        fry_peer_ready(&o->message, NULL);
}

static void withdraw(op *o)
{
    const fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = -1, .op = o->message.op};
    if (!o->is_entered || o->is_withdrawn || o->resolved != 0)
        return;
    o->is_withdrawn = true;
    if (fry_seek_is_apart(&o->message))
        fry_seek_withdraw(&o->message, NULL);
    else
        fry_peer_withdraw(&o->message, &fault, NULL);
}

static void progress(void)
{
    const wire_link *l = &all.links[pick((uint32_t)all.link_count)];
    (void)fry_peer_progress(pick(2) ? l->from : l->to, NULL);
}

/* What may happen in an event too. */
static void do_something(void)
{
    const wire_link *l = &all.links[pick((uint32_t)all.link_count)];
    op *o = pick(2) && l->count > 0 ? (op *)(uintptr_t)&l->sends[pick(l->count)]
            : all.take_count > 0    ? &all.takes[pick(all.take_count)]
                                    : NULL;
    if (o != NULL && all.may_withdraw && pick(10) == 0)
        withdraw(o);
    else if (o != NULL)
        make_ready(o);
}

static void destroy(wire_link *l, int end)
{
    fry_peer *peer = end == 0 ? l->from : l->to;
    if (l->connections[end] == NULL)
        return;
    l->channels[end]->ops->destroy(l->channels[end]);
    fry_peer_destroyed(peer, l->connections[end], NULL);
    fry_peer_connection_close(l->connections[end]);
    l->connections[end] = NULL;
}

static void detach(wire_link *l, ferry_status status)
{
    const fry_fault fault = {.status = status, .rank = -1, .message = "it is over"};
    fry_channel *channel;
    l->is_broken = true;
    (void)fry_peer_detach(l->from, status, &fault, &channel, NULL);
    (void)fry_peer_detach(l->to, status, &fault, &channel, NULL);
    destroy(l, 0);
    destroy(l, 1);
}

static void enter_any_take(void)
{
    int link_index = pick(2) ? -1 : (int)pick((uint32_t)all.link_count);
    if (link_index >= 0 && all.links[link_index].is_broken)
        return; /* it would want a connection */
    enter_take(link_index, pick(2) ? FERRY_TAG_ANY : pick(TAGS), pick(5) ? BYTES : pick(100),
               pick(4) == 0);
}

static void take_step(void)
{
    uint32_t what = pick(16);
    if (what < 3)
        enter_send(&all.links[pick((uint32_t)all.link_count)]);
    else if (what < 5 && all.take_count < TAKES / 2)
        enter_any_take();
    else if (what < 10)
        do_something();
    else
        progress();
    if (all.may_break && pick(200) == 0)
        detach(&all.links[pick((uint32_t)all.link_count)], FERRY_E_PEER);
    check_nobody_waits_beside();
}

/* ---- the end ---- */

static void run_out(void)
{
    for (int idle = 0, turn = 0; idle < 8; turn++) {
        bool is_at_rest = true;
        CHECK(turn < 100000);
        for (int i = 0; i < all.link_count; i++) {
            const wire_link *l = &all.links[i];
            fry_peer *peers[] = {l->from, l->to};
            for (int end = 0; end < 2; end++) {
                if (fry_peer_progress(peers[end], NULL) > 0 || fry_peer_is_busy(peers[end]) ||
                    !fry_peer_arm(peers[end], NULL))
                    is_at_rest = false;
            }
        }
        check_nobody_waits_beside();
        idle = is_at_rest ? idle + 1 : 0;
    }
}

/* All that were sent are received, by receives that leave all open. */
static void drain(void)
{
    all.may_withdraw = all.calls_back = false;
    for (int i = 0; i < all.link_count; i++)
        for (uint32_t k = 0; k < all.links[i].count; k++)
            make_ready(&all.links[i].sends[k]);
    for (uint32_t k = 0; k < all.take_count; k++)
        make_ready(&all.takes[k]);
    run_out();
    while (!TAILQ_EMPTY(&all.any->unmatched)) {
        uint32_t before = all.take_count;
        enter_take(-1, FERRY_TAG_ANY, BYTES, false);
        CHECK(all.take_count > before && all.takes[before].has_met);
        make_ready(&all.takes[before]);
        run_out();
    }
}

/* The messages of a link and tag, as receives have met them: the sends in their order. If the other
 * end may have more under way than there are slots, some of them may have been refused. */
static void check_order(const wire_link *l, ferry_tag tag)
{
    uint32_t next = 0;
    for (uint32_t nth = 0; nth < l->met[tag]; nth++) {
        const op *take = all.takes;
        while (!take->has_met || take->is_probe || take->met_link != l->index ||
               take->met_tag != tag || take->met_nth != nth)
            CHECK(++take < all.takes + all.take_count);
        while (next < l->count && l->sends[next].message.op != take->message.other_op)
            CHECK(l->sends[next++].tag != tag || l->is_narrow);
        CHECK(next < l->count && l->sends[next].tag == tag);
        next++;
    }
    for (uint32_t k = next; k < l->count; k++)
        CHECK(l->sends[k].tag != tag || l->is_narrow || l->is_broken);
}

/* The receive has met that message. */
static void check_take(const op *take)
{
    const wire_link *l = &all.links[take->met_link];
    const op *sent = &l->sends[(take->message.other_op - 1) % SENDS];
    CHECK(take->message.other_op != 0 && take->message.other_op == sent->message.op);
    if (take->is_withdrawn || take->status == FERRY_E_PEER)
        return;
    if (take->status == FERRY_E_LENGTH) {
        CHECK(sent->message.size_bytes > take->room_bytes);
        CHECK(sent->is_withdrawn || sent->status == FERRY_E_LENGTH || l->is_broken);
        return;
    }
    if (take->status == FERRY_E_DEPENDENCY) {
        CHECK(sent->is_withdrawn);
        return;
    }
    CHECK(take->status == FERRY_OK && take->message.size_bytes == sent->message.size_bytes);
    CHECK(take->message.other_op == sent->message.op);
    for (size_t i = 0; i < BYTES; i++)
        CHECK(take->bytes[i] == (i < sent->message.size_bytes ? (uint8_t)sent->message.op : 0));
}

static void check_all(void)
{
    for (uint32_t k = 0; k < all.take_count; k++) {
        const op *take = &all.takes[k];
        if (take->has_met && !take->is_probe)
            check_take(take);
    }
    for (int i = 0; i < all.link_count; i++) {
        const wire_link *l = &all.links[i];
        for (ferry_tag tag = 0; tag < TAGS; tag++)
            check_order(l, tag);
        for (uint32_t k = 0; k < l->count; k++)
            CHECK(l->sends[k].resolved + l->sends[k].is_withdrawn == 1);
    }
}

/* ---- a run ---- */

static void open_link(wire_link *l, int index)
{
    static const size_t eager[] = {0, 64, 1016, 4096};
    static const uint32_t windows[] = {0, 1, 2, 8, 1024};
    l->index = index;
    l->is_narrow = pick(3) == 0;
    fake_wire_options wire = {.seed = pick(3) ? pick(1000000) : 0,
                              .eager_bytes_max = eager[pick(4)],
                              .reorder = pick(2) ? pick(20) : 0,
                              .is_late = pick(3) > 0};
    fry_connection_session session = {.window_messages = windows[pick(5)],
                                      .unexpected_max = l->is_narrow ? 1 + pick(6) : SENDS,
                                      .window_bytes = pick(2) ? 1 << 20 : pick(6000)};
    fry_peer_options options = {.memory = &all.memory,
                                .log = &all.log,
                                .unexpected_max = TAKES,
                                .events = &events,
                                .arg = l};
    fry_peer **peers[] = {&l->from, &l->to};
    l->wire = fake_wire_open(&wire);
    for (int end = 0; end < 2; end++) {
        options.rank = end == 0 ? OWN_RANK : index;
        options.own_rank = end == 0 ? index : OWN_RANK;
        options.any = end == 0 ? NULL : all.any;
        *peers[end] = fry_peer_open(&options);
        l->connections[end] = fry_peer_connection_open(&options, &session);
        CHECK(*peers[end] != NULL && l->connections[end] != NULL);
        l->channels[end] = fake_wire_end(l->wire, end, &fry_peer_channel_events,
                                         fry_peer_channel_arg(l->connections[end]));
        fry_peer_attach(*peers[end], l->connections[end], l->channels[end], NULL);
    }
}

static void close_link(wire_link *l)
{
    if (!l->is_broken)
        detach(l, FERRY_E_SHUTDOWN);
    CHECK(l->from->open_count == 0 && l->to->open_count == 0);
    fry_peer_close(l->from);
    fry_peer_close(l->to);
    fake_wire_close(l->wire);
}

static void run_seed(uint64_t seed)
{
    memset(&all, 0, sizeof all);
    all.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    failing_allocator_init(&all.allocator);
    ferry_allocator interface = failing_allocator_interface(&all.allocator);
    fry_memory_init(&all.memory, &interface);
    fry_log_init(&all.log, no_log, NULL);
    all.may_break = pick(4) == 0;
    all.may_withdraw = pick(2) == 0;
    all.calls_back = pick(3) == 0;
    all.any = fry_any_open(&all.memory, &events, pick(3) ? TAKES : 3);
    CHECK(all.any != NULL);
    all.link_count = 1 + (int)pick(LINKS);
    for (int i = 0; i < all.link_count; i++)
        open_link(&all.links[i], i);
    uint32_t steps = 50 + pick(600);
    for (uint32_t i = 0; i < steps; i++)
        take_step();
    drain();
    check_all();
    for (uint32_t k = 0; k < all.take_count; k++)
        if (is_waiting(&all.takes[k]))
            withdraw(&all.takes[k]);
    CHECK(TAILQ_EMPTY(&all.any->waiting) && all.any->waiting_count == 0);
    for (int i = 0; i < all.link_count; i++)
        close_link(&all.links[i]);
    for (uint32_t k = 0; k < all.take_count; k++)
        CHECK(all.takes[k].quiet == 1);
    CHECK(TAILQ_EMPTY(&all.any->unmatched));
    fry_any_close(all.any);
    CHECK(failing_allocator_live_bytes(&all.allocator) == 0);
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = SEEDS, .hang_s = 60};
    run_seeds(argc, argv, &seeds, run_seed);
    printf("random_any: %llu seeds\n", (unsigned long long)seeds.count);
    return EXIT_SUCCESS;
}
