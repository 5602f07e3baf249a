/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_peers [SEEDS [FIRST]]: two peers, or one that talks to itself, run programs of sends and
 * receives over a channel that reorders, is late and breaks. Entered in program order, they get
 * ready, and are withdrawn, in any order. What must hold:
 *
 *  - the k-th send of a tag meets the k-th receive: bytes, lengths and failures say so;
 *  - each resolves once, unless it was withdrawn, and is quiet once, after that;
 *  - a receive's memory is untouched before it is ready and after it is quiet, and so is what is
 *    around it; a send's is not looked at after it is quiet;
 *  - what is staged goes in pieces: this test is the engine then, and answers at any time;
 *  - in the end nothing is kept: no tag, no slot, no answer owed, no record, no byte.
 */
#include "tests/stress/random_peers.h"
#include "net/peer/arrive.h"

/* ---- operations ---- */

static op *make_op(side *side_, bool is_send, uint64_t tag, size_t size_bytes, uint64_t id)
{
    op *o = calloc(1, sizeof(*o));
    uint8_t *room = malloc(size_bytes + (size_t)2 * GUARD_BYTES);
    expect(o != NULL && room != NULL, "no memory");
    memset(room, UNTOUCHED, size_bytes + (size_t)2 * GUARD_BYTES);
    o->room = room;
    o->side_ = side_;
    o->fill = (uint8_t)id;
    if (is_send)
        for (size_t i = 0; i < size_bytes; i++)
            room[GUARD_BYTES + i] = (uint8_t)(id + i * 7);
    o->message.owner = o;
    o->message.memory = size_bytes > 0 ? room + GUARD_BYTES : NULL;
    o->message.size_bytes = size_bytes;
    o->message.tag = tag;
    o->message.op = id;
    o->message.is_send = is_send;
    o->message.is_staged = the_run.session.has_pieces && size_bytes > 0 && pick(3) == 0;
    if (o->message.is_staged)
        o->message.memory = NULL;
    o->message.may_view = o->message.is_staged && !is_send && pick(2);
    if (o->message.is_staged && is_send && pick(2))
        o->message.memory = o->copy = memcpy(malloc(size_bytes), room + GUARD_BYTES, size_bytes);
    return o;
}

static void expect_filled(const op *o, uint8_t with, const char *when)
{
    for (size_t i = 0; i < o->message.size_bytes; i++)
        expect(o->room[GUARD_BYTES + i] == with, "op %llu: memory was written to %s",
               (unsigned long long)o->message.op, when);
}

static void expect_guards(const op *o)
{
    const uint8_t *behind = o->room + GUARD_BYTES + o->message.size_bytes;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        expect(o->room[i] == UNTOUCHED && behind[i] == UNTOUCHED,
               "op %llu: written beside its memory", (unsigned long long)o->message.op);
}

static void fill(op *o, uint8_t with)
{
    memset(o->room + GUARD_BYTES, with, o->message.size_bytes);
}

static bool is_live(const op *o)
{
    return o->is_entered && o->resolved == 0 && !o->is_withdrawn;
}

static void make_ready(op *o)
{
    if (!is_live(o) || o->is_ready)
        return;
    if (!o->message.is_send)
        expect_filled(o, UNTOUCHED, "before it was ready");
    o->is_ready = true;
    if (pick(2))
        (void)fry_peer_gather(&o->message, this_turn()); /* until the next progress */
    else
        fry_peer_ready(&o->message, this_turn());
}

static void withdraw(op *o)
{
    if (!is_live(o))
        return;
    o->is_withdrawn = true;
    o->was_launched = o->message.is_send && o->message.state > FRY_MESSAGE_READY;
    if (!o->message.is_send && !o->is_ready)
        expect_filled(o, UNTOUCHED, "before it was ready");
    fry_fault fault = {.status = FERRY_E_CANCELLED, .rank = -1, .op = o->message.op};
    if (pick(2))
        strcpy(fault.message, "the test withdrew it");
    run_short(2);
    fry_peer_withdraw(&o->message, &fault, this_turn());
    run_short(0);
}

static void do_anything(side *side_)
{
    if (side_->entered == 0)
        return;
    op *o = side_->ops[pick((uint32_t)side_->entered)];
    if (the_run.may_withdraw && pick(8) == 0)
        withdraw(o);
    else
        make_ready(o);
}

