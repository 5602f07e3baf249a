/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/random_program.h"

#include "tests/support/stress.h"

enum {
    NOISE_BYTES = PROGRAM_BYTES,
    LATER_MAX = 6,
    TAGS = 3,
    BLOCK_TAGS = 1000,
    ALONE_MAX = 12, /* acts of a block that is made in one go */
};

/* Bytes that nothing paints. */
static const unsigned char *noise(uint64_t at)
{
    static unsigned char bytes[2 * NOISE_BYTES];
    static bool is_made;
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < sizeof bytes && !is_made; i++) {
        unsigned char byte = (unsigned char)below(&random, 256);
        bytes[i] = byte == PROGRAM_PAINT ? 0 : byte;
    }
    is_made = true;
    return bytes + at * 7919 % NOISE_BYTES;
}

static uint32_t pick(random_program *program, uint32_t bound)
{
    return below(&program->random, bound);
}

static bool one_in(random_program *program, uint32_t count)
{
    return pick(program, count) == 0;
}

/* ---- the model ---- */

void random_program_change(unsigned char *bytes, size_t size_bytes, uint8_t salt)
{
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = (unsigned char)(bytes[i] * 3u + salt + i);
}

bool program_writes_window(const program_act *act)
{
    return act->kind == FERRY_OP_PUT;
}

bool program_writes_own(const program_act *act)
{
    return act->kind == FERRY_OP_GET || act->kind == FERRY_OP_RECV || act->kind == FERRY_OP_COPY ||
           act->kind == FERRY_OP_CALL;
}

static unsigned char *window_bytes(random_program *program, const program_act *act)
{
    return program->members[act->peer].memory[1 + act->window] + act->window_offset;
}

/* A message is done where it is received, from what src_buffer and src_at are of its sender. */
static void apply(random_program *program, uint32_t who, const program_act *act)
{
    unsigned char *own = program->members[who].memory[act->buffer] + act->at;
    const unsigned char *from = NULL;
    unsigned char *to = own;
    switch (act->kind) {
    case FERRY_OP_CALL:
        random_program_change(own, act->size, act->salt);
        return;
    case FERRY_OP_COPY:
        from = program->members[who].memory[act->src_buffer] + act->src_at;
        break;
    case FERRY_OP_RECV:
        from = program->members[act->peer].memory[act->src_buffer] + act->src_at;
        break;
    case FERRY_OP_GET:
        from = window_bytes(program, act);
        break;
    case FERRY_OP_PUT:
        from = own;
        to = window_bytes(program, act);
        break;
    default:
        return;
    }
    memcpy(to, from, act->size);
}

/* A loose one changes nothing; what it may bring is kept. */
static void keep_expected(random_program *program, uint32_t who, program_act *act)
{
    const unsigned char *from = program->members[who].memory[act->buffer] + act->at;
    if (act->kind == FERRY_OP_GET)
        from = window_bytes(program, act);
    else if (act->kind == FERRY_OP_RECV)
        from = program->members[act->peer].memory[act->src_buffer] + act->src_at;
    else if (act->kind != FERRY_OP_PUT)
        return;
    act->expected = malloc(act->size);
    CHECK(act->expected != NULL);
    memcpy(act->expected, from, act->size);
}

/* ---- who lives ---- */

bool random_program_dies(const random_program *program, uint32_t member)
{
    return program->fault == PROGRAM_KILL && member == program->victim &&
           program->round == program->fault_round;
}

bool random_program_lives(const random_program *program, uint32_t member)
{
    return program->fault != PROGRAM_KILL || member != program->victim ||
           program->round < program->fault_round;
}

static bool is_here(const random_program *program, uint32_t member)
{
    return random_program_lives(program, member) || random_program_dies(program, member);
}

/* Another member; FERRY_RANK_NONE: it came to this one itself, or one that is gone. */
static uint32_t pick_other(random_program *program, uint32_t who)
{
    uint32_t other = pick(program, program->member_count);
    return other == who || !is_here(program, other) ? FERRY_RANK_NONE : other;
}

