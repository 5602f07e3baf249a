/* SPDX-License-Identifier: Apache-2.0 */
#include "net/peer/wire.h"

#include <string.h>

#define FAULT_BYTES 26 /* without its texts */
#define DOMAIN_BYTES_MAX 15
#define CONTROL_BYTES 8
#define LEFT_BYTES 12 /* that tells something */
#define NACK_BYTES 16
#define LENGTH_BYTES 24
#define RECALL_BYTES 12
#define BYE_BYTES 12
#define PIECE_BYTES 24
#define VIEW_BYTES 12
#define HIDE_BYTES 16
#define GO_BYTES 16
#define FOUND_BYTES 24
#define MAPPED_BYTES (FOUND_BYTES + 56)
#define REACH_BYTES 32
#define PAIR_BYTES (16 + FRY_PAIR_TOKEN_BYTES)
#define SHOW_BYTES (VIEW_BYTES + FRY_PLACE_BYTES)

static size_t put_text(uint8_t *to, const char *text, size_t text_bytes, size_t room)
{
    size_t bytes = strnlen(text, text_bytes);
    if (bytes > room)
        bytes = room;
    memcpy(to, text, bytes);
    return bytes;
}

/* Packs a fault at `at`. Returns where it ends. */
static size_t pack_fault(uint8_t *to, size_t at, const fry_fault *fault)
{
    uint8_t *fields = to + at;
    fry_wire_put32(fields, (uint32_t)(int32_t)fault->status);
    fry_wire_put32(fields + 4, (uint32_t)fault->rank);
    fry_wire_put64(fields + 8, (uint64_t)fault->native_code);
    fry_wire_put64(fields + 16, fault->op);
    at += FAULT_BYTES;
    size_t domain = put_text(to + at, fault->domain != NULL ? fault->domain : "", DOMAIN_BYTES_MAX,
                             FRY_WIRE_BODY_BYTES_MAX - at);
    at += domain;
    size_t message =
        put_text(to + at, fault->message, sizeof(fault->message) - 1, FRY_WIRE_BODY_BYTES_MAX - at);
    fields[24] = (uint8_t)domain;
    fields[25] = (uint8_t)message;
    return at + message;
}

static size_t pack_launches(uint8_t *to, const fry_wire_header *header)
{
    to[1] = (uint8_t)header->run_count;
    for (uint32_t i = 0; i < header->run_count; i++) {
        uint8_t *run = to + CONTROL_BYTES + i * FRY_WIRE_JOINT_BYTES;
        fry_wire_put32(run, header->joint[i].slot);
        fry_wire_put32(run + 4, header->joint[i].number);
        run[8] = (uint8_t)header->joint[i].count;
        run[9] = header->joint[i].is_send;
    }
    return CONTROL_BYTES + header->run_count * FRY_WIRE_JOINT_BYTES;
}

/* Those that tell of lots and pairs. */
static size_t pack_joint(uint8_t *to, const fry_wire_header *header)
{
    fry_wire_put32(to + 4, header->number);
    switch (header->kind) {
    case FRY_WIRE_OFFER:
    case FRY_WIRE_LOT:
        return pack_launches(to, header);
    case FRY_WIRE_GO:
        fry_wire_put64(to + 8, header->offset);
        return GO_BYTES;
    case FRY_WIRE_PAIR:
        fry_wire_put64(to + 8, header->op);
        memcpy(to + 16, header->token, FRY_PAIR_TOKEN_BYTES);
        return PAIR_BYTES;
    case FRY_WIRE_RETIRE:
    case FRY_WIRE_UNPAIRED:
        fry_wire_put32(to + 4, 0);
        /* fall through */
    case FRY_WIRE_UNPAIR:
        fry_wire_put64(to + 8, header->op);
        return HIDE_BYTES;
    case FRY_WIRE_ALONE:
        fry_wire_put32(to + 4, 0);
        return CONTROL_BYTES;
    default: /* BUSY, NUDGE, FLOWN, WHOLE */
        return CONTROL_BYTES;
    }
}

static size_t pack_mapped(uint8_t *to, const fry_wire_header *header)
{
    const fry_shared_place *place = &header->mapped.place;
    fry_wire_put32(to + 24, (uint32_t)place->pid);
    fry_wire_put32(to + 28, (uint32_t)place->descriptor);
    fry_wire_put64(to + 32, place->key[0]);
    fry_wire_put64(to + 40, place->key[1]);
    fry_wire_put64(to + 48, place->size_bytes);
    fry_wire_put64(to + 56, header->mapped.offset);
    fry_wire_put64(to + 64, place->number);
    fry_wire_put64(to + 72, place->mark);
    return MAPPED_BYTES;
}