/* ---- events ---- */

/* Events are given what the call was that they come from. */
static void expect_turn(const void *turn)
{
    expect(turn == this_turn(), "an event of another turn");
}

static void on_resolved(void *turn, fry_message *message, ferry_status status,
                        const fry_fault *fault)
{
    expect_turn(turn);
    op *o = message->owner;
    expect(o->resolved++ == 0 && !o->is_withdrawn && o->quiet == 0, "op %llu resolves again",
           (unsigned long long)message->op);
    expect((fault == NULL) == (status == FERRY_OK), "a fault that does not fit");
    o->status = status;
    if (fault != NULL) {
        o->cause = fault->status;
        o->cause_op = fault->op;
    }
    if (!message->is_send && !o->is_ready)
        expect(status != FERRY_OK, "a receive is done before it is ready");
    if (the_run.calls_back && pick(4) == 0)
        do_anything(o->side_);
}

static void on_quiet(void *turn, fry_message *message)
{
    expect_turn(turn);
    op *o = message->owner;
    expect(o->quiet++ == 0, "op %llu is quiet again", (unsigned long long)message->op);
    expect(o->resolved == 1 || o->is_withdrawn, "quiet before resolved");
    expect(o->viewers == 0 || the_run.may_fail, "op %llu is quiet while it is read",
           (unsigned long long)message->op);
    expect_guards(o);
    if (!message->is_send && o->status == FERRY_OK && o->resolved == 1) {
        /* Its bytes are looked at now: later they are others. */
        o->fill = message->size_bytes > 0 ? o->room[GUARD_BYTES] : 0;
        for (size_t i = 0; i < message->size_bytes; i++)
            expect(o->room[GUARD_BYTES + i] == (uint8_t)(o->fill + i * 7),
                   "op %llu: these are not one send's bytes", (unsigned long long)message->op);
    }
    if (!message->is_send && !o->is_ready)
        expect_filled(o, UNTOUCHED, "though it was never ready");
    fill(o, AFTER_QUIET);
    if (the_run.calls_back && pick(4) == 0)
        do_anything(o->side_);
}

/* ---- pieces ---- */

/* Where a view reads, and for whom. */
typedef struct shown_place {
    uint8_t *bytes;
    op *send;
} shown_place;

static void view_ends(const fry_slice *view)
{
    const uint8_t *bytes = view->memory;
    for (int i = 0; i < the_run.side_count; i++) {
        for (size_t j = 0; j < the_run.sides[i].entered; j++) {
            op *o = the_run.sides[i].ops[j];
            o->viewers -= o->room + GUARD_BYTES == bytes;
        }
    }
}

static void answer_view(lent *l)
{
    op *o = l->slice->is_given_up ? NULL : l->slice->message->owner;
    expect(o == NULL || o->quiet == 0, "a view of what is quiet");
    view_ends(l->slice);
    lent_answer(&the_run.lent, l, o != NULL && pick(8) > 0 ? o->room + GUARD_BYTES : NULL,
                this_turn());
}

static void answer(lent *l)
{
    if (l->due == LENT_TO_VIEW) {
        answer_view(l);
        return;
    }
    op *o = l->slice->message->owner;
    expect(o->quiet == 0, "a piece of what is quiet");
    lent_answer(&the_run.lent, l, o->room + GUARD_BYTES, this_turn());
}

/* Returns how many were due. */
static size_t answer_some(void)
{
    size_t count = lent_count(the_run.lent);
    for (size_t left = count; left > 0; left--) {
        lent *l = lent_pick(the_run.lent, pick(8));
        if (l != NULL && pick(2))
            answer(l);
    }
    return count;
}

static void on_piece(void *turn, fry_slice *slice, lent_due due)
{
    expect_turn(turn);
    lent *l = slice->owner;
    if (due == LENT_TO_STORE)
        l->due = due;
    else
        l = lent_new(&the_run.lent, slice, due);
    if (pick(2))
        answer(l);
}

#define ON_PIECE(name, due)                                                                        \
    static void name(void *turn, fry_slice *slice)                                                 \
    {                                                                                              \
        on_piece(turn, slice, due);                                                                \
    }
