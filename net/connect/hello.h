/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello: what two members say to each other before they have a connection, and when
 * the connection ends, as a state machine over bytes. It knows no sockets, no clock and no group:
 * its owner feeds it what came from a socket, sends its output, decides what it asks, and watches
 * deadlines (net/connect/link_line.c). The comment at the top of net/connect/hello.c has the
 * protocol and its argument.
 *
 * One thread at a time. Nothing allocates; a hello has some 9 KB, in its owner's memory.
 */
#ifndef FRY_NET_CONNECT_HELLO_H
#define FRY_NET_CONNECT_HELLO_H

#include "net/connect/noise.h"
#include "net/connect/process.h"
#include "net/peer/peer.h"

#include <ferry/group.h>

#define FRY_HELLO_VERSION 3
#define FRY_HELLO_JOB_BYTES 64

#define FRY_HELLO_MESSAGES_MAX (1u << 24) /* messages of a window, or waiting messages */
#define FRY_HELLO_WINDOW_BYTES_MAX ((uint64_t)1 << 40)
/* The largest sealed message: an address, with everything around it. */
#define FRY_HELLO_FRAME_BYTES_MAX (FRY_ADDRESS_BYTES_MAX + 64)
#define FRY_HELLO_OUT_BYTES (2 * FRY_HELLO_FRAME_BYTES_MAX)

/* Paths that a member can use: bits by fry_channel_path. */
#define FRY_HELLO_PATH(path) ((uint8_t)(1u << (path)))

/* Beside them: the member knows messages in pieces. Members before that sent 0, and ignore it. */
#define FRY_HELLO_PIECES ((uint8_t)0x80)

/* The same of messages that are read where the sender has them, which takes one host. */
#define FRY_HELLO_VIEWS ((uint8_t)0x40)

/* The same of messages that both ends launch. Members that said 0x20 did not know FLOWN. */
#define FRY_HELLO_PAIRS ((uint8_t)0x10)

/* The same of windows. */
#define FRY_HELLO_WINDOWS ((uint8_t)0x08)

/*
 * With it: windows' memory that can be mapped, on one host. Members that said 0x20 for something
 * else did not know windows.
 */
#define FRY_HELLO_MAPS ((uint8_t)0x20)

typedef struct fry_hello fry_hello;

/* Why a hello, or the line after it, has ended: told to the other end. On the wire. */
typedef enum fry_hello_reason {
    FRY_HELLO_CONNECTION_ENDED = 1, /* there was a connection; it failed, or is no longer wanted */
    FRY_HELLO_LEFT,                 /* the member leaves its group */
    FRY_HELLO_OTHER_JOB,
    FRY_HELLO_OTHER_MEMBER, /* this member is not, or no longer, the one that was called */
    FRY_HELLO_OLD_START,    /* the caller has been restarted since, as this member knows */
    FRY_HELLO_NOT_A_MEMBER, /* this member has not heard of the caller, and did not soon */
    FRY_HELLO_CALLS_ITSELF, /* this member has the lower rank and calls as well, so its call counts
                             */
    FRY_HELLO_HAS_CONNECTION, /* there is a connection already, as far as this member knows */
    FRY_HELLO_NO_PATH,        /* no path that both can use */
    FRY_HELLO_NO_PROCESS,     /* the process that the caller names does not exist */
    FRY_HELLO_NO_CHANNEL,     /* a channel could not be opened, or not connected */
    FRY_HELLO_NOT_AGREED,     /* the two ends computed different results */
    FRY_HELLO_TOO_MANY,       /* too many hellos at once */
    FRY_HELLO_NOT_WATCHED,    /* this end can't watch the other's process */
    FRY_HELLO_TOO_LATE,       /* its deadline passed, or it is no longer wanted */
    FRY_HELLO_REASON_END,
} fry_hello_reason;

/* What the caller says about itself in its first message. */
typedef struct fry_hello_greeting {
    char job[FRY_HELLO_JOB_BYTES + 1];
    uint32_t rank, to_rank;
    uint64_t incarnation, to_incarnation;
} fry_hello_greeting;

/* What each end says about itself after the other has proven that it knows the secret. */
typedef struct fry_hello_offer {
    uint32_t rank;
    uint64_t incarnation;
    uint64_t connections; /* connections that it has had with this start of the other */
    int64_t pid;
    uint64_t started; /* start time of its process, by the kernel's clock: pids are reused */
    uint8_t host[FRY_MACHINE_BYTES]; /* the same for processes of one host only; zeros: unknown */
    uint8_t paths;                   /* that it can use: FRY_HELLO_PATH; and PIECES and the like */
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
} fry_hello_offer;

/* The result that both ends compute from the two offers. */
typedef struct fry_hello_agreement {
    fry_channel_path path;
    uint32_t window_messages, unexpected_max;
    uint64_t window_bytes;
} fry_hello_agreement;

