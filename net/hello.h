/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two members say to each other before they have a lane, and when it ends: as a state machine
 * over bytes. It knows no sockets, no clock and no group: whoever has a socket feeds it what came,
 * sends what it gives, decides what it asks and sees to deadlines (net/link_socket.c). The protocol
 * and why it holds stand atop net/hello.c.
 *
 * One thread at a time. Nothing allocates; a hello is some 9 KB, of its owner's.
 */
#ifndef FRY_NET_HELLO_H
#define FRY_NET_HELLO_H

#include "net/host.h"
#include "net/noise.h"
#include "net/peer.h"

#include <ferry/group.h>

#define FRY_HELLO_VERSION 3
#define FRY_HELLO_JOB_BYTES 64

/* The largest sealed message, an address, with all that is around it. */
#define FRY_HELLO_MESSAGES_MAX (1u << 24) /* of a window, or of messages that wait */
#define FRY_HELLO_WINDOW_BYTES_MAX ((uint64_t)1 << 40)
#define FRY_HELLO_FRAME_BYTES_MAX (FRY_ADDRESS_BYTES_MAX + 64)
#define FRY_HELLO_OUT_BYTES (2 * FRY_HELLO_FRAME_BYTES_MAX)

/* Ways that a member can go: bits by fry_channel_path. */
#define FRY_HELLO_PATH(path) ((uint8_t)(1u << (path)))

typedef struct fry_hello fry_hello;

/* Why a hello, or the line that it became, is over: told to the other end. On the wire. */
typedef enum fry_hello_reason {
    FRY_HELLO_LANE_ENDED = 1, /* there was a lane; it failed, or is not wanted any more */
    FRY_HELLO_LEFT,           /* the member leaves its group */
    FRY_HELLO_OTHER_JOB,
    FRY_HELLO_OTHER_MEMBER, /* this is not, or no longer, the member who was called */
    FRY_HELLO_OLD_START,    /* the caller was started anew since, as this member knows */
    FRY_HELLO_NOT_A_MEMBER, /* this member has not heard of the caller, nor did it soon */
    FRY_HELLO_CALLS_ITSELF, /* the lower rank, which calls as well: its call counts */
    FRY_HELLO_HAS_LANE,     /* there is one already, as far as this member knows */
    FRY_HELLO_NO_PATH,      /* no way that both can go */
    FRY_HELLO_NO_PROCESS,   /* the process that the caller says it is is not there */
    FRY_HELLO_NO_CHANNEL,   /* a channel could not be opened, or not connected */
    FRY_HELLO_NOT_AGREED,   /* the ends came to different results */
    FRY_HELLO_TOO_MANY,     /* hellos at once */
    FRY_HELLO_NOT_WATCHED,  /* this end lacks what it takes to watch the other's process */
    FRY_HELLO_TOO_LATE,     /* its deadline passed, or it is not wanted any more */
    FRY_HELLO_REASON_END,
} fry_hello_reason;

/* What the caller says of itself in its first message. */
typedef struct fry_hello_greeting {
    char job[FRY_HELLO_JOB_BYTES + 1];
    uint32_t rank, to_rank;
    uint64_t incarnation, to_incarnation;
} fry_hello_greeting;

/* What each end says of itself once the other has proven that it knows the secret. */
typedef struct fry_hello_offer {
    uint32_t rank;
    uint64_t incarnation;
    uint64_t lanes; /* that it has had with this start of the other */
    int64_t pid;
    uint64_t started;             /* of its process, as the kernel counts: pids come again */
    uint8_t host[FRY_HOST_BYTES]; /* the same on one host alone; zero: can't be told */
    uint8_t paths;                /* that it can go: FRY_HELLO_PATH */
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
} fry_hello_offer;

/* What both come to from the two offers. */
typedef struct fry_hello_agreement {
    fry_channel_path path;
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
} fry_hello_agreement;

/* What feeding gives. */
typedef enum fry_hello_event {
    FRY_HELLO_MORE = 0, /* nothing to decide: more bytes, please */
    /* The answerer has read `greeting`, by somebody who knows the secret, or a repetition of it:
     * fry_hello_answer or fry_hello_end. Until then it takes no more bytes. */
    FRY_HELLO_GREETED,
    /* `other` is there, and who says so knows the secret and is there now. The caller:
     * fry_hello_offer_own; then both: fry_hello_agree; or fry_hello_end. No bytes until then. */
    FRY_HELLO_OFFERED,
    /* `address` is there, and the other end has agreed to the same: fry_hello_ready once a channel
     * is connected to it. */
    FRY_HELLO_ADDRESSED,
    FRY_HELLO_DONE,   /* both are connected. From now on this is the line beside the lane */
    FRY_HELLO_ENDED,  /* by the other end: `reason` */
    FRY_HELLO_FAILED, /* what came can't be: `failure` */
} fry_hello_event;

