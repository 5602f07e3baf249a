/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers as they cross between peers: little-endian, packed, of a fixed layout for each kind. All
 * that can be checked without knowing the connection is checked here; what names something of the
 * connection (numbers, slots) is checked by who looks it up.
 *
 *      EAGER PULLED POISON   ACK            NACK           LENGTH     RECALL         BYE
 *   0  kind                  kind           kind           kind       kind           kind
 *   1  0                     runs           0              0          0              0
 *   2  acked, 16 bit         0, 16 bit      0, 16 bit      0, 16 bit  0, 16 bit      0, 16 bit
 *   4  number                0              slot           slot       number         number
 *   8  tag, 64 bit           runs: first,   op, 64 bit     op         slot           answers
 *  16  op, 64 bit            32 bit, and    fault          size
 *  24  size, 64 bit          count, 16 bit                            fault, at 12
 *  32  slot
 *  36  ahead
 *  40  first acked
 *  44  (POISON: fault)
 *
 * FAREWELL is its kind and seven zero bytes. HELD is like PULLED, but comes without a token; its
 * second byte is 1 if the message can join a lot: net/peer/joint.c.
 *
 * WANT and PIECE name a piece of a launch's bytes, and PIECE comes with them:
 *
 *   0  kind, 0, 0 (16 bit)    4  slot    8  number of the launch    12  size    16  offset, 64 bit
 *
 * VIEW, SHOW, VIEWED and HOLDS are of a launch whose bytes the receiver reads where they are:
 * net/peer/view.c.
 *
 *      VIEW, HOLDS    VIEWED                  SHOW
 *   0  kind           kind                    kind
 *   1  0              1: all bytes were read  1: there is a place, and it follows
 *   2  0, 16 bit      0, 16 bit               0, 16 bit
 *   4  slot           slot                    slot
 *   8  number         number                  number
 *  12                                         place, FRY_PLACE_BYTES
 *
 * HIDE is its kind, seven zero bytes, and the generation (64 bit); HIDDEN has no more than that.
 *
 * OFFER and LOT are followed by runs of launches, each slot, number (32 bit), count (8 bit), and
 * whether the leader sends them (8 bit; OFFER: 0). LOT, GO, BUSY, NUDGE, FLOWN and WHOLE name a lot
 * by its number, and OFFER has 0 for that. FLOWN and WHOLE are like BUSY. PAIR, UNPAIR, RETIRE and
 * UNPAIRED name a pair by its generation. UNPAIR has 1 in place of a version if another pair is to
 * be made later. ALONE is its kind and seven zero bytes.
 *
 *      LOT            GO              BUSY, NUDGE    PAIR, UNPAIR       RETIRE, UNPAIRED
 *   0  kind           kind            kind           kind               kind
 *   1  runs           0               0              0                  0
 *   2  0, 16 bit      0, 16 bit       0, 16 bit      0, 16 bit          0, 16 bit
 *   4  number         number          number         version            0
 *   8  runs           which, 64 bit                  generation, 64 bit generation, 64 bit
 *  16                                                PAIR: token
 *
 * FIND, FOUND, CLOSE and LEFT name what a member seeks or has found by a number that it chose;
 * CLOSE and LEFT have no more than that; but LEFT may tell a count (32 bit, at 8; not 0), with
 * which who leaves a symmetric window says how often it has asked for it. GET and PUT name what it
 * has found: net/peer/find.c, reach.c. Messages of these have a tag of their own, and 2 is added to
 * their second byte; with notices, which are EAGER, 6.
 *
 *      FIND                    FOUND                        GET, PUT
 *   0  kind                    kind                         kind
 *   1  bytes of the name       rights                       0
 *   2  0, 16 bit               0, 16 bit                    0, 16 bit
 *   4  number                  number                       number
 *   8  name                    size, 64 bit                 tag, 64 bit
 *  16                          address, 64 bit; 0: none     offset, 64 bit
 *  24                          or further, if the window's  size, 64 bit
 *                              memory can be mapped (base/shared.h): pid, descriptor (32 bit each),
 *                              key (two of 64 bit), size of that memory, where in it the window
 *                              begins, number, mark (64 bit each)
 *
 * BUNDLE stands for several launches, of small messages with their data: kind, series (8 bit),
 * acked (16 bit), number of the first, first acked; so much is its header. Its data begins with the
 * table of the series, and what their messages hold follows, one after the other. A series is of
 * messages launched one after the other that are alike; of the i-th, op and slot are i more than
 * the first's.
 *
 *   0  tag, 64 bit    16  slot         24  size          30  0, or 6: notices, 16 bit
 *   8  op, 64 bit     20  ahead        28  count, 16 bit
 *
 * SHORT is an EAGER in few bytes, where headers are not keyed: with up to 24 bytes of header and
 * data a message takes one cache line of an entry in UCX's shared queue, and a second costs a third
 * of the way more. `ahead` is 0, the size is that of the data. Of number and op it has the lower
 * ends, which those near by complete: the receiver's next number, from which it is less than 2^23
 * away, and the op of the message that came before, within 2^30. Of the tag it has what is not
 * zero.
 *
 *   0  kind            2  slot, 16 bit           6  number, 24 bit     13  tag, 0 to 8 bytes
 *   1  acked, 8 bit    4  first acked, 16 bit    9  op, 32 bit
 *
 * fault: status, rank, code (64 bit), op (64 bit), bytes of domain and of message (8 bit each), the
 * two texts. Between hosts each header ends with its count (32 bit, counting all headers of that
 * direction from 0) and a SipHash of what is before it (64 bit, net/mac.h). There a BUNDLE's has a
 * SipHash of its table before that.
 */
