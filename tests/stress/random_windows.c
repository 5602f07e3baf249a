/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_windows [SEEDS [FIRST]]: two members open windows, seek and leave each other's, get and
 * put, over channels that reorder, are late, run out of controls and break. The test is the engine
 * then, and answers at any time. What must hold:
 *
 *  - a window is found if it is open, by its name, and is what its owner said;
 *  - a get that ends well has the window's bytes, and none from after the window was over: its
 *    owner writes there at once when nobody has it and nothing of it is under way;
 *  - nobody writes there, either: the owner's messages are quiet by then;
 *  - a put's bytes are in the window when it ends well;
 *  - each operation resolves once, unless it was withdrawn, and is quiet once; each asks and is
 *    answered, so none is left when nothing moves any more; a refusal names its reason;
 *  - in the end nothing is kept.
 */
#include "net/peer/arrive.h"
#include "net/peer/connection.h"
#include "net/peer/find.h"
#include "net/peer/reach.h"
#include "net/peer/state.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fake_channel.h"
#include "tests/support/stress.h"

#if defined(__SANITIZE_THREAD__)
#define SEEDS 300 /* there is one thread */
#elif defined(__SANITIZE_ADDRESS__)
#define SEEDS 1500
#else
#define SEEDS 8000
#endif

enum { OWN = 24, NAMES = 4, FOUND = 48, OPS = 400, BYTES = 3000, AFTER = 0xaa };

enum { TOLD = 77 }; /* with some that are left */

typedef struct own {
    char name[8];
    uint8_t *bytes;
    size_t size_bytes;
    uint8_t rights, fill;
    int side;
    uint32_t grants, uses;
    bool is_open, is_over;
} own;

typedef struct seen {
    fry_found found; /* first */
    char name[8];
    own *of; /* what it must be; NULL: not known yet */
    uint32_t uses;
    bool is_there, is_closing, is_over;
} seen;

typedef struct op {
    fry_message message; /* first */
    uint8_t *bytes;      /* of the end that asked */
    seen *window;        /* likewise; NULL: the owner's */
    own *own;            /* the owner's */
    uint64_t offset;
    uint8_t fill;
    bool is_entered, is_ready, is_withdrawn;
    int side, resolved, quiet;
    ferry_status status, cause;
} op;

typedef struct side {
    fry_peer *peer;
    fry_peer_connection *connection, *dead;
    fry_channel *channel, *dead_channel;
    own owns[OWN];
    seen seen[FOUND];
    uint32_t own_count, seen_count;
    bool wants_connection;
} side;

static struct {
    uint64_t random;
    failing_allocator allocator;
    fry_memory memory;
    fry_log log;
    fry_connection_session session;
    fry_peer_options options[2];
    fake_wire *wire;
    side sides[2];
    op *ops[OPS];
    uint32_t op_count;
    bool may_break, may_withdraw, is_stuffed;
} all;

static uint32_t pick(uint32_t bound)
{
    return below(&all.random, bound);
}

static uint8_t byte_of(uint8_t fill, uint64_t offset)
{
    uint8_t byte = (uint8_t)(fill + offset * 7);
    return byte == AFTER ? 0 : byte;
}

static side *side_of(const fry_peer *peer)
{
    return fry_peer_arg(peer);
}

static int index_of(const side *of)
{
    return (int)(of - all.sides);
}

/* ---- windows of one's own ---- */

static void look(own *w)
{
    if (w->is_open || w->is_over || w->grants != 0 || w->uses != 0)
        return;
    w->is_over = true;
    memset(w->bytes, AFTER, w->size_bytes);
}

static own *find_open(side *s, const char *name)
{
    for (uint32_t i = 0; i < s->own_count; i++) {
        if (s->owns[i].is_open && strcmp(s->owns[i].name, name) == 0)
            return &s->owns[i];
    }
    return NULL;
}

static void name_one(char name[8])
{
    (void)snprintf(name, 8, "w%u", pick(NAMES));
}

static void open_one(side *s)
{
    char name[8];
    name_one(name);
    if (s->own_count == OWN || find_open(s, name) != NULL)
        return;
    own *w = &s->owns[s->own_count++];
    *w = (own){.size_bytes = 1 + pick(BYTES),
               .rights = (uint8_t)(1 + pick(3)),
               .fill = (uint8_t)pick(256),
               .side = index_of(s),
               .is_open = true};
    memcpy(w->name, name, sizeof w->name);
    w->bytes = malloc(w->size_bytes);
    CHECK(w->bytes != NULL);
    for (size_t i = 0; i < w->size_bytes; i++)
        w->bytes[i] = byte_of(w->fill, i);
    fry_peer_window_opened(s->peer, NULL);
}

