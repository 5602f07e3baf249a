/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member may send another: any headers, with any data, to a peer that has sends and receives
 * open in several states. Whatever comes, each of them resolves once and is quiet once, in the end,
 * and a header that is taken for one is packed into the same bytes again.
 *
 * The bytes are arrivals, each of three bytes (how long the header is, how much data there is in
 * units of 16 bytes, and flags), its header, and what the data begins with if FLAG_GIVEN says so.
 */
#include "net/peer/wire.h"
#include "net/peer/any.h"
#include "net/peer/arrive.h"
#include "net/peer/ask.h"
#include "net/peer/connection.h"
#include "net/peer/joint.h"
#include "net/peer/seek.h"
#include "net/peer/serve.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 12, OP_BYTES = 64, DATA_BYTES_MAX = 255 * 16 };
enum { FLAG_PULLED = 1, FLAG_GIVEN = 2 };

static fry_message messages[OPS];
static int resolved[OPS], quiet[OPS], withdrawn[OPS], held[OPS];
static unsigned admitted;
static uint8_t memories[OPS][OP_BYTES];
static size_t tokens_open;

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "wire: %s\n", what);
    abort();
}

/* ---- a channel to nobody ---- */

static fry_post_result nobody_post(fry_channel *channel, fry_post *post)
{
    (void)channel;
    return post->is_pulled && post->size_bytes > 0 ? FRY_POST_BEGUN : FRY_POST_DONE;
}

static void nobody_pull(fry_channel *channel, fry_pull *pull)
{
    (void)channel;
    tokens_open--;
    memset(pull->memory, 1, pull->size_bytes);
    pull->done(pull, FERRY_OK, NULL);
}

static void nobody_drop(fry_channel *channel, void *token)
{
    (void)channel;
    expect(token != NULL, "no token is dropped");
    tokens_open--;
}

static size_t nobody_progress(fry_channel *channel)
{
    (void)channel;
    return 0;
}

static fry_arming nobody_arm(fry_channel *channel)
{
    (void)channel;
    return FRY_ARMING_ARMED;
}

static const fry_channel_ops nobody = {.post = nobody_post,
                                       .pull = nobody_pull,
                                       .drop = nobody_drop,
                                       .progress = nobody_progress,
                                       .arm = nobody_arm};

/* ---- the peer ---- */

static void on_resolved(void *turn, fry_message *message, ferry_status status,
                        const fry_fault *fault)
{
    (void)turn;
    size_t i = (size_t)(message - messages);
    expect(++resolved[i] == 1 && quiet[i] == 0 && !withdrawn[i], "resolved twice");
    expect((status == FERRY_OK) == (fault == NULL), "a fault that does not fit");
    if (fault != NULL)
        expect(memchr(fault->message, 0, sizeof(fault->message)) != NULL, "a text without end");
}

static void on_quiet(void *turn, fry_message *message)
{
    (void)turn;
    size_t i = (size_t)(message - messages);
    expect(++quiet[i] == 1 && resolved[i] + withdrawn[i] == 1, "quiet at the wrong time");
}

static void on_met(void *turn, fry_message *message, fry_peer *peer, uint64_t size_bytes)
{
    (void)turn;
    (void)peer;
    size_t i = (size_t)(message - messages);
    expect(resolved[i] == 0 && !withdrawn[i], "met too late");
    expect(message->size_bytes <= OP_BYTES, "larger than its memory");
    expect(message->size_bytes == size_bytes || size_bytes > message->size_bytes, "another size");
}

static void on_wants_connection(void *turn, fry_peer *peer)
{
    (void)turn;
    (void)peer;
}

static void on_connection_failed(void *turn, fry_peer *peer, const fry_fault *fault)
{
    (void)turn;
    (void)peer;
    expect(fault->status != FERRY_OK, "failed, and well");
}

static void on_wants_pair(void *turn, fry_peer *peer)
{
    fry_peer_pair_ready(peer, true, turn);
}

static void on_pair_heard(void *turn, fry_peer *peer, fry_pair_word word, const fry_pair_note *note)
{
    (void)note;
    fry_peer_pair_ready(peer, word == FRY_PAIR_MAKE, turn);
}

static bool on_admit(void *turn, fry_peer *peer)
{
    (void)turn, (void)peer;
    return ++admitted % 4 != 0;
}

static void on_dismiss(void *turn, fry_peer *peer)
{
    (void)turn, (void)peer;
}

static void on_hold(void *turn, fry_message *message)
{
    (void)turn;
    size_t i = (size_t)(message - messages);
    expect(++held[i] == 1 && quiet[i] == 0 && message->may_join, "held at the wrong time");
}

static void on_release(void *turn, fry_message *message)
{
    (void)turn;
    expect(held[message - messages]-- == 1, "not held");
}

static void on_unpaired(void *turn, fry_peer *peer)
{
    (void)turn, (void)peer;
}