#ifndef FRY_NET_PEER_WIRE_H
#define FRY_NET_PEER_WIRE_H

#include "base/lf.h"
#include "base/shared.h"
#include "net/pairs.h"
#include "net/peer/peer.h"

#include <endian.h>
#include <string.h>

#define FRY_WIRE_MESSAGE_BYTES 44
#define FRY_WIRE_APART 2        /* in the second byte: of a window */
#define FRY_WIRE_NOTICE 4       /* with it: a notice */
#define FRY_WIRE_SHORT_BYTES 13 /* plus the tag's */
#define FRY_WIRE_SHORT_SLOTS_MAX 65536
#define FRY_WIRE_SHORT_OP_AWAY (UINT64_C(1) << 30)
#define FRY_WIRE_TRAILER_BYTES 12 /* of keyed headers */
#define FRY_WIRE_BODY_BYTES_MAX (FRY_HEADER_BYTES_MAX - FRY_WIRE_TRAILER_BYTES)
#define FRY_WIRE_RUN_BYTES 6
#define FRY_WIRE_RUNS_MAX ((FRY_WIRE_BODY_BYTES_MAX - 8) / FRY_WIRE_RUN_BYTES)
#define FRY_WIRE_RUN_COUNT_MAX UINT16_MAX
#define FRY_WIRE_BUNDLE_BYTES 12
#define FRY_WIRE_SERIES_BYTES 32
#define FRY_WIRE_SERIES_MAX 64
#define FRY_WIRE_SERIES_COUNT_MAX UINT16_MAX /* messages */
#define FRY_WIRE_JOINT_BYTES 10
#define FRY_WIRE_JOINTS_MAX ((FRY_WIRE_BODY_BYTES_MAX - 8) / FRY_WIRE_JOINT_BYTES)
#define FRY_WIRE_TABLE_BYTES_MAX (FRY_WIRE_SERIES_MAX * FRY_WIRE_SERIES_BYTES)

/* Kinds of headers; never 0, so that zeroes are no header. */
typedef enum fry_wire_kind {
    FRY_WIRE_EAGER = 1, /* a message with its data */
    FRY_WIRE_PULLED,    /* a message whose data stays at the sender until it is pulled */
    FRY_WIRE_POISON,    /* replaces a message that failed before it was launched */
    FRY_WIRE_RECALL,    /* a message launched before was withdrawn: do not pull it */
    FRY_WIRE_BYE,       /* this member leaves; no launch follows */
    FRY_WIRE_ACK,       /* messages were received */
    FRY_WIRE_NACK,      /* the receive of a message failed */
    FRY_WIRE_LENGTH,    /* the receive of a message is of another size */
    FRY_WIRE_BUNDLE,    /* several messages with their data */
    FRY_WIRE_FAREWELL,  /* the other end's BYE was received, and everything that it sent before */
    FRY_WIRE_SHORT,     /* an EAGER; not for fry_wire_pack and fry_wire_unpack */
    /* Only where both ends know them: fry_connection_session.has_pieces. */
    FRY_WIRE_HELD,  /* a message whose data stays at the sender until it is asked for in pieces */
    FRY_WIRE_WANT,  /* asks for a piece of a message that was launched */
    FRY_WIRE_PIECE, /* brings it */
    /* Only where both ends know them: fry_connection_session.has_views. */
    FRY_WIRE_VIEW,   /* asks where the bytes of a HELD launch are */
    FRY_WIRE_SHOW,   /* says where: they stay there until VIEWED; or that there is no place */
    FRY_WIRE_VIEWED, /* nobody reads them there any more */
    FRY_WIRE_HOLDS,  /* they were still offered when it was said that all were read */
    FRY_WIRE_HIDE,   /* asks to close memory that was shown, as it is to be freed */
    FRY_WIRE_HIDDEN, /* it is closed */
    /* Only where both ends have the same transport for pairs: fry_connection_session.has_pairs. */
    FRY_WIRE_OFFER,    /* the receives of HELD launches are ready to join a lot */
    FRY_WIRE_LOT,      /* launches to be joined */
    FRY_WIRE_GO,       /* these of them are */
    FRY_WIRE_BUSY,     /* none of them is, now */
    FRY_WIRE_NUDGE,    /* after BUSY: it can be tried again */
    FRY_WIRE_PAIR,     /* to make a pair with that token */
    FRY_WIRE_UNPAIR,   /* to end it */
    FRY_WIRE_RETIRE,   /* nothing goes over it here any more */
    FRY_WIRE_UNPAIRED, /* it is ended here */
    FRY_WIRE_ALONE,    /* there will be no pair */
    FRY_WIRE_FLOWN,    /* a lot is over on this end's GPU: is the other end's pair in order? */
    FRY_WIRE_WHOLE,    /* it is */
    /* Only where both ends know them: fry_connection_session.has_windows. */
    FRY_WIRE_FIND,  /* asks for a window of that name, now or when it is opened */
    FRY_WIRE_FOUND, /* it is open */
    FRY_WIRE_CLOSE, /* it is to be closed: do not use it any more, and say LEFT */
    FRY_WIRE_LEFT,  /* this end does not seek it any more, or does not use it any more */
    FRY_WIRE_GET,   /* asks for a message with bytes out of a window */
    FRY_WIRE_PUT,   /* a message follows, whose bytes are for a window */
    FRY_WIRE_KINDS,
} fry_wire_kind;