static void close_own(side *s, own *w)
{
    if (!w->is_open)
        return;
    w->is_open = false;
    fry_peer_close_window(s->peer, w, NULL);
    look(w);
}

static bool on_sought(void *turn, fry_peer *peer, const char *name, fry_grant *grant)
{
    (void)turn;
    own *w = find_open(side_of(peer), name);
    if (w == NULL)
        return false;
    bool is_read = (w->rights & FRY_WINDOW_GET) != 0 && pick(2);
    *grant = (fry_grant){.window = w,
                         .rights = w->rights,
                         .size_bytes = w->size_bytes,
                         .address = is_read ? (uintptr_t)w->bytes : 0};
    w->grants++;
    return true;
}

static void on_left(void *turn, fry_peer *peer, void *window, uint32_t told)
{
    (void)turn, (void)peer;
    CHECK(told == 0 || told == TOLD);
    own *w = window;
    CHECK(w->grants > 0 && !w->is_over);
    w->grants--;
    look(w);
}

/* ---- windows of the other's ---- */

static void seek_one(side *s)
{
    if (s->seen_count == FOUND)
        return;
    seen *w = &s->seen[s->seen_count++];
    *w = (seen){0};
    name_one(w->name);
    w->found = (fry_found){.owner = w, .name = w->name};
    fry_peer_find(s->peer, &w->found, NULL);
}

static void leave(seen *w)
{
    if (w->is_over || w->uses != 0)
        return;
    w->is_over = true;
    w->found.told = pick(2) ? TOLD : 0;
    fry_peer_leave_window(&w->found, NULL);
}

static void on_found(void *turn, fry_found *found)
{
    (void)turn;
    seen *w = found->owner;
    side *other = &all.sides[1 - index_of(side_of(found->peer))];
    CHECK(!w->is_there && !w->is_over);
    w->is_there = true;
    for (uint32_t i = 0; i < other->own_count; i++) {
        own *of = &other->owns[i];
        if (!of->is_over && of->grants != 0 && strcmp(of->name, w->name) == 0 &&
            of->size_bytes == found->size_bytes && of->rights == found->rights)
            w->of = of;
    }
    CHECK(w->of != NULL || all.may_break); /* its owner may have given up the connection */
}

static void on_closing(void *turn, fry_found *found)
{
    (void)turn;
    seen *w = found->owner;
    CHECK(w->is_there && !w->is_closing && !w->is_over);
    w->is_closing = true;
    if (pick(2))
        leave(w);
}

static void on_lost(void *turn, fry_found *found, ferry_status status, const fry_fault *fault)
{
    (void)turn;
    seen *w = found->owner;
    CHECK(!w->is_over && status == fault->status && status != FERRY_OK);
    w->is_over = true;
}

/* ---- operations ---- */

static op *new_op(side *s, bool is_send, size_t size_bytes)
{
    op *o = calloc(1, sizeof *o);
    CHECK(o != NULL);
    all.ops[all.op_count++] = o;
    o->side = index_of(s);
    o->fill = (uint8_t)pick(256);
    o->message.is_send = is_send;
    o->message.size_bytes = size_bytes;
    o->message.op = all.op_count;
    return o;
}

static void reach(side *s)
{
    if (s->seen_count == 0 || all.op_count >= OPS / 2)
        return;
    seen *w = &s->seen[pick(s->seen_count)];
    if (!w->is_there || w->of == NULL || w->is_closing || w->is_over || s->connection == NULL)
        return;
    bool is_put =
        (w->of->rights & FRY_WINDOW_GET) == 0 || ((w->of->rights & FRY_WINDOW_PUT) != 0 && pick(2));
    size_t size_bytes = 1 + pick((uint32_t)w->of->size_bytes);
    op *o = new_op(s, is_put, size_bytes);
    o->bytes = malloc(size_bytes);
    CHECK(o->bytes != NULL);
    o->offset = pick((uint32_t)(w->of->size_bytes - size_bytes + 1));
    for (size_t i = 0; i < size_bytes; i++)
        o->bytes[i] = is_put ? byte_of(w->of->fill, o->offset + i) : AFTER;
    o->message.memory = o->bytes;
    o->window = w;
    w->uses++;
    o->is_entered = o->is_ready = true;
    if (pick(16) == 0)
        o->offset += pick(2) ? UINT64_C(1) << 33 : w->of->size_bytes; /* the owner looks too */
    bool is_within = o->offset + size_bytes <= w->of->size_bytes;
    uint64_t address = w->found.address;
    if (!is_within)
        w->found.address = 0;
    bool is_taken = fry_peer_reach(&o->message, &w->found, o->offset, pick(2), NULL);
    w->found.address = address;
    if (is_taken)
        return;
    w->uses--;
    free(o->bytes);
    o->resolved = o->quiet = 1;
    o->status = FERRY_E_AGAIN;
}