/* Over at once, or lost. What it holds is let go of before words may be awaited. */
static void on_launch(void *turn, fry_peer *peer, const fry_joint_lot *lot)
{
    uint32_t number = lot->number;
    for (uint32_t i = 0; i < lot->count; i++)
        on_release(turn, lot->items[i].message);
    if (admitted % 8 != 1)
        (void)fry_peer_joint_flown(peer, number, turn);
    else
        fry_peer_joint_lost(peer, number, turn);
}

static void on_whole(void *turn, fry_peer *peer, uint32_t number)
{
    (void)turn, (void)peer, (void)number;
}

static void on_serve(void *turn, fry_slice *piece)
{
    fry_peer_served(piece, memories[piece->message - messages] + piece->offset, turn);
}

static void on_wants_place(void *turn, fry_slice *piece)
{
    fry_peer_placed(piece, memories[piece->message - messages] + piece->offset, turn);
}

static void on_landed(void *turn, fry_slice *piece)
{
    fry_peer_stored(piece, turn);
}

static void on_over(void *turn, fry_slice *piece)
{
    (void)turn, (void)piece;
}

static const fry_peer_events events = {.met = on_met,
                                       .resolved = on_resolved,
                                       .quiet = on_quiet,
                                       .wants_connection = on_wants_connection,
                                       .connection_failed = on_connection_failed,
                                       .serve = on_serve,
                                       .wants_place = on_wants_place,
                                       .landed = on_landed,
                                       .over = on_over,
                                       .wants_pair = on_wants_pair,
                                       .pair_heard = on_pair_heard,
                                       .admit = on_admit,
                                       .dismiss = on_dismiss,
                                       .hold = on_hold,
                                       .release = on_release,
                                       .launch = on_launch,
                                       .whole = on_whole,
                                       .unpaired = on_unpaired};

/* With any source, if there is any: some receives leave their member or their tag open. */
static void enter(fry_any *any, fry_peer *peer, fry_message *message, size_t i)
{
    if (any == NULL || message->is_send)
        expect(fry_peer_enter(peer, message, NULL), "not entered");
    else
        expect(fry_seek_enter(any, i % 3 != 0 ? peer : NULL, i % 2 == 0, message, NULL) ==
                   FRY_SEEK_ENTERED,
               "not entered");
}

static void withdraw(fry_message *message)
{
    if (fry_seek_is_apart(message))
        fry_seek_withdraw(message, NULL);
    else
        fry_peer_withdraw(message, NULL, NULL);
}

static void make_ready(fry_message *message)
{
    if (fry_seek_is_apart(message))
        fry_seek_ready(message);
    else
        fry_peer_ready(message, NULL);
}

/* Receives of tags 1 and 2, sends of others: of each some are ready, or withdrawn. */
static void open_messages(fry_any *any, fry_peer *peer, bool joins)
{
    memset(resolved, 0, sizeof(resolved));
    memset(quiet, 0, sizeof(quiet));
    memset(withdrawn, 0, sizeof(withdrawn));
    memset(held, 0, sizeof(held));
    for (size_t i = 0; i < OPS; i++) {
        messages[i] = (fry_message){.memory = memories[i],
                                    .size_bytes = i % 3 == 2 ? OP_BYTES : 16,
                                    .tag = 1 + i % 2,
                                    .op = 100 + i,
                                    .is_send = i >= OPS / 2};
        messages[i].is_staged = messages[i].may_join = joins && i % 3 == 2;
        if (messages[i].is_staged)
            messages[i].memory = NULL;
        enter(any, peer, &messages[i], i);
        if (i % 6 == 5) {
            withdrawn[i] = 1;
            withdraw(&messages[i]);
        } else if (i % 6 != 4) {
            make_ready(&messages[i]);
        }
    }
}

/* Where a header's fault begins; 0: it has none. */
static size_t fault_at(uint8_t kind)
{
    return kind == FRY_WIRE_POISON   ? 44
           : kind == FRY_WIRE_RECALL ? 12
           : kind == FRY_WIRE_NACK   ? 16
                                     : 0;
}

/* Only the words of the fault at `at` may differ: a domain that is not known is "member" now. */
static void expect_fault_again(const uint8_t *bytes, size_t size, const uint8_t *again,
                               size_t packed, size_t at)
{
    size_t domain = bytes[at + 24], domain_again = again[at + 24];
    const uint8_t *texts = bytes + at + 26, *texts_again = again + at + 26;
    expect(memcmp(bytes, again, at + 24) == 0, "a fault packed into other bytes");
    expect(bytes[at + 25] == again[at + 25], "packed with another message");
    expect(packed - domain_again == size - domain, "packed into another length");
    bool is_same = domain == domain_again && memcmp(texts, texts_again, domain) == 0;
    expect(is_same || (domain != 0 && domain_again == 6 && memcmp(texts_again, "member", 6) == 0),
           "packed with another domain");
}