/* Those that tell of windows. */
static size_t pack_window(uint8_t *to, const fry_wire_header *header)
{
    fry_wire_put32(to + 4, header->number);
    switch (header->kind) {
    case FRY_WIRE_FIND:
        to[1] = (uint8_t)strnlen(header->name, sizeof(header->name) - 1);
        memcpy(to + CONTROL_BYTES, header->name, to[1]);
        return CONTROL_BYTES + to[1];
    case FRY_WIRE_FOUND:
        to[1] = header->rights;
        fry_wire_put64(to + 8, header->size_bytes);
        fry_wire_put64(to + 16, header->address);
        return header->mapped.place.number != 0 ? pack_mapped(to, header) : FOUND_BYTES;
    case FRY_WIRE_GET:
    case FRY_WIRE_PUT:
        fry_wire_put64(to + 8, header->tag);
        fry_wire_put64(to + 16, header->offset);
        fry_wire_put64(to + 24, header->size_bytes);
        return REACH_BYTES;
    case FRY_WIRE_LEFT:
        if (header->told == 0)
            return CONTROL_BYTES;
        fry_wire_put32(to + CONTROL_BYTES, header->told);
        return LEFT_BYTES;
    default: /* CLOSE */
        return CONTROL_BYTES;
    }
}

size_t fry_wire_pack(uint8_t *to, const fry_wire_header *header)
{
    memset(to, 0, CONTROL_BYTES);
    to[0] = header->kind;
    switch (header->kind) {
    case FRY_WIRE_POISON:
        fry_wire_pack_message(to, header);
        return pack_fault(to, FRY_WIRE_MESSAGE_BYTES, &header->fault);
    case FRY_WIRE_HELD:
        fry_wire_pack_message(to, header);
        to[1] |= header->is_yes;
        return FRY_WIRE_MESSAGE_BYTES;
    case FRY_WIRE_RECALL:
        fry_wire_put32(to + 4, header->number);
        fry_wire_put32(to + 8, header->slot);
        return pack_fault(to, RECALL_BYTES, &header->fault);
    case FRY_WIRE_ACK:
        to[1] = (uint8_t)header->run_count;
        for (uint32_t i = 0; i < header->run_count; i++) {
            fry_wire_put32(to + CONTROL_BYTES + i * FRY_WIRE_RUN_BYTES, header->runs[i].first);
            fry_wire_put16(to + CONTROL_BYTES + i * FRY_WIRE_RUN_BYTES + 4,
                           (uint16_t)header->runs[i].count);
        }
        return CONTROL_BYTES + header->run_count * FRY_WIRE_RUN_BYTES;
    case FRY_WIRE_NACK:
        fry_wire_put32(to + 4, header->slot);
        fry_wire_put64(to + 8, header->op);
        return pack_fault(to, NACK_BYTES, &header->fault);
    case FRY_WIRE_LENGTH:
        fry_wire_put32(to + 4, header->slot);
        fry_wire_put64(to + 8, header->op);
        fry_wire_put64(to + 16, header->size_bytes);
        return LENGTH_BYTES;
    case FRY_WIRE_BUNDLE:
        to[1] = (uint8_t)header->series_count;
        fry_wire_put16(to + 2, (uint16_t)header->acked.count);
        fry_wire_put32(to + 4, header->number);
        fry_wire_put32(to + 8, header->acked.first);
        return FRY_WIRE_BUNDLE_BYTES;
    case FRY_WIRE_WANT:
    case FRY_WIRE_PIECE:
        fry_wire_put32(to + 4, header->slot);
        fry_wire_put32(to + 8, header->number);
        fry_wire_put32(to + 12, (uint32_t)header->size_bytes);
        fry_wire_put64(to + 16, header->offset);
        return PIECE_BYTES;
    case FRY_WIRE_VIEW:
    case FRY_WIRE_SHOW:
    case FRY_WIRE_VIEWED:
    case FRY_WIRE_HOLDS:
        to[1] = header->is_yes;
        fry_wire_put32(to + 4, header->slot);
        fry_wire_put32(to + 8, header->number);
        if (header->kind != FRY_WIRE_SHOW || !header->is_yes)
            return VIEW_BYTES;
        memcpy(to + VIEW_BYTES, header->place.bytes, FRY_PLACE_BYTES);
        return SHOW_BYTES;
    case FRY_WIRE_HIDE:
        fry_wire_put64(to + 8, header->op);
        return HIDE_BYTES;
    case FRY_WIRE_BYE:
        fry_wire_put32(to + 4, header->number);
        fry_wire_put32(to + 8, header->answers);
        return BYE_BYTES;
    case FRY_WIRE_FAREWELL:
    case FRY_WIRE_HIDDEN:
        return CONTROL_BYTES;
    default:
        return header->kind >= FRY_WIRE_FIND ? pack_window(to, header) : pack_joint(to, header);
    }
}