static void withdraw(op *o)
{
    static const fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = -1};
    if (!o->is_entered || o->resolved != 0 || o->is_withdrawn)
        return;
    o->is_withdrawn = true;
    fry_peer_withdraw(&o->message, &fault, NULL);
}

static void on_reached(void *turn, fry_peer *peer, void *window, const fry_reach *wish)
{
    (void)turn;
    side *s = side_of(peer);
    own *w = window;
    bool is_within = w != NULL && wish->offset <= w->size_bytes &&
                     wish->size_bytes <= w->size_bytes - wish->offset;
    if (!is_within || all.op_count == OPS || pick(16) == 0) {
        const fry_fault fault = {.status = is_within ? FERRY_E_AGAIN : FERRY_E_INVALID, .rank = -1};
        fry_peer_refuse_reach(peer, wish, &fault, NULL);
        return;
    }
    CHECK(!w->is_over);
    op *o = new_op(s, !wish->is_put, (size_t)wish->size_bytes);
    o->own = w;
    o->offset = wish->offset;
    o->message.memory = w->bytes + wish->offset;
    o->message.tag = wish->tag;
    o->message.is_apart = true;
    o->message.reach_number = wish->epoch;
    w->uses++;
}

/* The owner's operations enter and start some time later. */
static void move_own(op *o)
{
    if (o->own == NULL || o->resolved != 0 || o->is_withdrawn || o->is_ready)
        return;
    if (o->is_entered) {
        o->is_ready = true;
        fry_peer_ready(&o->message, NULL);
        return;
    }
    o->is_entered = fry_peer_answer_reach(all.sides[o->side].peer, &o->message, NULL);
    if (o->is_entered)
        return;
    o->resolved = o->quiet = 1;
    o->status = FERRY_E_PEER;
    o->own->uses--;
    look(o->own);
}

static void on_resolved(void *turn, fry_message *message, ferry_status status,
                        const fry_fault *fault)
{
    (void)turn;
    op *o = (op *)(void *)message;
    CHECK(o->resolved++ == 0 && !o->is_withdrawn && o->quiet == 0);
    CHECK((fault == NULL) == (status == FERRY_OK));
    o->status = status;
    o->cause = fault != NULL ? fault->status : FERRY_OK;
    bool is_within =
        o->window == NULL || o->offset + message->size_bytes <= o->window->of->size_bytes;
    CHECK(is_within || status != FERRY_OK);
    CHECK(is_within || status != FERRY_E_DEPENDENCY || o->cause == FERRY_E_INVALID);
    if (status == FERRY_OK && o->window != NULL && message->is_send) {
        const own *of = o->window->of;
        CHECK(!of->is_over || of->bytes[0] == AFTER);
        for (size_t i = 0; i < message->size_bytes && !of->is_over; i++)
            CHECK(of->bytes[o->offset + i] == byte_of(of->fill, o->offset + i));
    }
}

static void on_quiet(void *turn, fry_message *message)
{
    (void)turn;
    op *o = (op *)(void *)message;
    CHECK(o->quiet++ == 0 && (o->resolved == 1 || o->is_withdrawn));
    if (o->own != NULL) {
        CHECK(!o->own->is_over);
        o->own->uses--;
        look(o->own);
        return;
    }
    seen *w = o->window;
    for (size_t i = 0; o->status == FERRY_OK && !o->is_withdrawn && i < message->size_bytes; i++)
        CHECK(o->bytes[i] == byte_of(w->of->fill, o->offset + i));
    free(o->bytes); /* whoever writes it after this is seen */
    o->bytes = NULL;
    w->uses--;
    if (w->is_closing && pick(2))
        leave(w);
}

static void on_wants_connection(void *turn, fry_peer *peer)
{
    (void)turn;
    side_of(peer)->wants_connection = true;
}