/* Results of feeding. */
typedef enum fry_hello_event {
    FRY_HELLO_MORE = 0, /* nothing to decide: it wants more bytes */
    /*
     * The answerer has read `greeting`, from somebody who knows the secret or repeats a member's
     * message. The owner calls fry_hello_answer or fry_hello_end; until then it takes no more
     * bytes.
     */
    FRY_HELLO_GREETED,
    /*
     * `other` has been read, from an end that knows the secret and is there now. The caller's owner
     * calls fry_hello_offer_own, then both owners call fry_hello_agree; or fry_hello_end. Until
     * then it takes no bytes.
     */
    FRY_HELLO_OFFERED,
    /*
     * `address` has been read, and the other end has computed the same result. The owner calls
     * fry_hello_ready once a channel is connected to the address.
     */
    FRY_HELLO_ADDRESSED,
    FRY_HELLO_DONE,   /* both are connected. From now on this is the line beside the connection */
    FRY_HELLO_ENDED,  /* the other end ended it: `reason` */
    FRY_HELLO_FAILED, /* what came is invalid: `failure` */
} fry_hello_event;

typedef enum fry_hello_failure {
    FRY_HELLO_NO_FAILURE = 0,
    FRY_HELLO_NOT_FERRY, /* the first bytes are another protocol's */
    FRY_HELLO_OTHER_VERSION,
    FRY_HELLO_BAD_LENGTH,
    FRY_HELLO_BAD_SECRET, /* a handshake message does not decrypt: another secret, or changed bytes
                           */
    FRY_HELLO_BAD_SEAL,   /* a later message does not decrypt: changed, moved or repeated */
    FRY_HELLO_BAD_FORM,   /* it decrypts, but its contents are invalid */
    FRY_HELLO_BAD_TURN,   /* it came out of turn */
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
    FRY_HELLO_IS_LINE, /* the connection exists, or will once this end is ready: only ends and pings
                        */
    FRY_HELLO_IS_OVER, /* ended or failed: takes nothing more; its output may still be sent */
} fry_hello_state;

struct fry_hello {
    fry_hello_state state;
    bool is_caller;
    bool has_sent_address, has_sent_ready;
    fry_hello_failure failure;
    fry_hello_reason reason; /* the other end's reason */
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
    uint8_t more[FRY_NOISE_HASH_BYTES]; /* for the connection's keys */
    bool has_preamble, has_length;
    size_t in_wanted, in_bytes;
    uint8_t in[FRY_HELLO_FRAME_BYTES_MAX];
    size_t out_bytes;
    uint8_t out[FRY_HELLO_OUT_BYTES]; /* output to be sent, from its front */
};

/*
 * The key of a group, from its secret of any length; no secret: NULL and 0, no protection. Called
 * once, before all else. FERRY_OK, or FERRY_E_SYSTEM (no source of random numbers).
 */
ferry_status fry_hello_key(uint8_t psk[FRY_NOISE_KEY_BYTES], const void *secret,
                           size_t secret_bytes);

/* Begin a hello; the caller's `greeting` is copied, and its first message is in `out`. */
void fry_hello_call(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                    const fry_hello_greeting *greeting);
void fry_hello_await(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES]);

/* How many bytes it needs before something can happen; 0: none now. */
size_t fry_hello_wants(const fry_hello *hello);

/* Feeds it bytes, at most as many as it wants. */
fry_hello_event fry_hello_feed(fry_hello *hello, const void *bytes, size_t size_bytes);

/* Removes bytes of `out` that were sent. */
void fry_hello_took(fry_hello *hello, size_t size_bytes);

/* Answers, after FRY_HELLO_GREETED. False: the caller's key is invalid, FRY_HELLO_FAILED. */
bool fry_hello_answer(fry_hello *hello, const fry_hello_offer *own);

/* Sends the caller's offer, after FRY_HELLO_OFFERED. */
void fry_hello_offer_own(fry_hello *hello, const fry_hello_offer *own);

/* Computes `agreement`, after FRY_HELLO_OFFERED. False: there is no path. */
bool fry_hello_agree(fry_hello *hello);

/* The connection's keys and limits, after the agreement: the same at both ends, with the keys
 * swapped. */
void fry_hello_session(const fry_hello *hello, fry_connection_session *session);

/*
 * Sends the address of this end's open channel, at most FRY_ADDRESS_BYTES_MAX. Any time after
 * fry_hello_agree.
 */
void fry_hello_address(fry_hello *hello, const void *address, size_t address_bytes);

/*
 * Says that this end is connected to `address`. True: FRY_HELLO_DONE, because the other end was
 * first.
 */
bool fry_hello_ready(fry_hello *hello);

/*
 * Ends the hello. Tells the other end why, if there are keys; without keys the other end learns
 * nothing.
 */
void fry_hello_end(fry_hello *hello, fry_hello_reason reason);

/* On the line: asks the other end's kernel whether the process still exists. */
void fry_hello_ping(fry_hello *hello);

/* Wipes the hello. Any time. */
void fry_hello_close(fry_hello *hello);

/* One text for a reason: "another secret, or bytes were changed". Static. */
const char *fry_hello_reason_text(fry_hello_reason reason);
const char *fry_hello_failure_text(fry_hello_failure failure);

#endif