ON_PIECE(on_serve, LENT_TO_SERVE)
ON_PIECE(on_wants_place, LENT_TO_PLACE)
ON_PIECE(on_landed, LENT_TO_STORE)
static void on_left(void *turn, fry_message *message)
{
    expect_turn(turn);
    memset(((op *)message->owner)->copy, AFTER_QUIET, message->size_bytes);
}

static bool on_show(void *turn, fry_message *message, fry_place *place_p)
{
    expect_turn(turn);
    op *o = message->owner;
    expect(message->is_staged && o->quiet == 0, "what is not there is shown");
    const shown_place place = {o->room + GUARD_BYTES, o};
    memcpy(place_p->bytes, &place, sizeof(place));
    return pick(8) > 0;
}

static void on_shown(void *turn, fry_slice *slice, const fry_place *place_p)
{
    expect_turn(turn);
    shown_place place;
    memcpy(&place, place_p->bytes, sizeof(place));
    place.send->viewers++;
    slice->memory = place.bytes;
    lent *l = lent_new(&the_run.lent, slice, LENT_TO_VIEW);
    if (pick(4) == 0)
        answer(l);
}

static void close_hidden(side *side_)
{
    if (!side_->is_to_close)
        return;
    side_->is_to_close = false;
    fry_peer_has_closed(side_->peer, this_turn());
}

static void on_hide(void *turn, fry_peer *peer, uint64_t generation)
{
    expect_turn(turn);
    side *side_ = fry_peer_arg(peer);
    const side *other = &the_run.sides[the_run.side_count == 1 ? 0 : 1 - side_->index];
    expect(!side_->is_to_close, "two are to be closed at once");
    expect(the_run.may_fail || (other->is_hiding && other->hides == generation),
           "something else is to be closed");
    side_->is_to_close = true;
    if (pick(2))
        close_hidden(side_);
}

static void on_hidden(void *turn, fry_peer *peer)
{
    expect_turn(turn);
    expect(((side *)fry_peer_arg(peer))->is_hiding, "nothing was to be closed");
    ((side *)fry_peer_arg(peer))->is_hiding = false;
}

static void hide_something(side *side_)
{
    if (side_->connection == NULL || side_->is_hiding || !the_run.session.has_views)
        return;
    side_->is_hiding = true;
    fry_peer_hide(side_->peer, ++side_->hides, this_turn());
}

static void on_over(void *turn, fry_slice *slice)
{
    expect_turn(turn);
    if (slice->is_view)
        view_ends(slice);
    lent_take_back(&the_run.lent, slice->owner);
}

static void on_wants_connection(void *turn, fry_peer *peer)
{
    expect_turn(turn);
    side *side_ = fry_peer_arg(peer);
    expect(!side_->wants_connection && side_->connection == NULL, "a connection is wanted twice");
    side_->wants_connection = true;
}

static void detach(side *side_, ferry_status status)
{
    fry_fault fault = {.status = status, .rank = 1 - side_->index, .message = "over"};
    side_->is_to_detach = false;
    side_->is_to_close = side_->is_hiding = false;
    side_->wants_connection = false;
    side_->generation++;
    fry_peer_connection *connection =
        fry_peer_detach(side_->peer, status, &fault, &side_->dead_channel, this_turn());
    expect(connection == side_->connection, "another connection was attached");
    side_->dead_connection = connection;
    side_->connection = NULL;
    side_->channel = NULL;
}

static void on_connection_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    expect_turn(turn);
    side *side_ = fry_peer_arg(peer);
    expect(the_run.may_fail, "the connection failed: %s", fault->message);
    expect(fault->status == FERRY_E_PEER || fault->status == FERRY_E_DEAD ||
               (the_run.is_short && fault->status == FERRY_E_NO_MEMORY),
           "an odd failure");
    expect(strstr(fault->message, "can't be") == NULL, "a rule was broken: %s", fault->message);
    if (pick(2))
        detach(side_, FERRY_E_PEER);
    else
        side_->is_to_detach = true;
}

static void on_done(void *turn, fry_message *message)
{
    on_resolved(turn, message, FERRY_OK, NULL);
    on_quiet(turn, message);
}

static void on_parted(void *turn, fry_peer *peer)
{
    expect_turn(turn);
    (void)peer;
    expect(false, "it parts, and was not asked to");
}