/* Copies a text from outside, with its end, and makes it fit for logs. */
static void take_text(char *to, const uint8_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i] >= ' ' && from[i] < 0x7f ? (char)from[i] : '?';
    to[bytes] = 0;
}

/* Faults keep the address of their domain, so that of another process becomes one of these. */
static const char *domain_of(const uint8_t *text, size_t bytes)
{
    static const char *const known[] = {"user", "ucx", "errno", "cuda", "store", "hello"};
    if (bytes == 0)
        return NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i]) == bytes && memcmp(known[i], text, bytes) == 0)
            return known[i];
    }
    return "member";
}

/* Unpacks a fault, which takes all that is left from `at` on. */
static bool unpack_fault(const uint8_t *from, size_t bytes, size_t at, fry_fault *fault)
{
    if (bytes < at + FAULT_BYTES)
        return false;
    const uint8_t *fields = from + at;
    int32_t status = (int32_t)fry_wire_get32(fields);
    fault->rank = (int32_t)fry_wire_get32(fields + 4);
    fault->native_code = (int64_t)fry_wire_get64(fields + 8);
    fault->op = fry_wire_get64(fields + 16);
    size_t domain = fields[24];
    size_t message = fields[25];
    if (status >= 0 || fault->rank < 0 || domain > DOMAIN_BYTES_MAX ||
        message >= sizeof(fault->message) || bytes != at + FAULT_BYTES + domain + message)
        return false;
    fault->status = (ferry_status)status;
    fault->domain = domain_of(fields + FAULT_BYTES, domain);
    fault->label = NULL;
    take_text(fault->message, fields + FAULT_BYTES + domain, message);
    return true;
}

static bool unpack_runs(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    uint32_t count = from[1];
    if (count == 0 || count > FRY_WIRE_RUNS_MAX ||
        bytes != CONTROL_BYTES + count * FRY_WIRE_RUN_BYTES || fry_wire_get32(from + 4) != 0)
        return false;
    header->run_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *run = from + CONTROL_BYTES + i * FRY_WIRE_RUN_BYTES;
        header->runs[i].first = fry_wire_get32(run);
        header->runs[i].count = fry_wire_get16(run + 4);
        if (header->runs[i].count == 0)
            return false;
    }
    return true;
}

/* Unpacks headers that begin with FRY_WIRE_MESSAGE_BYTES. */
static bool unpack_message(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    bool may_be_notice = from[0] == FRY_WIRE_EAGER && (from[1] & FRY_WIRE_APART) != 0;
    const uint8_t known = (uint8_t)(FRY_WIRE_APART | (from[0] == FRY_WIRE_HELD) |
                                    (may_be_notice ? FRY_WIRE_NOTICE : 0));
    if (bytes < FRY_WIRE_MESSAGE_BYTES || (from[1] & ~known) != 0)
        return false;
    fry_wire_unpack_message(from, header);
    header->is_apart = (from[1] & FRY_WIRE_APART) != 0;
    header->is_notice = (from[1] & FRY_WIRE_NOTICE) != 0;
    header->is_yes = (from[1] & 1) != 0;
    if (header->kind == FRY_WIRE_POISON)
        return header->size_bytes == 0 &&
               unpack_fault(from, bytes, FRY_WIRE_MESSAGE_BYTES, &header->fault);
    return bytes == FRY_WIRE_MESSAGE_BYTES;
}

static bool unpack_bundle(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    if (bytes != FRY_WIRE_BUNDLE_BYTES || from[1] == 0 || from[1] > FRY_WIRE_SERIES_MAX)
        return false;
    header->series_count = from[1];
    header->acked.count = fry_wire_get16(from + 2);
    header->number = fry_wire_get32(from + 4);
    header->acked.first = fry_wire_get32(from + 8);
    return true;
}

void fry_wire_pack_series(uint8_t *to, const fry_wire_series *series)
{
    fry_wire_put64(to, series->tag);
    fry_wire_put64(to + 8, series->op);
    fry_wire_put32(to + 16, series->slot);
    fry_wire_put32(to + 20, series->ahead);
    fry_wire_put32(to + 24, series->size_bytes);
    fry_wire_put16(to + 28, (uint16_t)series->count);
    fry_wire_put16(to + 30, series->is_notice ? FRY_WIRE_APART | FRY_WIRE_NOTICE : 0);
}