static void on_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    (void)turn;
    (void)peer;
    if (!all.may_break)
        (void)fprintf(stderr, "%s\n", fault->message);
    CHECK(all.may_break && fault->status == FERRY_E_PEER &&
          strstr(fault->message, "protocol") == 0);
}

static const fry_peer_events events = {
    .resolved = on_resolved,
    .quiet = on_quiet,
    .wants_connection = on_wants_connection,
    .connection_failed = on_failed,
    .window_found = on_found,
    .window_closing = on_closing,
    .window_lost = on_lost,
    .window_sought = on_sought,
    .window_left = on_left,
    .reached = on_reached,
};

/* ---- connections ---- */

static void connect_both(void)
{
    static const size_t eager[] = {0, 64, 1016, 4096};
    fake_wire_options wire = {.seed = pick(3) ? 1 + pick(1000000) : 0,
                              .eager_bytes_max = eager[pick(4)],
                              .reorder = pick(3) ? pick(20) : 0,
                              .is_late = pick(3) > 0,
                              .reads = pick(3) > 0};
    all.wire = fake_wire_open(&wire);
    for (int i = 0; i < 2; i++) {
        side *s = &all.sides[i];
        s->connection = fry_peer_connection_open(&all.options[i], &all.session);
        CHECK(s->connection != NULL);
        s->channel = fake_wire_end(all.wire, i, &fry_peer_channel_events,
                                   fry_peer_channel_arg(s->connection));
    }
    for (int i = 0; i < 2; i++) {
        all.sides[i].wants_connection = false;
        fry_peer_attach(all.sides[i].peer, all.sides[i].connection, all.sides[i].channel, NULL);
    }
}

static void detach(side *s)
{
    const fry_fault fault = {.status = FERRY_E_PEER, .rank = 1 - index_of(s), .message = "over"};
    if (s->connection == NULL)
        return;
    s->wants_connection = false;
    s->dead = fry_peer_detach(s->peer, FERRY_E_PEER, &fault, &s->dead_channel, NULL);
    s->connection = NULL;
}

static void destroy(side *s)
{
    if (s->dead == NULL)
        return;
    s->dead_channel->ops->destroy(s->dead_channel);
    fry_peer_destroyed(s->peer, s->dead, NULL);
    fry_peer_connection_close(s->dead);
    s->dead = NULL;
}

static void mend(void)
{
    for (int i = 0; i < 2; i++) {
        side *s = &all.sides[i];
        if (s->connection != NULL && s->connection->state == FRY_CONNECTION_FAILED && pick(3) == 0)
            detach(s);
        else if (s->dead != NULL && pick(3) == 0)
            destroy(s);
    }
    if (all.sides[0].connection != NULL || all.sides[1].connection != NULL ||
        all.sides[0].dead != NULL || all.sides[1].dead != NULL)
        return;
    if (all.wire != NULL)
        fake_wire_close(all.wire);
    connect_both();
}

/* ---- a run ---- */

static size_t progress(void)
{
    size_t count = 0;
    for (int i = 0; i < 2; i++)
        count += fry_peer_progress(all.sides[i].peer, NULL);
    return count;
}

static void take_step(void)
{
    side *s = &all.sides[pick(2)];
    switch (pick(12)) {
    case 0:
        open_one(s);
        break;
    case 1:
        if (s->own_count > 0)
            close_own(s, &s->owns[pick(s->own_count)]);
        break;
    case 2:
        seek_one(s);
        break;
    case 3:
        if (s->seen_count > 0)
            leave(&s->seen[pick(s->seen_count)]);
        break;
    case 4:
        if (all.may_withdraw && all.op_count > 0)
            withdraw(all.ops[pick(all.op_count)]);
        break;
    case 5:
    case 6:
        if (all.op_count > 0)
            move_own(all.ops[pick(all.op_count)]);
        break;
    case 7:
        if (all.may_break && all.wire != NULL && pick(20) == 0)
            fake_wire_cut(all.wire);
        break;
    case 8:
        if (all.is_stuffed && all.wire != NULL) /* controls run out */
            fake_wire_hold(all.wire, pick(24) ? FAKE_HOLD_POSTS : 0);
        (void)fry_peer_progress(s->peer, NULL);
        break;
    default:
        reach(s);
        break;
    }
    if (all.may_break)
        mend();
}