#define EVENTS                                                                                     \
    .resolved = on_resolved, .quiet = on_quiet, .wants_connection = on_wants_connection,           \
    .connection_failed = on_connection_failed, .parted = on_parted, .left = on_left,               \
    .serve = on_serve, .wants_place = on_wants_place, .landed = on_landed, .over = on_over,        \
    .show = on_show, .shown = on_shown, .hide = on_hide, .hidden = on_hidden

static const fry_peer_events events[2] = {{EVENTS}, {EVENTS, .done = on_done}};

/* ---- connections ---- */

static void connect_sides(run *r)
{
    r->wire_options.seed = r->random;
    r->wire = fake_wire_open(&r->wire_options);
    for (int i = 0; i < r->side_count; i++) {
        side *side_ = &r->sides[i];
        fry_connection_session session = r->session;
        memset(session.send_key, 1 + i, sizeof(session.send_key));
        memset(session.receive_key, r->side_count == 1 ? 1 : 2 - i, sizeof(session.receive_key));
        side_->connection = fry_peer_connection_open(&r->options, &session);
        expect(side_->connection != NULL, "no connection");
        side_->channel = fake_wire_end(r->wire, i, &fry_peer_channel_events,
                                       fry_peer_channel_arg(side_->connection));
    }
    for (int i = 0; i < r->side_count; i++) {
        side *side_ = &r->sides[i];
        side_->wants_connection = false;
        fry_peer_attach(side_->peer, side_->connection, side_->channel, this_turn());
    }
    if (r->may_fail && pick(4) == 0)
        fake_wire_cut_at_post(r->wire, 1 + pick(60));
}

static void destroy_dead(side *side_)
{
    if (side_->dead_connection == NULL)
        return;
    side_->dead_channel->ops->destroy(side_->dead_channel);
    fry_peer_destroyed(side_->peer, side_->dead_connection, this_turn());
    fry_peer_connection_close(side_->dead_connection);
    side_->dead_connection = NULL;
}

/* Where the connection is over at both ends there may be another. */
static void mend(run *r)
{
    for (int i = 0; i < r->side_count; i++) {
        side *side_ = &r->sides[i];
        if (side_->is_to_detach && pick(3) == 0)
            detach(side_, FERRY_E_PEER);
        if (side_->dead_connection != NULL && pick(3) == 0)
            destroy_dead(side_);
    }
    for (int i = 0; i < r->side_count; i++)
        if (r->wire == NULL || r->sides[i].connection != NULL ||
            r->sides[i].dead_connection != NULL)
            return;
    fake_wire_close(r->wire);
    r->wire = NULL;
    if (++r->failed_generations >= GENERATIONS_MAX - 1)
        r->may_fail = false;
}

/* ---- the program ---- */

static size_t pick_size(const run *r)
{
    switch (pick(4)) {
    case 0:
        return 0;
    case 1:
        return 1 + pick(32);
    case 2:
        return r->wire_options.eager_bytes_max + pick(3);
    default:
        return 1 + pick(4096);
    }
}

static void write_program(run *r)
{
    uint32_t pairs = 1 + pick(OPS_MAX - 1);
    uint32_t tags = pick(4) == 0 ? OPS_MAX : 1 + pick(TAGS);
    for (uint32_t i = 0; i < pairs; i++) {
        side *from = &r->sides[pick((uint32_t)r->side_count)];
        side *to = r->side_count == 1 ? from : &r->sides[1 - from->index];
        uint64_t tag = pick(tags) * UINT64_C(0x123456789abcdef);
        size_t size_bytes = pick_size(r);
        size_t other_bytes = pick(16) == 0 ? pick_size(r) : size_bytes;
        from->ops[from->op_count++] = make_op(from, true, tag, size_bytes, 1 + 2 * (uint64_t)i);
        to->ops[to->op_count++] = make_op(to, false, tag, other_bytes, 2 + 2 * (uint64_t)i);
    }
    /* The two programs submit in orders of their own, but for those of one tag and direction, which
     * are told apart by their order alone. */
    for (int s = 0; s < r->side_count; s++) {
        side *side_ = &r->sides[s];
        uint32_t swaps = pick(2) ? (uint32_t)side_->op_count * 4 : 0;
        for (uint32_t i = 0; i + 1 < side_->op_count && swaps > 0; swaps--) {
            i = pick((uint32_t)side_->op_count - 1);
            op *o = side_->ops[i];
            op *after = side_->ops[i + 1];
            if (o->message.tag == after->message.tag &&
                o->message.is_send == after->message.is_send)
                continue;
            side_->ops[i] = after;
            side_->ops[i + 1] = o;
        }
    }
}