bool fry_wire_unpack_series(const uint8_t *from, fry_wire_series *series)
{
    series->tag = fry_wire_get64(from);
    series->op = fry_wire_get64(from + 8);
    series->slot = fry_wire_get32(from + 16);
    series->ahead = fry_wire_get32(from + 20);
    series->size_bytes = fry_wire_get32(from + 24);
    series->count = fry_wire_get16(from + 28);
    uint16_t what = fry_wire_get16(from + 30);
    series->is_notice = what == (FRY_WIRE_APART | FRY_WIRE_NOTICE);
    return series->count > 0 && (what == 0 || (series->is_notice && series->ahead == 0));
}

static bool unpack_view(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    bool has_answer = header->kind == FRY_WIRE_SHOW || header->kind == FRY_WIRE_VIEWED;
    bool is_yes = from[1] != 0, has_place = header->kind == FRY_WIRE_SHOW && is_yes;
    if (from[1] > has_answer || fry_wire_get16(from + 2) != 0 ||
        bytes != (has_place ? SHOW_BYTES : VIEW_BYTES))
        return false;
    header->is_yes = is_yes;
    header->slot = fry_wire_get32(from + 4);
    header->number = fry_wire_get32(from + 8);
    if (has_place)
        memcpy(header->place.bytes, from + VIEW_BYTES, FRY_PLACE_BYTES);
    return true;
}

static bool unpack_launches(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    uint32_t count = from[1];
    if (count == 0 || count > FRY_WIRE_JOINTS_MAX ||
        bytes != CONTROL_BYTES + count * FRY_WIRE_JOINT_BYTES)
        return false;
    header->run_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *run = from + CONTROL_BYTES + i * FRY_WIRE_JOINT_BYTES;
        header->joint[i] =
            (fry_wire_joint){fry_wire_get32(run), fry_wire_get32(run + 4), run[8], run[9] != 0};
        if (run[8] == 0 || run[9] > (header->kind == FRY_WIRE_LOT))
            return false;
    }
    return true;
}

/* Of those that tell of lots and pairs. */
static size_t joint_bytes(uint8_t kind)
{
    switch (kind) {
    case FRY_WIRE_GO:
        return GO_BYTES;
    case FRY_WIRE_PAIR:
        return PAIR_BYTES;
    case FRY_WIRE_RETIRE:
    case FRY_WIRE_UNPAIR:
    case FRY_WIRE_UNPAIRED:
        return HIDE_BYTES;
    default: /* BUSY, NUDGE, ALONE, FLOWN, WHOLE */
        return CONTROL_BYTES;
    }
}

static bool unpack_joint(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    bool has_number = (header->kind >= FRY_WIRE_LOT && header->kind <= FRY_WIRE_UNPAIR) ||
                      header->kind >= FRY_WIRE_FLOWN;
    if (fry_wire_get16(from + 2) != 0)
        return false;
    header->number = fry_wire_get32(from + 4);
    if (!has_number && header->number != 0)
        return false;
    if (header->kind == FRY_WIRE_OFFER || header->kind == FRY_WIRE_LOT)
        return unpack_launches(from, bytes, header);
    if (from[1] != 0 || bytes != joint_bytes(header->kind))
        return false;
    if (header->kind == FRY_WIRE_GO)
        header->offset = fry_wire_get64(from + 8);
    else if (bytes > CONTROL_BYTES)
        header->op = fry_wire_get64(from + 8);
    if (header->kind == FRY_WIRE_PAIR)
        memcpy(header->token, from + 16, FRY_PAIR_TOKEN_BYTES);
    return true;
}

static bool unpack_mapped(const uint8_t *from, fry_wire_header *header)
{
    header->mapped.offset = fry_wire_get64(from + 56);
    header->mapped.place = (fry_shared_place){
        .pid = (int32_t)fry_wire_get32(from + 24),
        .descriptor = (int32_t)fry_wire_get32(from + 28),
        .key = {fry_wire_get64(from + 32), fry_wire_get64(from + 40)},
        .size_bytes = fry_wire_get64(from + 48),
        .number = fry_wire_get64(from + 64),
        .mark = (uint32_t)fry_wire_get64(from + 72),
    };
    return header->mapped.place.number != 0 && fry_wire_get64(from + 72) <= UINT32_MAX;
}