/* Consecutive slots of the launcher. */
typedef struct fry_wire_run {
    uint32_t first;
    uint32_t count; /* 0: none; at most FRY_WIRE_RUN_COUNT_MAX */
} fry_wire_run;

/* Launches of a lot, one after the other. */
typedef struct fry_wire_joint {
    uint32_t slot, number; /* of the first */
    uint32_t count;        /* 1 to 255 */
    bool is_send;          /* sent by the leader */
} fry_wire_joint;

/* A series: equal messages of a BUNDLE. */
typedef struct fry_wire_series {
    ferry_tag tag;
    uint64_t op;
    uint32_t slot, ahead;
    uint32_t size_bytes; /* of each */
    uint32_t count;      /* at most FRY_WIRE_SERIES_COUNT_MAX */
    bool is_notice;
} fry_wire_series;

typedef struct fry_wire_header {
    uint8_t kind;    /* fry_wire_kind */
    uint32_t number; /* number of the launch; its lower half */
    uint32_t slot;   /* the launcher's slot, which acknowledgements name */
    uint32_t
        ahead; /* number of messages that entered before it for the tag and are not launched yet */
    ferry_tag tag;
    uint64_t op;
    uint64_t size_bytes;
    fry_wire_run acked; /* with messages */
    uint64_t offset;    /* WANT, PIECE: of the piece. GO: which ones, the first in bit 0. GET, PUT:
                           in the window */
    uint64_t address;   /* FOUND: of the memory in the other process; 0: it can't be read there */
    bool is_apart;      /* of messages: of a window */
    bool is_notice;     /* EAGER: a notice; is_apart too */
    uint8_t rights;     /* FOUND: ferry_window_rights */
    bool is_yes;        /* SHOW: there is a place. VIEWED: all bytes were read. HELD: it can join
                           a lot */
    union {
        fry_place place;                           /* SHOW */
        uint8_t token[FRY_PAIR_TOKEN_BYTES];       /* PAIR */
        fry_wire_joint joint[FRY_WIRE_JOINTS_MAX]; /* LOT */
        char name[FRY_WINDOW_NAME_BYTES];          /* FIND: with its end */
        struct {
            fry_shared_place place; /* its number is 0: it can't be mapped */
            uint64_t offset;        /* of the window in that memory */
        } mapped;                   /* FOUND */
    };
    uint32_t told;         /* LEFT: 0: nothing */
    uint32_t answers;      /* BYE: number of messages answered since the connection began */
    uint32_t series_count; /* BUNDLE */
    uint32_t run_count;    /* ACK, LOT */
    fry_wire_run runs[FRY_WIRE_RUNS_MAX];
    fry_fault fault; /* POISON, RECALL, NACK */
} fry_wire_header;

static inline void fry_wire_put16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof(value));
}

static inline void fry_wire_put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static inline void fry_wire_put64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static inline uint16_t fry_wire_get16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof(value));
    return le16toh(value);
}

static inline uint32_t fry_wire_get32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static inline uint64_t fry_wire_get64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