static void enter_next(side *side_)
{
    if (side_->entered == side_->op_count)
        return;
    op *o = side_->ops[side_->entered];
    o->generation = side_->generation;
    for (size_t i = 0; i < side_->entered; i++) {
        const op *other = side_->ops[i];
        o->order += other->message.tag == o->message.tag &&
                    other->message.is_send == o->message.is_send &&
                    other->generation == o->generation;
    }
    bool gathers = pick(2); /* until the next progress */
    if (o->message.is_send && pick(2) && fry_peer_can_send(side_->peer, &o->message, gathers)) {
        o->is_entered = true;
        o->is_ready = true;
        side_->entered++;
        fry_peer_send(side_->peer, &o->message, gathers, this_turn());
        return;
    }
    run_short(4);
    bool has_entered = fry_peer_enter(side_->peer, &o->message, this_turn());
    run_short(0);
    expect(has_entered || the_run.is_short, "too many");
    if (!has_entered) {
        o->order = 0;
        return;
    }
    o->is_entered = true;
    side_->entered++;
    if (pick(2))
        make_ready(o);
}

static void take_step(run *r)
{
    side *side_ = &r->sides[pick((uint32_t)r->side_count)];
    r->turn++;
    if (r->wire == NULL && pick(4) == 0)
        connect_sides(r);
    switch (pick(6)) {
    case 0:
        enter_next(side_);
        break;
    case 1:
    case 2:
        do_anything(side_);
        break;
    case 3:
        (void)answer_some();
        close_hidden(side_);
        if (pick(4) == 0)
            hide_something(side_);
        break;
    default:
        run_short(r->may_fail ? 4 : 0);
        (void)fry_peer_progress(side_->peer, this_turn());
        run_short(0);
        break;
    }
    if (r->may_fail && r->wire != NULL && pick(150) == 0) {
        if (pick(2))
            fake_wire_cut(r->wire);
        else if (side_->connection != NULL)
            detach(side_, FERRY_E_DEAD);
    }
    mend(r);
}

static bool is_all_done(const run *r)
{
    for (int i = 0; i < r->side_count; i++) {
        const side *side_ = &r->sides[i];
        if (side_->entered < side_->op_count || side_->dead_connection != NULL)
            return false;
        for (size_t j = 0; j < side_->entered; j++)
            if (!side_->ops[j]->is_ready && is_live(side_->ops[j]))
                return false;
    }
    return r->wire != NULL;
}

/* Until nothing happens any more. */
static void run_out(run *r)
{
    for (uint32_t turn = 0, idle = 0; idle < 64; turn++) {
        expect(turn < TURNS_MAX, "it does not come to rest");
        bool is_at_rest = true;
        for (int i = 0; i < r->side_count; i++) {
            side *side_ = &r->sides[i];
            r->turn++;
            if (fry_peer_progress(side_->peer, this_turn()) > 0 ||
                !fry_peer_arm(side_->peer, this_turn()) || fry_peer_is_busy(side_->peer))
                is_at_rest = false;
        }
        if (answer_some() > 0)
            is_at_rest = false;
        for (int i = 0; i < r->side_count; i++)
            close_hidden(&r->sides[i]);
        mend(r);
        if (r->wire == NULL) {
            connect_sides(r);
            is_at_rest = false;
        }
        idle = is_at_rest ? idle + 1 : 0;
    }
}

/* ---- what must have come out ---- */

static op *find_partner(run *r, const op *o)
{
    side *other = r->side_count == 1 ? o->side_ : &r->sides[1 - o->side_->index];
    for (size_t i = 0; i < other->entered; i++) {
        op *candidate = other->ops[i];
        if (candidate->message.is_send != o->message.is_send &&
            candidate->message.tag == o->message.tag && candidate->order == o->order &&
            candidate->generation == o->generation)
            return candidate;
    }
    return NULL;
}

static void check_bytes(const op *send, const op *receive)
{
    expect(send->message.size_bytes == receive->message.size_bytes, "lengths differ, unseen");
    if (receive->message.size_bytes > 0)
        expect(receive->fill == (uint8_t)send->message.op, "op %llu got the bytes of another send",
               (unsigned long long)receive->message.op);
}