static bool unpack_window(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    bool has_more = header->kind == FRY_WIRE_FIND || header->kind == FRY_WIRE_FOUND;
    if (fry_wire_get16(from + 2) != 0 || (from[1] != 0 && !has_more))
        return false;
    header->number = fry_wire_get32(from + 4);
    switch (header->kind) {
    case FRY_WIRE_FIND:
        if (from[1] == 0 || from[1] >= sizeof(header->name) ||
            bytes != (size_t)CONTROL_BYTES + from[1] ||
            memchr(from + CONTROL_BYTES, 0, from[1]) != NULL)
            return false;
        take_text(header->name, from + CONTROL_BYTES, from[1]);
        return true;
    case FRY_WIRE_FOUND:
        header->rights = from[1];
        header->mapped.place.number = 0;
        if (bytes != FOUND_BYTES && (bytes != MAPPED_BYTES || !unpack_mapped(from, header)))
            return false;
        header->size_bytes = fry_wire_get64(from + 8);
        header->address = fry_wire_get64(from + 16);
        return header->size_bytes > 0;
    case FRY_WIRE_GET:
    case FRY_WIRE_PUT:
        if (bytes != REACH_BYTES)
            return false;
        header->tag = fry_wire_get64(from + 8);
        header->offset = fry_wire_get64(from + 16);
        header->size_bytes = fry_wire_get64(from + 24);
        return header->size_bytes > 0;
    case FRY_WIRE_LEFT:
        header->told = bytes == LEFT_BYTES ? fry_wire_get32(from + CONTROL_BYTES) : 0;
        return bytes == CONTROL_BYTES || header->told != 0;
    default: /* CLOSE */
        return bytes == CONTROL_BYTES;
    }
}

bool fry_wire_unpack(const uint8_t *from, size_t bytes, fry_wire_header *header)
{
    if (bytes < CONTROL_BYTES || bytes > FRY_WIRE_BODY_BYTES_MAX)
        return false;
    header->kind = from[0];
    header->is_apart = false;
    if ((header->kind >= FRY_WIRE_EAGER && header->kind <= FRY_WIRE_POISON) ||
        header->kind == FRY_WIRE_HELD)
        return unpack_message(from, bytes, header);
    if (header->kind == FRY_WIRE_BUNDLE)
        return unpack_bundle(from, bytes, header);
    if (header->kind >= FRY_WIRE_VIEW && header->kind <= FRY_WIRE_HOLDS)
        return unpack_view(from, bytes, header);
    if (header->kind >= FRY_WIRE_OFFER && header->kind <= FRY_WIRE_WHOLE)
        return unpack_joint(from, bytes, header);
    if (header->kind >= FRY_WIRE_FIND && header->kind < FRY_WIRE_KINDS)
        return unpack_window(from, bytes, header);
    if (fry_wire_get16(from + 2) != 0 || (from[1] != 0 && header->kind != FRY_WIRE_ACK))
        return false;
    switch (header->kind) {
    case FRY_WIRE_RECALL:
        if (bytes < RECALL_BYTES)
            return false;
        header->number = fry_wire_get32(from + 4);
        header->slot = fry_wire_get32(from + 8);
        return unpack_fault(from, bytes, RECALL_BYTES, &header->fault);
    case FRY_WIRE_ACK:
        return unpack_runs(from, bytes, header);
    case FRY_WIRE_NACK:
        if (bytes < NACK_BYTES)
            return false;
        header->slot = fry_wire_get32(from + 4);
        header->op = fry_wire_get64(from + 8);
        return unpack_fault(from, bytes, NACK_BYTES, &header->fault);
    case FRY_WIRE_LENGTH:
        if (bytes != LENGTH_BYTES)
            return false;
        header->slot = fry_wire_get32(from + 4);
        header->op = fry_wire_get64(from + 8);
        header->size_bytes = fry_wire_get64(from + 16);
        return true;
    case FRY_WIRE_WANT:
    case FRY_WIRE_PIECE:
        if (bytes != PIECE_BYTES)
            return false;
        header->slot = fry_wire_get32(from + 4);
        header->number = fry_wire_get32(from + 8);
        header->size_bytes = fry_wire_get32(from + 12);
        header->offset = fry_wire_get64(from + 16);
        return header->size_bytes > 0;
    case FRY_WIRE_BYE:
        if (bytes != BYE_BYTES)
            return false;
        header->number = fry_wire_get32(from + 4);
        header->answers = fry_wire_get32(from + 8);
        return true;
    case FRY_WIRE_HIDE:
        if (bytes != HIDE_BYTES || fry_wire_get32(from + 4) != 0)
            return false;
        header->op = fry_wire_get64(from + 8);
        return true;
    case FRY_WIRE_FAREWELL:
    case FRY_WIRE_HIDDEN:
        return bytes == CONTROL_BYTES && fry_wire_get32(from + 4) == 0;
    default:
        return false;
    }
}