/* FIRM, if it may be, and then by chance. */
static program_fate pick_fate(random_program *program, uint32_t who, uint32_t other)
{
    if (random_program_dies(program, who) || random_program_dies(program, other))
        return PROGRAM_BEREFT;
    return one_in(program, 4) ? PROGRAM_LOOSE : PROGRAM_FIRM;
}

/* ---- memory ---- */

static uint32_t pick_size(random_program *program, bool is_loose)
{
    static const uint32_t bounds[] = {40, 300, 300, 300, 5000, 5000, 20000, 40000};
    if (one_in(program, is_loose ? 8 : 24))
        return 1 + pick(program, is_loose ? 200000 : 220000);
    return 1 + pick(program, bounds[pick(program, 8)]);
}

/* Where a firm act reads or writes; often where another does. */
static uint32_t pick_place(random_program *program, uint32_t size)
{
    uint32_t at = pick(program, PROGRAM_FIRM_BYTES - size + 1);
    return one_in(program, 2) ? at & ~4095u : at;
}

/* Bytes of a loose part, which are one act's; false: there are none left. */
static bool take_loose(uint32_t *used, uint32_t size, uint32_t *at_p)
{
    if (*used + size > PROGRAM_LOOSE_BYTES)
        return false;
    *at_p = PROGRAM_FIRM_BYTES + *used;
    *used += size;
    return true;
}

/* A buffer that the owner itself may use: its own, or a window that is left to it. */
static uint32_t pick_buffer(random_program *program, uint32_t who, bool is_written)
{
    uint32_t window = pick(program, 2 * program->window_count);
    if (window >= program->window_count)
        return 0;
    program_use use = program->members[who].windows[window].use;
    return use == PROGRAM_OWN || (use == PROGRAM_READ && !is_written) ? 1 + window : 0;
}

/* ---- acts ---- */

static program_act *add(random_program *program, uint32_t who, ferry_op_kind kind,
                        program_fate fate)
{
    program_member *member = &program->members[who];
    program_act *act = &member->acts[member->act_count++];
    CHECK(member->act_count <= PROGRAM_ACTS_MAX);
    *act = (program_act){.kind = kind, .fate = fate, .block = member->open_block, .picks = 1};
    if (act->block == 0)
        return act;
    program_block *block = &member->blocks[act->block];
    bool is_message = kind == FERRY_OP_SEND || kind == FERRY_OP_RECV;
    if (block->is_picky && block->count > 0 && !is_message && one_in(program, 4))
        act->picks = 0;
    block->count++;
    return act;
}

/* Its effect on the model, or on what is expected of it. In a block that is posted several times:
 * when it is whole. */
static void settle(random_program *program, uint32_t who, program_act *act)
{
    const program_block *block = &program->members[who].blocks[act->block];
    if (act->fate != PROGRAM_FIRM)
        keep_expected(program, who, act);
    else if (act->picks != 0 && (act->block == 0 || block->posts == 1))
        apply(program, who, act);
}

static void pick_end(random_program *program, program_end *end_p, uint32_t *later_p,
                     int64_t *soon_ns_p)
{
    static const program_end ends[] = {PROGRAM_CANCELLED, PROGRAM_CANCELLED,  PROGRAM_CANCELLED,
                                       PROGRAM_GATED,     PROGRAM_GATE_FAILS, PROGRAM_PAST,
                                       PROGRAM_SOON,      PROGRAM_SOON};
    *end_p = ends[pick(program, sizeof ends / sizeof ends[0])];
    *later_p = one_in(program, 4) ? PROGRAM_ACTS_MAX : pick(program, LATER_MAX);
    *soon_ns_p = 1 + pick(program, 1u << pick(program, 22));
}