static void check_withdrawn(const op *send, const op *receive)
{
    if (!receive->is_withdrawn && !send->was_launched) {
        expect(receive->status == FERRY_E_DEPENDENCY && receive->cause == FERRY_E_CANCELLED &&
                   receive->cause_op == send->message.op,
               "a poison did not arrive: %d", receive->status);
    } else if (!receive->is_withdrawn) {
        expect(receive->status == FERRY_OK || receive->status == FERRY_E_DEPENDENCY ||
                   receive->status == FERRY_E_LENGTH,
               "a withdrawn send's receive: %d", receive->status);
    } else if (!send->is_withdrawn) {
        expect(send->status == FERRY_E_DEPENDENCY && send->cause == FERRY_E_CANCELLED &&
                   send->cause_op == receive->message.op,
               "a refusal did not arrive: %d", send->status);
    }
}

static void check_pair(const op *send, const op *receive, bool is_whole)
{
    if (receive->resolved && receive->status == FERRY_OK)
        check_bytes(send, receive);
    if (send->resolved && send->status == FERRY_OK && !receive->is_withdrawn)
        expect(receive->resolved && receive->status == FERRY_OK, "a send says what is not so");
    if (send->resolved && send->status == FERRY_OK && receive->resolved &&
        receive->status == FERRY_OK)
        expect(send->message.was_viewed == receive->message.was_viewed, "two ways of one message");
    if (!is_whole)
        return;
    expect(send->quiet && receive->quiet, "op %llu and %llu are not over",
           (unsigned long long)send->message.op, (unsigned long long)receive->message.op);
    if (send->is_withdrawn || receive->is_withdrawn) {
        check_withdrawn(send, receive);
        return;
    }
    ferry_status expected =
        send->message.size_bytes == receive->message.size_bytes ? FERRY_OK : FERRY_E_LENGTH;
    expect(send->status == expected && receive->status == expected, "%d and %d, not %d",
           send->status, receive->status, expected);
}

static void check_all(run *r)
{
    for (int i = 0; i < r->side_count; i++) {
        for (size_t j = 0; j < r->sides[i].entered; j++) {
            op *o = r->sides[i].ops[j];
            op *partner = find_partner(r, o);
            if (partner == NULL) {
                expect(o->generation != r->failed_generations || r->failed_generations > 0,
                       "op %llu has no partner", (unsigned long long)o->message.op);
                expect(o->resolved == 0 || o->status != FERRY_OK, "op %llu: done with nobody",
                       (unsigned long long)o->message.op);
            } else if (o->message.is_send) {
                bool is_last = o->generation == r->failed_generations;
                check_pair(o, partner, is_last);
            }
        }
    }
}

static uint32_t count_chunks(const fry_peer_connection *connection)
{
    uint32_t count = 0;
    for (const fry_chunk *chunk = connection->chunks_free; chunk != NULL; chunk = chunk->next)
        count++;
    return count;
}

static uint32_t count_records(const fry_peer_connection *connection)
{
    uint32_t count = 0;
    for (const fry_record *record = connection->records_free; record != NULL; record = record->next)
        count++;
    return count;
}

/* Every send met its receive: nothing is kept. */
static void check_nothing_stays(const side *side_)
{
    const fry_peer_connection *connection = side_->connection;
    expect(side_->peer->open_count == 0, "something is open");
    expect(side_->peer->sends.used <= 1 && side_->peer->receives.used <= 1, "a tag stays");
    expect(side_->peer->send_count == 0 && side_->peer->receive_count == 0, "a count stays");
    expect(connection->slots_used == 0 && connection->owed == 0 && connection->run_count == 0,
           "an answer is owed");
    expect(connection->window_messages_used == 0 && connection->window_bytes_used == 0,
           "the window shrank");
    expect(count_chunks(connection) == connection->chunks_fresh, "a chunk is lost");
    expect(count_records(connection) == connection->records_fresh, "a record is lost");
    expect(connection->controls_used == 0 && connection->posting == 0 && connection->pulling == 0 &&
               connection->recalls == 0 && connection->stashed == 0,
           "something is under way");
}

/* ---- a seed ---- */