typedef enum fry_hello_failure {
    FRY_HELLO_NO_FAILURE = 0,
    FRY_HELLO_NOT_FERRY, /* the first bytes are another protocol's */
    FRY_HELLO_OTHER_VERSION,
    FRY_HELLO_BAD_LENGTH,
    FRY_HELLO_BAD_SECRET, /* a handshake message does not open: another secret, or changed bytes */
    FRY_HELLO_BAD_SEAL,   /* a later one does not: changed, moved or repeated */
    FRY_HELLO_BAD_FORM,   /* it opens and says what can't be */
    FRY_HELLO_BAD_TURN,   /* it is not its turn */
} fry_hello_failure;

typedef enum fry_hello_state {
    FRY_HELLO_CLOSED = 0,
    FRY_HELLO_AWAITS_FIRST,  /* answerer: the preamble and the first message */
    FRY_HELLO_AWAITS_ANSWER, /* answerer: its owner's decision */
    FRY_HELLO_AWAITS_SECOND, /* caller: the preamble and the second message */
    FRY_HELLO_AWAITS_OFFER,  /* answerer: the caller's offer */
    FRY_HELLO_AWAITS_AGREE,  /* both: their owner's decision */
    FRY_HELLO_AWAITS_ADDRESS,
    FRY_HELLO_AWAITS_READY,
    FRY_HELLO_IS_LINE, /* the lane stands, or will once this end is ready: ends and pings alone */
    FRY_HELLO_IS_OVER, /* ended or failed: takes nothing more, and what is to be sent may go */
} fry_hello_state;

struct fry_hello {
    fry_hello_state state;
    bool is_caller;
    bool has_sent_address, has_sent_ready;
    fry_hello_failure failure;
    fry_hello_reason reason; /* ended by the other end */
    uint16_t other_version;
    fry_hello_greeting greeting;
    fry_hello_offer own, other;
    fry_hello_agreement agreement;
    size_t address_bytes;
    uint8_t address[FRY_ADDRESS_BYTES_MAX]; /* of the other's channel */
    /* Private. */
    uint8_t psk[FRY_NOISE_KEY_BYTES];
    fry_noise noise;
    fry_noise_cipher send, receive;
    uint8_t more[FRY_NOISE_HASH_BYTES]; /* for the lane's keys */
    bool has_preamble, has_length;
    size_t in_wanted, in_bytes;
    uint8_t in[FRY_HELLO_FRAME_BYTES_MAX];
    size_t out_bytes;
    uint8_t out[FRY_HELLO_OUT_BYTES]; /* to be sent, from its front */
};

/* The key of a group, from its secret of any length; none: NULL and 0, no protection. Once before
 * anything else: FERRY_OK, or FERRY_E_SYSTEM (no randomness). */
ferry_status fry_hello_key(uint8_t psk[FRY_NOISE_KEY_BYTES], const void *secret,
                           size_t secret_bytes);

/* Begins; the caller's `greeting` is copied, its first message is in `out`. */
void fry_hello_call(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                    const fry_hello_greeting *greeting);
void fry_hello_await(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES]);

/* How many bytes it takes before anything can come of them; 0: none now. */
size_t fry_hello_wants(const fry_hello *hello);

/* Gives it bytes, at most as many as it wants. */
fry_hello_event fry_hello_feed(fry_hello *hello, const void *bytes, size_t size_bytes);

/* So many bytes of `out` are sent. */
void fry_hello_took(fry_hello *hello, size_t size_bytes);

/* After FRY_HELLO_GREETED. False: the caller's key is none, FRY_HELLO_FAILED. */
bool fry_hello_answer(fry_hello *hello, const fry_hello_offer *own);

/* The caller, after FRY_HELLO_OFFERED. */
void fry_hello_offer_own(fry_hello *hello, const fry_hello_offer *own);

/* After FRY_HELLO_OFFERED: what both come to is in `agreement`. False: there is no path. */
bool fry_hello_agree(fry_hello *hello);

/* A lane's keys and limits, once agreed: the same at both ends, the keys crosswise. */
void fry_hello_session(const fry_hello *hello, fry_lane_session *session);

/* This end's channel is open; at most FRY_ADDRESS_BYTES_MAX. Any time after fry_hello_agree. */
void fry_hello_address(fry_hello *hello, const void *address, size_t address_bytes);

/* It is connected to `address`. True: FRY_HELLO_DONE, the other end was first. */
bool fry_hello_ready(fry_hello *hello);

/* Once keys are there: tells the other end. Before that the other end learns nothing. It is over.
 */
void fry_hello_end(fry_hello *hello, fry_hello_reason reason);

/* The line: asks the other end's kernel whether there is still somebody. */
void fry_hello_ping(fry_hello *hello);

/* Wipes it. Any time. */
void fry_hello_close(fry_hello *hello);

/* Of one text: "another secret, or bytes were changed". Static. */
const char *fry_hello_reason_text(fry_hello_reason reason);
const char *fry_hello_failure_text(fry_hello_failure failure);

#endif