/* How an act of no block ends: it alone, of a block that is the block's. */
static void choose_end(random_program *program, program_act *act)
{
    if (act->block != 0)
        return;
    if (act->fate == PROGRAM_LOOSE)
        pick_end(program, &act->end, &act->later, &act->soon_ns);
    else if (one_in(program, 8)) {
        act->end = PROGRAM_GATED;
        act->later = pick(program, LATER_MAX);
    }
}

static void add_change(random_program *program, uint32_t who, uint32_t size)
{
    program_act *act = add(program, who, FERRY_OP_CALL, PROGRAM_FIRM);
    act->size = size;
    act->buffer = pick_buffer(program, who, true);
    act->at = pick_place(program, size);
    act->salt = (uint8_t)pick(program, 256);
    choose_end(program, act);
    settle(program, who, act);
}

static void add_copy(random_program *program, uint32_t who)
{
    uint32_t size = pick_size(program, false), at = pick_place(program, size);
    uint32_t src_at = pick_place(program, size);
    uint32_t buffer = pick_buffer(program, who, true), src = pick_buffer(program, who, false);
    if (buffer == src && at < src_at + size && src_at < at + size)
        return;
    program_act *act = add(program, who, FERRY_OP_COPY, PROGRAM_FIRM);
    act->buffer = buffer;
    act->at = at;
    act->src_buffer = src;
    act->src_at = src_at;
    act->size = size;
    choose_end(program, act);
    settle(program, who, act);
}

/* Where a put or a get is in the window; false: it can't be. */
static bool place_reach(program_window *window, random_program *program, program_act *act)
{
    uint32_t at = 0;
    if (act->fate == PROGRAM_FIRM && act->kind == FERRY_OP_GET) {
        at = pick_place(program, act->size);
    } else if (act->fate == PROGRAM_FIRM) {
        at = window->firm_used;
        if (at + act->size > PROGRAM_FIRM_BYTES)
            return false;
        window->firm_used += act->size;
    } else if (window->use == PROGRAM_CLOSING) {
        /* It has no first part. */
        at = window->loose_used;
        if (at + act->size > PROGRAM_BYTES)
            return false;
        window->loose_used += act->size;
    } else if (act->kind == FERRY_OP_GET) {
        /* What nobody writes in this round. */
        bool is_firm = window->use == PROGRAM_READ;
        at = is_firm ? pick_place(program, act->size) : 0;
        if (!is_firm && !take_loose(&window->loose_used, act->size, &at))
            return false;
    } else if (!take_loose(&window->loose_used, act->size, &at)) {
        return false;
    }
    act->window_offset = at;
    return true;
}

/* What it is not allowed to do: more than there is, or what the window's rights don't say. */
static void refuse(const program_window *window, program_act *act)
{
    act->end = PROGRAM_REFUSED;
    if (window->rights != FERRY_WINDOW_GET_PUT && act->salt % 2 == 0)
        act->kind = window->rights == FERRY_WINDOW_GET ? FERRY_OP_PUT : FERRY_OP_GET;
    else
        act->window_offset = PROGRAM_BYTES - act->size + 1;
}

static bool can_be_firm(const program_member *member, uint32_t owner, uint32_t which,
                        const program_window *window, ferry_op_kind kind)
{
    return !member->lets_go[owner][which] &&
           window->use == (kind == FERRY_OP_GET ? PROGRAM_READ : PROGRAM_WRITTEN);
}