static void open_run(run *r, uint64_t seed)
{
    *r = (run){.seed = seed, .random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    failing_allocator_init(&r->allocator);
    ferry_allocator interface = failing_allocator_interface(&r->allocator);
    fry_memory_init(&r->memory, &interface);
    fry_log_init(&r->log, NULL, NULL);
    r->log.max_level = FERRY_LOG_ERROR;
    r->side_count = pick(8) == 0 ? 1 : 2;
    r->may_fail = pick(4) == 0;
    r->may_withdraw = pick(2) == 0;
    r->calls_back = pick(3) == 0;
    r->is_short = pick(4) == 0;
    static const uint32_t windows[] = {0, 1, 1, 2, 8, 1024};
    static const uint32_t unexpected[] = {1, 2, 5, 64, 64, 64};
    static const size_t eager[] = {0, 64, 1016, 4096};
    r->wire_options = (fake_wire_options){
        .eager_bytes_max = eager[pick(4)],
        .is_self = r->side_count == 1,
        .reorder = pick(2) ? pick(20) : 0,
        .is_late = pick(3) > 0,
    };
    r->session = (fry_connection_session){
        .is_keyed = pick(4) == 0,
        .window_messages = windows[pick(6)],
        .unexpected_max = unexpected[pick(6)],
        .window_bytes = pick(2) ? 1 << 20 : pick(6000),
        .has_pieces = pick(2),
    };
    r->session.has_views = r->session.has_pieces && pick(2);
    if (r->may_fail) /* then some have no partner, and must not be in the others' way */
        r->session.unexpected_max = 2 * OPS_MAX;
    r->options = (fry_peer_options){
        .memory = &r->memory,
        .log = &r->log,
        .unexpected_max = 2 * OPS_MAX,
        .window_messages = r->session.window_messages,
        .window_bytes = (size_t)r->session.window_bytes,
        .piece_bytes = 1 + pick(pick(2) ? 300 : 5000),
        .events = &events[pick(2)],
    };
    for (int i = 0; i < r->side_count; i++) {
        side *side_ = &r->sides[i];
        fry_peer_options options = r->options;
        options.rank = r->side_count == 1 ? 0 : 1 - i;
        options.own_rank = i;
        options.arg = side_;
        side_->run = r;
        side_->index = i;
        side_->peer = fry_peer_open(&options);
        expect(side_->peer != NULL, "no peer");
    }
}

static void close_run(run *r)
{
    r->may_fail = true;
    r->calls_back = false;
    failing_allocator_arm(&r->allocator, 0, false);
    for (int i = 0; i < r->side_count; i++) {
        side *side_ = &r->sides[i];
        if (side_->connection != NULL)
            detach(side_, FERRY_E_SHUTDOWN);
        destroy_dead(side_);
        fry_peer_close(side_->peer);
        for (size_t j = 0; j < side_->op_count; j++) {
            op *o = side_->ops[j];
            expect(o->quiet == 1 && o->resolved + o->is_withdrawn == 1, "op %llu is not over",
                   (unsigned long long)o->message.op);
            expect_filled(o, AFTER_QUIET, "after it was quiet");
            expect_guards(o);
            free(o->room);
            free(o->copy);
            free(o);
        }
    }
    fake_wire_close(r->wire);
    expect(r->lent == NULL, "memory is still lent");
    expect(failing_allocator_live_bytes(&r->allocator) == 0, "memory is lost");
}

static void run_seed(uint64_t seed)
{
    run *r = &the_run;
    open_run(r, seed);
    write_program(r);
    for (uint32_t turn = 0; !is_all_done(r); turn++) {
        expect(turn < TURNS_MAX, "the program does not end");
        take_step(r);
    }
    r->may_withdraw = false;
    run_out(r);
    check_all(r);
    if (r->failed_generations == 0)
        for (int i = 0; i < r->side_count; i++) {
            expect(!r->sides[i].is_hiding, "what was to be closed is not");
            check_nothing_stays(&r->sides[i]);
        }
    close_run(r);
}

int main(int argc, char **argv)
{
    seeds seeds = {.count = SEEDS, .hang_s = HANG_S};
    run_seeds(argc, argv, &seeds, run_seed);
    printf("random_peers: %llu seeds\n", (unsigned long long)seeds.count);
    return EXIT_SUCCESS;
}