/* Packs the part that all messages share, FRY_WIRE_MESSAGE_BYTES. */
static inline void fry_wire_pack_message(uint8_t *to, const fry_wire_header *header)
{
    to[0] = header->kind;
    to[1] = fry_unlikely(header->is_apart)
                ? (uint8_t)(FRY_WIRE_APART | (header->is_notice ? FRY_WIRE_NOTICE : 0))
                : 0;
    fry_wire_put16(to + 2, (uint16_t)header->acked.count);
    fry_wire_put32(to + 4, header->number);
    fry_wire_put64(to + 8, header->tag);
    fry_wire_put64(to + 16, header->op);
    fry_wire_put64(to + 24, header->size_bytes);
    fry_wire_put32(to + 32, header->slot);
    fry_wire_put32(to + 36, header->ahead);
    fry_wire_put32(to + 40, header->acked.first);
}

static inline void fry_wire_unpack_message(const uint8_t *from, fry_wire_header *header)
{
    header->kind = from[0];
    header->acked.count = fry_wire_get16(from + 2);
    header->number = fry_wire_get32(from + 4);
    header->tag = fry_wire_get64(from + 8);
    header->op = fry_wire_get64(from + 16);
    header->size_bytes = fry_wire_get64(from + 24);
    header->slot = fry_wire_get32(from + 32);
    header->ahead = fry_wire_get32(from + 36);
    header->acked.first = fry_wire_get32(from + 40);
}

/* Whether a header can be SHORT, on a connection with at most FRY_WIRE_SHORT_SLOTS_MAX slots. */
static inline bool fry_wire_can_be_short(const fry_wire_header *header, uint64_t op_before)
{
    return header->kind == FRY_WIRE_EAGER && header->ahead == 0 && !header->is_apart &&
           header->acked.count <= UINT8_MAX &&
           header->op - op_before + FRY_WIRE_SHORT_OP_AWAY < 2 * FRY_WIRE_SHORT_OP_AWAY;
}

/* Packs a SHORT header into room for FRY_WIRE_SHORT_BYTES and 8 more. Returns the bytes. */
static inline size_t fry_wire_pack_short(uint8_t *to, const fry_wire_header *header)
{
    to[0] = FRY_WIRE_SHORT;
    to[1] = (uint8_t)header->acked.count;
    fry_wire_put16(to + 2, (uint16_t)header->slot);
    fry_wire_put16(to + 4, (uint16_t)header->acked.first);
    fry_wire_put32(to + 6, header->number); /* of which the next field takes a byte */
    fry_wire_put32(to + 9, (uint32_t)header->op);
    fry_wire_put64(to + FRY_WIRE_SHORT_BYTES, header->tag);
    unsigned bits = header->tag != 0 ? 64 - (unsigned)__builtin_clzll(header->tag) : 0;
    return FRY_WIRE_SHORT_BYTES + (bits + 7) / 8;
}

/* Unpacks a SHORT header as an EAGER, without the size. False: it is invalid. */
static inline bool fry_wire_unpack_short(const uint8_t *from, size_t bytes, uint32_t next_number,
                                         uint64_t op_before, fry_wire_header *header)
{
    if (bytes < FRY_WIRE_SHORT_BYTES || bytes > FRY_WIRE_SHORT_BYTES + sizeof(ferry_tag))
        return false;
    uint32_t low = from[6] | (uint32_t)from[7] << 8 | (uint32_t)from[8] << 16;
    uint32_t away = (low - next_number) & 0xffffff;
    header->kind = FRY_WIRE_EAGER;
    header->acked.count = from[1];
    header->slot = fry_wire_get16(from + 2);
    header->acked.first = fry_wire_get16(from + 4);
    header->number = next_number + away - (away >= 0x800000 ? 0x1000000 : 0);
    header->op =
        op_before + (uint64_t)(int64_t)(int32_t)(fry_wire_get32(from + 9) - (uint32_t)op_before);
    header->ahead = 0;
    header->tag = 0;
    for (size_t i = FRY_WIRE_SHORT_BYTES; i < bytes; i++)
        header->tag |= (ferry_tag)from[i] << 8 * (i - FRY_WIRE_SHORT_BYTES);
    return true;
}

/*
 * Packs any header except EAGER and PULLED, which the inline function packs, into
 * FRY_WIRE_BODY_BYTES_MAX. Texts that are too long are cut. Returns the bytes.
 */
size_t fry_wire_pack(uint8_t *to, const fry_wire_header *header);

/*
 * Unpacks any header, without the trailer of a keyed one. False: it is invalid. Fields that it does
 * not hold keep their values, except texts, which always end and hold only printable bytes.
 */
bool fry_wire_unpack(const uint8_t *from, size_t bytes, fry_wire_header *header);

/* Packs and unpacks a series of a BUNDLE's table, FRY_WIRE_SERIES_BYTES. False: it is invalid. */
void fry_wire_pack_series(uint8_t *to, const fry_wire_series *series);
bool fry_wire_unpack_series(const uint8_t *from, fry_wire_series *series);

#endif