/* Until nothing moves any more; what is found is left if its owner asks for that, or at all. */
static void move_on(bool leaves)
{
    for (int still = 0; still < 64;) {
        size_t count = progress();
        for (uint32_t i = 0; i < all.op_count; i++)
            move_own(all.ops[i]);
        for (int i = 0; i < 2; i++) {
            side *s = &all.sides[i];
            (void)fry_peer_arm(s->peer, NULL);
            for (uint32_t k = 0; k < s->own_count; k++)
                close_own(s, &s->owns[k]);
            for (uint32_t k = 0; k < s->seen_count; k++) {
                if (leaves || s->seen[k].is_closing)
                    leave(&s->seen[k]);
            }
        }
        still = count == 0 ? still + 1 : 0;
    }
}

/* Then everything has been answered, and who is asked to has left. */
static void drain(void)
{
    all.may_break = false;
    fake_wire_hold(all.wire, 0);
    move_on(false);
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < all.sides[i].own_count; k++)
            CHECK(all.sides[i].owns[k].is_over);
    }
    move_on(true);
}

static void open_all(void)
{
    static const uint32_t windows[] = {0, 1, 2, 8, 1024};
    failing_allocator_init(&all.allocator);
    ferry_allocator interface = failing_allocator_interface(&all.allocator);
    fry_memory_init(&all.memory, &interface);
    fry_log_init(&all.log, no_log, NULL);
    all.may_break = pick(3) == 0;
    all.may_withdraw = pick(2) == 0;
    all.is_stuffed = pick(4) == 0;
    all.session = (fry_connection_session){.has_windows = true,
                                           .window_messages = windows[pick(5)],
                                           .unexpected_max = pick(3) ? OPS : 1 + pick(6),
                                           .window_bytes = pick(2) ? 1 << 20 : pick(6000)};
    for (int i = 0; i < 2; i++) {
        all.options[i] = (fry_peer_options){.memory = &all.memory,
                                            .log = &all.log,
                                            .rank = 1 - i,
                                            .own_rank = i,
                                            .unexpected_max = OPS,
                                            .events = &events,
                                            .arg = &all.sides[i]};
        all.sides[i].peer = fry_peer_open(&all.options[i]);
        CHECK(all.sides[i].peer != NULL);
    }
    connect_both();
}

static void close_all(void)
{
    for (int i = 0; i < 2; i++) {
        side *s = &all.sides[i];
        CHECK(s->peer->open_count == 0 && s->peer->send_count == 0 && s->peer->receive_count == 0);
        for (uint32_t k = 0; k < s->own_count; k++) {
            own *w = &s->owns[k];
            CHECK(w->is_over && w->grants == 0 && w->uses == 0);
            for (size_t n = 0; n < w->size_bytes; n++)
                CHECK(w->bytes[n] == AFTER);
        }
        for (uint32_t k = 0; k < s->seen_count; k++)
            CHECK(s->seen[k].is_over && s->seen[k].uses == 0);
        detach(s);
    }
    for (int i = 0; i < 2; i++) {
        destroy(&all.sides[i]);
        fry_peer_close(all.sides[i].peer);
        for (uint32_t k = 0; k < all.sides[i].own_count; k++)
            free(all.sides[i].owns[k].bytes);
    }
    fake_wire_close(all.wire);
    for (uint32_t i = 0; i < all.op_count; i++) {
        CHECK(all.ops[i]->quiet == 1 && (all.ops[i]->resolved == 1 || all.ops[i]->is_withdrawn));
        free(all.ops[i]);
    }
    CHECK(failing_allocator_live_bytes(&all.allocator) == 0);
}

static bool is_whole(void)
{
    for (int i = 0; i < 2; i++) {
        const fry_peer_connection *connection = all.sides[i].connection;
        if (connection == NULL || connection->state != FRY_CONNECTION_ATTACHED)
            return false;
    }
    return true;
}

static void run_seed(uint64_t seed)
{
    memset(&all, 0, sizeof all);
    all.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    open_all();
    uint32_t steps = 50 + pick(1500);
    for (uint32_t i = 0; i < steps; i++)
        take_step();
    for (int i = 0; all.may_break && (i < 100 || !is_whole()); i++) {
        (void)progress(); /* a wire that was cut says so */
        mend();
    }
    drain();
    close_all();
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = SEEDS, .hang_s = 60};
    run_seeds(argc, argv, &seeds, run_seed);
    printf("random_windows: %llu seeds\n", (unsigned long long)seeds.count);
    return EXIT_SUCCESS;
}