/* fate: FIRM becomes LOOSE where the window's use wants it. NULL: none could be added. */
static program_act *add_reach(random_program *program, uint32_t who, uint32_t owner,
                              program_fate fate)
{
    program_member *member = &program->members[who];
    uint32_t which = pick(program, program->window_count);
    program_window *window = &program->members[owner].windows[which];
    ferry_op_kind kind = one_in(program, 2) ? FERRY_OP_GET : FERRY_OP_PUT;
    if (window->rights != FERRY_WINDOW_GET_PUT)
        kind = window->rights == FERRY_WINDOW_GET ? FERRY_OP_GET : FERRY_OP_PUT;
    if (fate == PROGRAM_FIRM && !can_be_firm(member, owner, which, window, kind)) {
        if (member->open_block != 0)
            return NULL;
        fate = PROGRAM_LOOSE;
    }
    program_act act = {.kind = kind,
                       .fate = fate,
                       .peer = owner,
                       .window = which,
                       .size = pick_size(program, fate != PROGRAM_FIRM),
                       .salt = (uint8_t)pick(program, 256)};
    bool is_own_firm = fate == PROGRAM_FIRM || (fate == PROGRAM_LOOSE && kind == FERRY_OP_PUT &&
                                                member->open_block == 0 && one_in(program, 2));
    if (window->use == PROGRAM_CLOSING && one_in(program, 4))
        act.size = PROGRAM_FIRM_BYTES / 4 + pick(program, PROGRAM_FIRM_BYTES / 2);
    act.at = pick_place(program, act.size);
    if (!is_own_firm && !take_loose(&member->loose_used, act.size, &act.at))
        return NULL;
    if (!place_reach(window, program, &act))
        return NULL;
    program_act *added = add(program, who, kind, fate);
    act.block = added->block;
    act.picks = added->picks;
    *added = act;
    bool is_closed = window->use == PROGRAM_CLOSING || member->lets_go[owner][which];
    if (!is_closed || one_in(program, 2))
        choose_end(program, added);
    settle(program, who, added);
    bool can_refuse = fate == PROGRAM_LOOSE && added->block == 0 && !is_own_firm && !is_closed;
    if (can_refuse && one_in(program, 6))
        refuse(window, added);
    return added;
}

/* Blocks have tags of their own: when a post takes its places depends on when it starts. */
static uint64_t tag_of(random_program *program, uint32_t from, uint32_t to)
{
    uint64_t from_block = program->members[from].open_block;
    uint64_t to_block = program->members[to].open_block;
    if (from_block != 0 || to_block != 0)
        return BLOCK_TAGS + from_block * (PROGRAM_BLOCKS_MAX + 1) + to_block;
    return pick(program, TAGS);
}

static void add_message(random_program *program, uint32_t who, uint32_t other, program_fate fate)
{
    uint32_t size = pick_size(program, fate != PROGRAM_FIRM), src_at = 0, at = 0;
    if (fate == PROGRAM_FIRM) {
        src_at = pick_place(program, size);
        at = pick_place(program, size);
    } else if (!take_loose(&program->members[who].loose_used, size, &src_at) ||
               !take_loose(&program->members[other].loose_used, size, &at)) {
        return;
    }
    uint64_t tag = tag_of(program, who, other);
    program_act *send = add(program, who, FERRY_OP_SEND, fate);
    program_act *receive = add(program, other, FERRY_OP_RECV, fate);
    send->peer = other;
    receive->peer = who;
    send->tag = receive->tag = tag;
    send->size = receive->size = size;
    send->buffer = receive->src_buffer = pick_buffer(program, who, false) * (fate == PROGRAM_FIRM);
    send->at = receive->src_at = src_at;
    receive->at = at;
    choose_end(program, one_in(program, 2) ? send : receive);
    settle(program, other, receive);
}

/* told: 1 + the put that it waits for and tells of; 0: it does neither. */
static void add_notice(random_program *program, uint32_t who, uint32_t to, program_fate fate,
                       uint32_t told)
{
    program_act *act = add(program, who, FERRY_OP_NOTICE, fate);
    act->peer = to;
    act->size = pick(program, one_in(program, 8) ? 3000 : 60);
    act->told = told;
    act->is_order_known = act->block == 0 && told == 0;
    if (act->is_order_known && fate == PROGRAM_LOOSE)
        choose_end(program, act);
    /* What waits for something takes no place in the order of starting. */
    act->is_order_known = act->is_order_known && act->end != PROGRAM_GATED;
}