static void expect_packed_again(const uint8_t *bytes, size_t size)
{
    fry_wire_header header;
    uint8_t again[FRY_HEADER_BYTES_MAX];
    if (!fry_wire_unpack(bytes, size, &header))
        return;
    size_t packed = FRY_WIRE_MESSAGE_BYTES;
    if (header.kind == FRY_WIRE_EAGER || header.kind == FRY_WIRE_PULLED)
        fry_wire_pack_message(again, &header);
    else
        packed = fry_wire_pack(again, &header);
    size_t at = fault_at(header.kind);
    if (at != 0) {
        expect_fault_again(bytes, size, again, packed, at);
        return;
    }
    expect(packed == size, "packed into another length");
    expect(memcmp(bytes, again, size) == 0, "packed into other bytes");
}

static void expect_series_packed_again(const uint8_t *bytes, size_t size)
{
    fry_wire_series series;
    uint8_t again[FRY_WIRE_SERIES_BYTES];
    if (size < sizeof(again) || !fry_wire_unpack_series(bytes, &series))
        return;
    fry_wire_pack_series(again, &series);
    expect(memcmp(bytes, again, sizeof(again)) == 0, "a series packed into other bytes");
}

static void arrive(fry_peer_connection *connection, const uint8_t *header, size_t header_bytes,
                   const uint8_t *given, size_t given_bytes, size_t data_bytes, bool is_pulled)
{
    uint8_t *copy = malloc(header_bytes + data_bytes + 1);
    expect(copy != NULL, "no memory");
    memcpy(copy, header, header_bytes);
    memset(copy + header_bytes, 7, data_bytes);
    memcpy(copy + header_bytes, given, given_bytes);
    fry_arrival arrival = {.header = copy,
                           .header_bytes = header_bytes,
                           .data = data_bytes > 0 && !is_pulled ? copy + header_bytes : NULL,
                           .size_bytes = data_bytes,
                           .token = is_pulled ? &tokens_open : NULL};
    tokens_open += is_pulled;
    fry_peer_channel_events.arrived(fry_peer_channel_arg(connection), &arrival);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    const fry_log log = {.max_level = FERRY_LOG_ERROR};
    /* By the last byte: with messages in pieces and lots, as the leader or as the follower; or with
     * any source. */
    unsigned how = size > 0 ? data[size - 1] % 5 : 0;
    bool joins = how == 2 || how == 3;
    fry_any *any = how == 4 ? fry_any_open(&memory, &events, OPS) : NULL;
    fry_peer_options options = {.memory = &memory,
                                .log = &log,
                                .rank = 1,
                                .own_rank = how == 3 ? 2 : 0,
                                .unexpected_max = OPS,
                                .any = any,
                                .events = &events};
    fry_connection_session session = {.window_messages = 4,
                                      .window_bytes = 2048,
                                      .unexpected_max = 8,
                                      .has_pieces = joins,
                                      .has_pairs = joins};
    admitted = 0;
    fry_peer *peer = fry_peer_open(&options);
    fry_peer_connection *connection = fry_peer_connection_open(&options, &session);
    expect(peer != NULL && connection != NULL, "no memory");
    fry_channel channel = {.ops = &nobody, .eager_bytes_max = 32};
    tokens_open = 0;
    fry_peer_attach(peer, connection, &channel, NULL);
    open_messages(any, peer, joins);
    while (size >= 3) {
        size_t header_bytes = data[0];
        size_t data_bytes = (size_t)data[1] * 16;
        bool is_pulled = data[2] & FLAG_PULLED;
        bool is_given = data[2] & FLAG_GIVEN;
        data += 3;
        size -= 3;
        if (header_bytes > size)
            header_bytes = size;
        expect_packed_again(data, header_bytes);
        const uint8_t *given = data + header_bytes;
        size_t left = size - header_bytes;
        size_t given_bytes = !is_given ? 0 : data_bytes < left ? data_bytes : left;
        expect_series_packed_again(given, given_bytes);
        arrive(connection, data, header_bytes, given, given_bytes, data_bytes, is_pulled);
        (void)fry_peer_progress(peer, NULL);
        data += header_bytes + given_bytes;
        size -= header_bytes + given_bytes;
    }
    const fry_fault fault = {.status = FERRY_E_DEAD};
    (void)fry_peer_detach(peer, FERRY_E_DEAD, &fault, NULL, NULL);
    if (any != NULL)
        fry_any_fail(any, FRY_ANY_OF_ALL, -1, FERRY_E_DEAD, &fault, NULL);
    fry_peer_destroyed(peer, connection, NULL);
    for (size_t i = 0; i < OPS; i++)
        expect(quiet[i] == 1 && resolved[i] + withdrawn[i] == 1 && held[i] == 0, "not over");
    fry_peer_connection_close(connection);
    fry_peer_close(peer);
    fry_any_close(any);
    return 0;
}