/* A put, and a notice that tells its owner, or a third member, who then looks. */
static void add_told_put(random_program *program, uint32_t who, uint32_t owner)
{
    program_member *member = &program->members[who];
    const program_act *put = add_reach(program, who, owner, PROGRAM_FIRM);
    if (put == NULL || put->fate != PROGRAM_FIRM || put->kind != FERRY_OP_PUT || put->picks == 0)
        return;
    uint32_t index = member->act_count - 1, to = owner;
    uint32_t third = pick_other(program, who);
    const program_window *window = &program->members[owner].windows[put->window];
    if (window->rights == FERRY_WINDOW_GET_PUT && third != FERRY_RANK_NONE &&
        random_program_lives(program, third) &&
        !program->members[third].lets_go[owner][put->window])
        to = third;
    add_notice(program, who, to, PROGRAM_FIRM, 1 + index);
}

/* ---- blocks ---- */

static program_block *open_block(random_program *program, uint32_t who, program_fate fate,
                                 uint32_t posts)
{
    program_member *member = &program->members[who];
    if (member->block_count == PROGRAM_BLOCKS_MAX)
        return NULL;
    member->open_block = ++member->block_count;
    program_block *block = &member->blocks[member->open_block];
    *block = (program_block){.first = member->act_count, .posts = posts, .fate = fate};
    return block;
}

/* One that is posted several times: by chance without some acts. They come one after the other, as
 * each changes bytes first. */
static void add_repeated(random_program *program, uint32_t who)
{
    program_member *member = &program->members[who];
    program_block *block =
        open_block(program, who, PROGRAM_FIRM, 2 + pick(program, PROGRAM_POSTS_MAX - 1));
    if (block == NULL)
        return;
    uint32_t all = (1u << block->posts) - 1;
    add_change(program, who, 1);
    member->acts[block->first].picks = all;
    for (uint32_t i = 0, count = pick(program, ALONE_MAX); i < count; i++) {
        uint32_t other = pick_other(program, who), before = member->act_count;
        if (one_in(program, 3))
            add_copy(program, who);
        else if (one_in(program, 3))
            add_change(program, who, 1 + pick(program, 2000));
        else if (other != FERRY_RANK_NONE && random_program_lives(program, other) &&
                 random_program_lives(program, who) && one_in(program, 4))
            add_notice(program, who, other, PROGRAM_FIRM, 0);
        else if (other != FERRY_RANK_NONE && random_program_lives(program, other) &&
                 random_program_lives(program, who))
            (void)add_reach(program, who, other, PROGRAM_FIRM);
        for (uint32_t k = before; k < member->act_count; k++)
            member->acts[k].picks = one_in(program, 3) ? pick(program, all + 1) : all;
    }
    for (uint32_t post = 0; post < block->posts; post++) {
        for (uint32_t i = block->first; i < member->act_count; i++) {
            if (member->acts[i].picks >> post & 1)
                apply(program, who, &member->acts[i]);
        }
    }
    member->open_block = 0;
}

/* One that is cancelled, late or bereft. Its messages would be waited for at the other end if it
 * never begins, so there are some only with who dies. */
static void add_loose_block(random_program *program, uint32_t who)
{
    uint32_t other = pick_other(program, who);
    if (other == FERRY_RANK_NONE || program->members[other].open_block != 0)
        return;
    program_fate fate = pick_fate(program, who, other);
    if (fate == PROGRAM_FIRM)
        fate = PROGRAM_LOOSE;
    program_block *block = open_block(program, who, fate, 1);
    if (block == NULL)
        return;
    if (fate == PROGRAM_LOOSE)
        pick_end(program, &block->end, &block->later, &block->soon_ns);
    for (uint32_t i = 0, count = 1 + pick(program, ALONE_MAX); i < count; i++) {
        if (fate == PROGRAM_BEREFT && one_in(program, 3))
            add_message(program, who, other, fate);
        else if (one_in(program, 6))
            add_notice(program, who, other, fate, 0);
        else
            (void)add_reach(program, who, other, fate);
    }
    program->members[who].open_block = 0;
}

/* A member's acts from now on, also its ends of others' messages, are those of a plan. */
static void turn_block(random_program *program, uint32_t who)
{
    program_member *member = &program->members[who];
    if (member->open_block != 0)
        member->open_block = 0;
    else if (one_in(program, 4))
        add_loose_block(program, who);
    else if (one_in(program, 3))
        add_repeated(program, who);
    else {
        program_block *block = open_block(program, who, PROGRAM_FIRM, 1);
        if (block == NULL)
            return;
        add_change(program, who, 1);
        block->is_picky = one_in(program, 3);
    }
}

/* ---- rounds ---- */

static void add_any(random_program *program, uint32_t who)
{
    uint32_t other = pick_other(program, who);
    bool is_local = other == FERRY_RANK_NONE || one_in(program, 5);
    if (is_local && one_in(program, 2)) {
        add_change(program, who, 1 + pick(program, 2000));
        return;
    }
    if (is_local) {
        add_copy(program, who);
        return;
    }
    program_fate fate = pick_fate(program, who, other);
    bool has_block = program->members[who].open_block != 0;
    if (fate != PROGRAM_FIRM && (has_block || program->members[other].open_block != 0))
        return; /* a block of firm acts stays one */
    switch (pick(program, 6)) {
    case 0:
    case 1:
        (void)add_reach(program, who, other, fate);
        break;
    case 2:
        if (fate == PROGRAM_FIRM)
            add_told_put(program, who, other);
        break;
    case 3:
        add_notice(program, who, other, fate, 0);
        break;
    default:
        add_message(program, who, other, fate);
        break;
    }
}

static void open_window(random_program *program, program_window *window)
{
    window->rights = (ferry_window_rights)(1 + pick(program, 3));
    window->is_new = true;
    window->is_name_fresh = program->round == 0 || one_in(program, 2);
    if (window->is_name_fresh)
        window->name = program->name_count++;
}

/* Since the round before, which is what lets_go is of until choose_to_let_go. */
static bool have_all_found(const random_program *program, uint32_t owner, uint32_t window)
{
    bool all = !program->members[owner].windows[window].is_new;
    for (uint32_t i = 0; i < program->member_count; i++)
        all = all && !program->members[i].lets_go[owner][window];
    return all;
}

static void choose_use(random_program *program, program_window *window, bool can_close)
{
    static const program_use uses[] = {PROGRAM_READ,    PROGRAM_READ, PROGRAM_WRITTEN,
                                       PROGRAM_WRITTEN, PROGRAM_OWN,  PROGRAM_CLOSING};
    /* Who has yet to find a window that is closed waits for ever. */
    window->use = uses[pick(program, can_close ? 6 : 5)];
    if (window->use == PROGRAM_READ && window->rights == FERRY_WINDOW_PUT)
        window->use = PROGRAM_WRITTEN;
    else if (window->use == PROGRAM_WRITTEN && window->rights == FERRY_WINDOW_GET)
        window->use = PROGRAM_READ;
    window->close_after = 1 + pick(program, 30);
    window->firm_used = window->loose_used = 0;
}

static void start_member(random_program *program, uint32_t who, bool is_after_death)
{
    program_member *member = &program->members[who];
    member->act_count = member->block_count = member->open_block = member->loose_used = 0;
    /* Who has found all windows of somebody that stands still has waited for that. */
    member->is_hasty = one_in(program, 3) ||
                       (program->fault == PROGRAM_STOP && program->round == program->fault_round);
    for (uint32_t i = 0; i < program->window_count; i++) {
        program_window *window = &member->windows[i];
        bool was_closed = window->use == PROGRAM_CLOSING;
        window->is_new = false;
        if (program->round == 0 || is_after_death || was_closed || one_in(program, 4))
            open_window(program, window);
        choose_use(program, window, have_all_found(program, who, i));
    }
    for (uint32_t i = 0; i <= program->window_count; i++) {
        uint64_t at = ((program->seed * 31 + program->round) * 8 + who) * 8 + i;
        if (program->round == 0)
            memcpy(member->memory[i], noise(at + 1), PROGRAM_FIRM_BYTES);
        else if (i > 0 && member->windows[i - 1].is_new)
            memcpy(member->memory[i], noise(at + 2), PROGRAM_FIRM_BYTES);
        memcpy(member->memory[i] + PROGRAM_FIRM_BYTES, noise(at), PROGRAM_LOOSE_BYTES);
    }
}

/* Windows that it has found before. */
static void choose_to_let_go(random_program *program, uint32_t who)
{
    for (uint32_t i = 0; i < program->member_count; i++) {
        for (uint32_t k = 0; k < program->window_count; k++) {
            bool may = i != who && !program->members[who].lets_go[i][k] &&
                       !program->members[i].windows[k].is_new && random_program_lives(program, i);
            program->members[who].lets_go[i][k] = may && one_in(program, 8);
        }
    }
}

static void drop_expected(random_program *program)
{
    for (uint32_t i = 0; i < program->member_count; i++) {
        for (uint32_t k = 0; k < program->members[i].act_count; k++) {
            free(program->members[i].acts[k].expected);
            program->members[i].acts[k].expected = NULL;
        }
    }
}

static bool is_full(const random_program *program)
{
    for (uint32_t i = 0; i < program->member_count; i++) {
        if (program->members[i].act_count + ALONE_MAX + 4 > PROGRAM_ACTS_MAX)
            return true;
    }
    return false;
}

void random_program_next(random_program *program)
{
    drop_expected(program);
    program->round++;
    bool is_after_death =
        program->fault == PROGRAM_KILL && program->round == program->fault_round + 1;
    for (uint32_t i = 0; i < program->member_count; i++)
        start_member(program, i, is_after_death);
    for (uint32_t i = 0; i < program->member_count; i++)
        choose_to_let_go(program, i);
}

void random_program_act(random_program *program)
{
    uint32_t wanted = (4 + pick(program, 50)) * program->member_count;
    for (uint32_t i = 0; i < wanted && !is_full(program); i++) {
        uint32_t who = pick(program, program->member_count);
        if (!is_here(program, who))
            continue;
        if (one_in(program, 10))
            turn_block(program, who);
        else
            add_any(program, who);
    }
}

void random_program_open(random_program *program, uint64_t seed)
{
    *program = (random_program){.seed = seed, .random = seed * 0x9e3779b97f4a7c15u + 1};
    for (int i = 0; i < 8; i++)
        (void)pick(program, 2);  /* seeds that differ little begin alike */
    program->round = UINT32_MAX; /* the next is 0 */
    program->member_count = 2 + pick(program, PROGRAM_MEMBERS_MAX - 1);
    program->window_count = 1 + pick(program, PROGRAM_WINDOWS_MAX);
    program->round_count = 3 + pick(program, 4);
    program->host_count = 2 + pick(program, PROGRAM_MEMBERS_MAX - 1);
    for (uint32_t i = 0; i < program->member_count; i++)
        program->hosts[i] = pick(program, program->host_count);
    program->victim = pick(program, program->member_count);
    program->fault_round = 1 + pick(program, program->round_count - 2);
    program->fault_after = pick(program, 1 + pick(program, 40));
    program->is_fault_exact = one_in(program, 2);
    bool is_killed = one_in(program, 4);
    program->fault = is_killed            ? PROGRAM_KILL
                     : one_in(program, 4) ? PROGRAM_STOP
                                          : PROGRAM_NO_FAULT;
    for (uint32_t i = 0; i < program->member_count; i++) {
        for (uint32_t k = 0; k <= program->window_count; k++) {
            program->members[i].memory[k] = malloc(PROGRAM_BYTES);
            CHECK(program->members[i].memory[k] != NULL);
        }
    }
}

void random_program_close(random_program *program)
{
    drop_expected(program);
    for (uint32_t i = 0; i < program->member_count; i++) {
        for (uint32_t k = 0; k <= program->window_count; k++)
            free(program->members[i].memory[k]);
    }
}
