/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello.
 *
 *     caller                                                        answerer
 *     preamble, first{job, rank, incarnation, to whom}  ->
 *                                   <-  preamble, second{offer}
 *     offer                                             ->
 *     address                                           ->  as soon as each has a channel
 *                                   <-  address
 *     ready                                             ->  as soon as each is connected
 *                                   <-  ready
 *     end, or ping                                      <-> as long as the connection stands
 *
 * The preamble is magic and version in clear. Each later message has its length before it, in two
 * bytes; a length that can't be the next message's is refused. `first` and `second` are exactly the
 * two messages of Noise NNpsk0 (net/connect/noise.c) with 25519, ChaCha20-Poly1305 and BLAKE2b,
 * with the preamble as prologue; braces are payloads. Everything after them is sealed with the two
 * keys that Noise ends in, one for each direction, with counted nonces. Offers have rank,
 * incarnation, process, host, paths and limits. From the two offers both ends compute path and
 * limits by the same rule (fry_hello_agree). The address repeats the result, and an end with
 * another result ends the hello.
 *
 * Why it holds. The pre-shared key is BLAKE2b of the group's secret. Without it nobody can make a
 * first or second message that opens. So a stranger gets no answer at all, except the preamble for
 * another version, and costs the answerer two hashes and no curve. Whoever saw a first message can
 * repeat it. It opens; but the answer, made with a fresh key, tells nothing to a caller that can't
 * finish `ee`. So GREETED decides only what to answer. Only the caller's offer, sealed with what
 * both fresh keys gave, proves that the caller is there now (OFFERED), and nothing of the group is
 * touched before. The second message proves the same to the caller. Everything later depends on the
 * hash of all that was said, each direction has its own key, each message its number: messages that
 * are changed, moved, repeated, cut or reflected do not open. A caller's first message reflected to
 * its own port opens there, but names another member: it is refused (FRY_HELLO_OTHER_MEMBER),
 * because a member has no hello with itself.
 *
 * No oracle: a message that does not open ends the hello without a word, whatever was wrong. If an
 * end that knows the secret is refused, the reason goes sealed. Secrets are compared only by tags,
 * in libsodium's constant time. Forward secrecy: all keys are ephemeral. But the first message's
 * payload (job, ranks) is sealed by the secret alone: whoever gets that later can read it. A secret
 * that can be guessed can be guessed from a first message, at leisure: docs/security.md asks for
 * random ones.
 *
 * Beside Noise these are ferry's own: the preamble, the frame, the payloads, and the third output
 * of the last HKDF. The connection's two SipHash keys are made from that output
 * (fry_hello_session), because they must not be the keys of the seal.
 *
 * Without a secret: the same with the key of an empty secret, which everybody knows.
 */
#include "net/connect/hello.h"

#include "net/connect/noise.h"
#include "net/connect/process.h"
#include "net/transport.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#define PREAMBLE_BYTES 8
#define LENGTH_BYTES 2

static const uint8_t magic[PREAMBLE_BYTES - 2] = {'f', 'e', 'r', 'r', 'y', '~'};

/* The first byte of a sealed message says what it is. */
typedef enum kind {
    KIND_OFFER = 1,
    KIND_ADDRESS,
    KIND_READY,
    KIND_END,
    KIND_PING,
} kind;

enum {
    GREETING_BYTES = FRY_HELLO_JOB_BYTES + 2 * (4 + 8),
    OFFER_BYTES = 4 + 8 + 8 + 8 + 8 + FRY_MACHINE_BYTES + 1 + 4 + 4 + 8,
    ADDRESS_BYTES = 1 + 4 + 4 + 8, /* the address follows */
    FIRST_BYTES = GREETING_BYTES + FRY_NOISE_HANDSHAKE_BYTES,
    SECOND_BYTES = OFFER_BYTES + FRY_NOISE_HANDSHAKE_BYTES,
    SEALED_BYTES_MIN = 1 + FRY_NOISE_TAG_BYTES,
    SEALED_BYTES_MAX = 1 + ADDRESS_BYTES + FRY_ADDRESS_BYTES_MAX + FRY_NOISE_TAG_BYTES,
};

_Static_assert((int)SEALED_BYTES_MAX <= FRY_HELLO_FRAME_BYTES_MAX, "a frame has room for all");
_Static_assert(PREAMBLE_BYTES + 2 * LENGTH_BYTES + (int)FIRST_BYTES + (int)SECOND_BYTES +
                       (int)SEALED_BYTES_MAX + 256 <=
                   FRY_HELLO_OUT_BYTES,
               "whoever reads nothing stops nothing but itself");

/* ---- numbers, in network order ---- */

static uint8_t *put(uint8_t *at, uint64_t number, size_t size)
{
    const uint64_t big = htobe64(number);

    memcpy(at, (const uint8_t *)&big + sizeof(big) - size, size);
    return at + size;
}

static uint64_t get(const uint8_t **at, size_t size)
{
    uint64_t big = 0;

    memcpy((uint8_t *)&big + sizeof(big) - size, *at, size);
    *at += size;
    return be64toh(big);
}

/* ---- payloads ---- */

static void write_greeting(uint8_t *at, const fry_hello_greeting *greeting)
{
    const size_t length = strnlen(greeting->job, FRY_HELLO_JOB_BYTES);

    memset(at, 0, FRY_HELLO_JOB_BYTES);
    memcpy(at, greeting->job, length);
    at = put(at + FRY_HELLO_JOB_BYTES, greeting->rank, 4);
    at = put(at, greeting->incarnation, 8);
    at = put(at, greeting->to_rank, 4);
    (void)put(at, greeting->to_incarnation, 8);
}

/* Whether `name` is a job's name, padded with zeros. */
static bool is_job(const uint8_t *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-";
    size_t length = 0;

    while (length < FRY_HELLO_JOB_BYTES && name[length] != 0) {
        if (strchr(letters, name[length]) == NULL)
            return false;
        length++;
    }
    return length > 0 && sodium_is_zero(name + length, FRY_HELLO_JOB_BYTES - length);
}

static bool read_greeting(const uint8_t *at, fry_hello_greeting *greeting)
{
    if (!is_job(at))
        return false;
    memcpy(greeting->job, at, FRY_HELLO_JOB_BYTES);
    greeting->job[FRY_HELLO_JOB_BYTES] = 0;
    at += FRY_HELLO_JOB_BYTES;
    greeting->rank = (uint32_t)get(&at, 4);
    greeting->incarnation = get(&at, 8);
    greeting->to_rank = (uint32_t)get(&at, 4);
    greeting->to_incarnation = get(&at, 8);
    return greeting->rank < FERRY_GROUP_SIZE_MAX && greeting->to_rank < FERRY_GROUP_SIZE_MAX;
}

static void write_offer(uint8_t *at, const fry_hello_offer *offer)
{
    at = put(at, offer->rank, 4);
    at = put(at, offer->incarnation, 8);
    at = put(at, offer->connections, 8);
    at = put(at, (uint64_t)offer->pid, 8);
    at = put(at, offer->started, 8);
    memcpy(at, offer->host, FRY_MACHINE_BYTES);
    at = put(at + FRY_MACHINE_BYTES, offer->paths, 1);
    at = put(at, offer->window_messages, 4);
    at = put(at, offer->unexpected_max, 4);
    (void)put(at, offer->window_bytes, 8);
}

static bool read_offer(const uint8_t *at, fry_hello_offer *offer)
{
    offer->rank = (uint32_t)get(&at, 4);
    offer->incarnation = get(&at, 8);
    offer->connections = get(&at, 8);
    offer->pid = (int64_t)get(&at, 8);
    offer->started = get(&at, 8);
    memcpy(offer->host, at, FRY_MACHINE_BYTES);
    at += FRY_MACHINE_BYTES;
    offer->paths = (uint8_t)get(&at, 1);
    offer->window_messages = (uint32_t)get(&at, 4);
    offer->unexpected_max = (uint32_t)get(&at, 4);
    offer->window_bytes = get(&at, 8);
    return offer->rank < FERRY_GROUP_SIZE_MAX && offer->connections < UINT64_MAX / 2 &&
           offer->pid > 0 && offer->pid <= INT32_MAX && offer->window_messages > 0 &&
           offer->window_messages <= FRY_HELLO_MESSAGES_MAX && offer->unexpected_max > 0 &&
           offer->unexpected_max <= FRY_HELLO_MESSAGES_MAX &&
           offer->window_bytes <= FRY_HELLO_WINDOW_BYTES_MAX;
}

static uint8_t *write_agreement(uint8_t *at, const fry_hello_agreement *agreement)
{
    at = put(at, (uint64_t)agreement->path, 1);
    at = put(at, agreement->window_messages, 4);
    at = put(at, agreement->unexpected_max, 4);
    return put(at, agreement->window_bytes, 8);
}

/* ---- states ---- */

/* Changes a hello's state, and what it reads next. Nothing else does. */
static void set_state(fry_hello *hello, fry_hello_state state)
{
    hello->state = state;
    hello->in_bytes = 0;
    hello->has_length = false;
    hello->in_wanted = !hello->has_preamble ? PREAMBLE_BYTES : LENGTH_BYTES;
    if (state == FRY_HELLO_CLOSED || state == FRY_HELLO_IS_OVER ||
        state == FRY_HELLO_AWAITS_ANSWER || state == FRY_HELLO_AWAITS_AGREE)
        hello->in_wanted = 0;
}

static fry_hello_event fail(fry_hello *hello, fry_hello_failure failure)
{
    hello->failure = failure;
    set_state(hello, FRY_HELLO_IS_OVER);
    return FRY_HELLO_FAILED;
}

/* ---- sending ---- */

static uint8_t *out_end(fry_hello *hello)
{
    return hello->out + hello->out_bytes;
}

static void send_preamble(fry_hello *hello)
{
    memcpy(out_end(hello), magic, sizeof(magic));
    (void)put(out_end(hello) + sizeof(magic), FRY_HELLO_VERSION, 2);
    hello->out_bytes += PREAMBLE_BYTES;
}

/* Seals `size` bytes that begin with a kind. */
static void send_sealed(fry_hello *hello, const uint8_t *plain, size_t size)
{
    const size_t sealed_bytes = size + FRY_NOISE_TAG_BYTES;

    if (hello->out_bytes + LENGTH_BYTES + sealed_bytes > sizeof(hello->out))
        return; /* can't be: at most one of each kind is sent, except pings */
    uint8_t *at = put(out_end(hello), sealed_bytes, LENGTH_BYTES);
    fry_noise_seal(&hello->send, plain, size, at);
    hello->out_bytes += LENGTH_BYTES + sealed_bytes;
}

void fry_hello_took(fry_hello *hello, size_t size_bytes)
{
    hello->out_bytes -= size_bytes;
    memmove(hello->out, hello->out + size_bytes, hello->out_bytes);
}

/* ---- beginning ---- */

ferry_status fry_hello_key(uint8_t psk[FRY_NOISE_KEY_BYTES], const void *secret,
                           size_t secret_bytes)
{
    static const char label[] = "ferry hello: a group's secret";

    if (sodium_init() < 0)
        return FERRY_E_SYSTEM;
    (void)crypto_generichash(psk, FRY_NOISE_KEY_BYTES, secret, secret_bytes, (const uint8_t *)label,
                             sizeof(label) - 1);
    return FERRY_OK;
}

static void begin(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES])
{
    uint8_t prologue[PREAMBLE_BYTES];

    memset(hello, 0, sizeof(*hello));
    memcpy(hello->psk, psk, FRY_NOISE_KEY_BYTES);
    memcpy(prologue, magic, sizeof(magic));
    (void)put(prologue + sizeof(magic), FRY_HELLO_VERSION, 2);
    fry_noise_begin(&hello->noise, prologue, sizeof(prologue));
}

void fry_hello_call(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                    const fry_hello_greeting *greeting)
{
    uint8_t payload[GREETING_BYTES];

    begin(hello, psk);
    hello->is_caller = true;
    hello->greeting = *greeting;
    write_greeting(payload, greeting);
    send_preamble(hello);
    uint8_t *at = put(out_end(hello), FIRST_BYTES, LENGTH_BYTES);
    fry_noise_write_first(&hello->noise, hello->psk, payload, sizeof(payload), at);
    hello->out_bytes += LENGTH_BYTES + FIRST_BYTES;
    set_state(hello, FRY_HELLO_AWAITS_SECOND);
}

void fry_hello_await(fry_hello *hello, const uint8_t psk[FRY_NOISE_KEY_BYTES])
{
    begin(hello, psk);
    set_state(hello, FRY_HELLO_AWAITS_FIRST);
}

/* ---- deciding ---- */

static void split(fry_hello *hello)
{
    fry_noise_split(&hello->noise, hello->is_caller, &hello->send, &hello->receive, hello->more);
    sodium_memzero(hello->psk, sizeof(hello->psk));
}

/* Queues the answer, which is sent whatever follows it; an end may follow at once. */
bool fry_hello_answer(fry_hello *hello, const fry_hello_offer *own)
{
    uint8_t payload[OFFER_BYTES];

    if (hello->state != FRY_HELLO_AWAITS_ANSWER)
        return false;
    hello->own = *own;
    write_offer(payload, own);
    send_preamble(hello);
    uint8_t *at = put(out_end(hello), SECOND_BYTES, LENGTH_BYTES);
    if (!fry_noise_write_second(&hello->noise, payload, sizeof(payload), at)) {
        hello->out_bytes = 0;
        (void)fail(hello, FRY_HELLO_BAD_SECRET);
        return false;
    }
    hello->out_bytes += LENGTH_BYTES + SECOND_BYTES;
    split(hello);
    set_state(hello, FRY_HELLO_AWAITS_OFFER);
    return true;
}

void fry_hello_offer_own(fry_hello *hello, const fry_hello_offer *own)
{
    uint8_t plain[1 + OFFER_BYTES] = {KIND_OFFER};

    if (hello->state != FRY_HELLO_AWAITS_AGREE || !hello->is_caller)
        return;
    hello->own = *own;
    write_offer(plain + 1, own);
    send_sealed(hello, plain, sizeof(plain));
}

static uint32_t smaller(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

bool fry_hello_agree(fry_hello *hello)
{
    const fry_hello_offer *own = &hello->own, *other = &hello->other;
    const uint8_t both = own->paths & other->paths;
    const bool is_one_host = sodium_memcmp(own->host, other->host, FRY_MACHINE_BYTES) == 0 &&
                             !sodium_is_zero(own->host, FRY_MACHINE_BYTES);

    if (hello->state != FRY_HELLO_AWAITS_AGREE)
        return false;
    if (is_one_host && (both & FRY_HELLO_PATH(FRY_PATH_SHARED)) != 0)
        hello->agreement.path = FRY_PATH_SHARED;
    else if ((both & FRY_HELLO_PATH(FRY_PATH_NET)) != 0)
        hello->agreement.path = FRY_PATH_NET;
    else
        return false;
    hello->agreement.window_messages = smaller(own->window_messages, other->window_messages);
    hello->agreement.unexpected_max = smaller(own->unexpected_max, other->unexpected_max);
    hello->agreement.window_bytes =
        own->window_bytes < other->window_bytes ? own->window_bytes : other->window_bytes;
    set_state(hello, FRY_HELLO_AWAITS_ADDRESS);
    return true;
}

void fry_hello_session(const fry_hello *hello, fry_connection_session *session)
{
    static const char caller_label[] = "ferry lane: the caller's control messages";
    static const char answerer_label[] = "ferry lane: the answerer's control messages";
    uint8_t *by_caller = hello->is_caller ? session->send_key : session->receive_key;
    uint8_t *by_answerer = hello->is_caller ? session->receive_key : session->send_key;

    *session = (fry_connection_session){
        .is_keyed = hello->agreement.path == FRY_PATH_NET,
        .window_messages = hello->agreement.window_messages,
        .unexpected_max = hello->agreement.unexpected_max,
        .window_bytes = hello->agreement.window_bytes,
        .has_pieces = (hello->own.paths & hello->other.paths & FRY_HELLO_PIECES) != 0,
        .has_windows = (hello->own.paths & hello->other.paths & FRY_HELLO_WINDOWS) != 0,
        .has_views = hello->agreement.path == FRY_PATH_SHARED &&
                     (hello->own.paths & hello->other.paths & FRY_HELLO_VIEWS) != 0,
        .has_maps =
            hello->agreement.path == FRY_PATH_SHARED &&
            (~(hello->own.paths & hello->other.paths) & (FRY_HELLO_WINDOWS | FRY_HELLO_MAPS)) == 0,
    };
    /* Who names both has the nearer way. */
    session->has_pairs =
        !session->has_views && (hello->own.paths & hello->other.paths & FRY_HELLO_PAIRS) != 0;
    (void)crypto_generichash(by_caller, sizeof(session->send_key), (const uint8_t *)caller_label,
                             sizeof(caller_label) - 1, hello->more, sizeof(hello->more));
    (void)crypto_generichash(by_answerer, sizeof(session->send_key),
                             (const uint8_t *)answerer_label, sizeof(answerer_label) - 1,
                             hello->more, sizeof(hello->more));
}

void fry_hello_address(fry_hello *hello, const void *address, size_t address_bytes)
{
    uint8_t plain[1 + ADDRESS_BYTES + FRY_ADDRESS_BYTES_MAX] = {KIND_ADDRESS};

    if ((hello->state != FRY_HELLO_AWAITS_ADDRESS && hello->state != FRY_HELLO_AWAITS_READY) ||
        hello->has_sent_address || address_bytes > FRY_ADDRESS_BYTES_MAX)
        return;
    uint8_t *at = write_agreement(plain + 1, &hello->agreement);
    memcpy(at, address, address_bytes);
    hello->has_sent_address = true;
    send_sealed(hello, plain, 1 + ADDRESS_BYTES + address_bytes);
}

bool fry_hello_ready(fry_hello *hello)
{
    const uint8_t plain[1] = {KIND_READY};

    if ((hello->state != FRY_HELLO_AWAITS_READY && hello->state != FRY_HELLO_IS_LINE) ||
        !hello->has_sent_address || hello->has_sent_ready)
        return false;
    hello->has_sent_ready = true;
    send_sealed(hello, plain, sizeof(plain));
    return hello->state == FRY_HELLO_IS_LINE;
}

void fry_hello_end(fry_hello *hello, fry_hello_reason reason)
{
    const uint8_t plain[2] = {KIND_END, (uint8_t)reason};

    switch (hello->state) {
    case FRY_HELLO_AWAITS_OFFER:
    case FRY_HELLO_AWAITS_AGREE:
    case FRY_HELLO_AWAITS_ADDRESS:
    case FRY_HELLO_AWAITS_READY:
    case FRY_HELLO_IS_LINE:
        send_sealed(hello, plain, sizeof(plain));
        break;
    default:
        break;
    }
    set_state(hello, FRY_HELLO_IS_OVER);
}

void fry_hello_ping(fry_hello *hello)
{
    const uint8_t plain[1] = {KIND_PING};

    /* A message that is still to be sent asks as well. */
    if (hello->state == FRY_HELLO_IS_LINE && hello->out_bytes == 0)
        send_sealed(hello, plain, sizeof(plain));
}

void fry_hello_close(fry_hello *hello)
{
    sodium_memzero(hello, sizeof(*hello));
}

/* ---- reading ---- */

static fry_hello_event read_preamble(fry_hello *hello)
{
    const uint8_t *at = hello->in + sizeof(magic);

    hello->other_version = (uint16_t)get(&at, 2);
    if (memcmp(hello->in, magic, sizeof(magic)) != 0)
        return fail(hello, FRY_HELLO_NOT_FERRY);
    if (hello->other_version != FRY_HELLO_VERSION) {
        if (!hello->is_caller)
            send_preamble(hello); /* so that the caller can report both versions */
        return fail(hello, FRY_HELLO_OTHER_VERSION);
    }
    hello->has_preamble = true;
    set_state(hello, hello->state);
    return FRY_HELLO_MORE;
}

static bool is_length(const fry_hello *hello, size_t length)
{
    switch (hello->state) {
    case FRY_HELLO_AWAITS_FIRST:
        return length == FIRST_BYTES;
    case FRY_HELLO_AWAITS_SECOND:
        return length == SECOND_BYTES;
    case FRY_HELLO_AWAITS_OFFER:
        return length >= SEALED_BYTES_MIN && length <= 1 + OFFER_BYTES + FRY_NOISE_TAG_BYTES;
    case FRY_HELLO_AWAITS_ADDRESS:
        return length >= SEALED_BYTES_MIN && length <= SEALED_BYTES_MAX;
    default:
        return length >= SEALED_BYTES_MIN && length <= SEALED_BYTES_MIN + 1;
    }
}

static fry_hello_event read_length(fry_hello *hello)
{
    const uint8_t *at = hello->in;
    const size_t length = (size_t)get(&at, LENGTH_BYTES);

    if (!is_length(hello, length))
        return fail(hello, FRY_HELLO_BAD_LENGTH);
    hello->has_length = true;
    hello->in_bytes = 0;
    hello->in_wanted = length;
    return FRY_HELLO_MORE;
}

static fry_hello_event read_first(fry_hello *hello)
{
    uint8_t payload[GREETING_BYTES];

    if (!fry_noise_read_first(&hello->noise, hello->psk, hello->in, FIRST_BYTES, payload))
        return fail(hello, FRY_HELLO_BAD_SECRET);
    if (!read_greeting(payload, &hello->greeting))
        return fail(hello, FRY_HELLO_BAD_FORM);
    set_state(hello, FRY_HELLO_AWAITS_ANSWER);
    return FRY_HELLO_GREETED;
}

static fry_hello_event read_second(fry_hello *hello)
{
    uint8_t payload[OFFER_BYTES];

    if (!fry_noise_read_second(&hello->noise, hello->in, SECOND_BYTES, payload))
        return fail(hello, FRY_HELLO_BAD_SECRET);
    split(hello);
    if (!read_offer(payload, &hello->other))
        return fail(hello, FRY_HELLO_BAD_FORM);
    set_state(hello, FRY_HELLO_AWAITS_AGREE);
    return FRY_HELLO_OFFERED;
}

static fry_hello_event read_address(fry_hello *hello, const uint8_t *body, size_t size)
{
    uint8_t agreement[ADDRESS_BYTES];

    if (size < ADDRESS_BYTES || size > ADDRESS_BYTES + FRY_ADDRESS_BYTES_MAX)
        return fail(hello, FRY_HELLO_BAD_FORM);
    (void)write_agreement(agreement, &hello->agreement);
    if (memcmp(body, agreement, sizeof(agreement)) != 0)
        return fail(hello, FRY_HELLO_BAD_FORM);
    hello->address_bytes = size - ADDRESS_BYTES;
    memcpy(hello->address, body + ADDRESS_BYTES, hello->address_bytes);
    set_state(hello, FRY_HELLO_AWAITS_READY);
    return FRY_HELLO_ADDRESSED;
}

static fry_hello_event read_offer_message(fry_hello *hello, const uint8_t *body, size_t size)
{
    if (size != OFFER_BYTES || !read_offer(body, &hello->other))
        return fail(hello, FRY_HELLO_BAD_FORM);
    set_state(hello, FRY_HELLO_AWAITS_AGREE);
    return FRY_HELLO_OFFERED;
}

static fry_hello_event read_end(fry_hello *hello, const uint8_t *body, size_t size)
{
    if (size != 1 || body[0] == 0 || body[0] >= FRY_HELLO_REASON_END)
        return fail(hello, FRY_HELLO_BAD_FORM);
    hello->reason = (fry_hello_reason)body[0];
    set_state(hello, FRY_HELLO_IS_OVER);
    return FRY_HELLO_ENDED;
}

static fry_hello_event read_sealed(fry_hello *hello)
{
    uint8_t plain[SEALED_BYTES_MAX];
    const size_t size = hello->in_wanted - SEALED_BYTES_MIN;
    const uint8_t *body = plain + 1;

    if (!fry_noise_unseal(&hello->receive, hello->in, hello->in_wanted, plain))
        return fail(hello, FRY_HELLO_BAD_SEAL);
    if (plain[0] == KIND_END)
        return read_end(hello, body, size);
    if (plain[0] == KIND_OFFER && hello->state == FRY_HELLO_AWAITS_OFFER)
        return read_offer_message(hello, body, size);
    if (plain[0] == KIND_ADDRESS && hello->state == FRY_HELLO_AWAITS_ADDRESS)
        return read_address(hello, body, size);
    if (size != 0)
        return fail(hello, FRY_HELLO_BAD_FORM);
    if (plain[0] == KIND_READY && hello->state == FRY_HELLO_AWAITS_READY) {
        /* No end is ready before it has this end's address. */
        if (!hello->has_sent_address)
            return fail(hello, FRY_HELLO_BAD_TURN);
        set_state(hello, FRY_HELLO_IS_LINE);
        return hello->has_sent_ready ? FRY_HELLO_DONE : FRY_HELLO_MORE;
    }
    if (plain[0] == KIND_PING && hello->state == FRY_HELLO_IS_LINE) {
        set_state(hello, FRY_HELLO_IS_LINE);
        return FRY_HELLO_MORE;
    }
    return fail(hello, FRY_HELLO_BAD_TURN);
}

static fry_hello_event read_frame(fry_hello *hello)
{
    switch (hello->state) {
    case FRY_HELLO_AWAITS_FIRST:
        return read_first(hello);
    case FRY_HELLO_AWAITS_SECOND:
        return read_second(hello);
    default:
        return read_sealed(hello);
    }
}

size_t fry_hello_wants(const fry_hello *hello)
{
    return hello->in_wanted - hello->in_bytes;
}

fry_hello_event fry_hello_feed(fry_hello *hello, const void *bytes, size_t size_bytes)
{
    if (size_bytes == 0 || size_bytes > fry_hello_wants(hello))
        return size_bytes == 0 ? FRY_HELLO_MORE : fail(hello, FRY_HELLO_BAD_TURN);
    memcpy(hello->in + hello->in_bytes, bytes, size_bytes);
    hello->in_bytes += size_bytes;
    if (hello->in_bytes < hello->in_wanted)
        return FRY_HELLO_MORE;
    if (!hello->has_preamble)
        return read_preamble(hello);
    return hello->has_length ? read_frame(hello) : read_length(hello);
}

/* ---- texts ---- */

const char *fry_hello_reason_text(fry_hello_reason reason)
{
    switch (reason) {
    case FRY_HELLO_CONNECTION_ENDED:
        return "it ended the connection";
    case FRY_HELLO_LEFT:
        return "it left";
    case FRY_HELLO_OTHER_JOB:
        return "it is of another job";
    case FRY_HELLO_OTHER_MEMBER:
        return "it is not the member that was called, or not any more";
    case FRY_HELLO_OLD_START:
        return "the caller has been restarted since";
    case FRY_HELLO_NOT_A_MEMBER:
        return "the caller is not known as a member";
    case FRY_HELLO_CALLS_ITSELF:
        return "it calls as well, and its rank is lower, so its call counts";
    case FRY_HELLO_HAS_CONNECTION:
        return "there is a connection already";
    case FRY_HELLO_NO_PATH:
        return "the two ends have no path in common";
    case FRY_HELLO_NO_PROCESS:
        return "the process it says it is is not there";
    case FRY_HELLO_NOT_WATCHED:
        return "the process can't be watched from here, perhaps for lack of descriptors";
    case FRY_HELLO_NO_CHANNEL:
        return "a channel could not be opened or connected";
    case FRY_HELLO_NOT_AGREED:
        return "the two ends came to different results";
    case FRY_HELLO_TOO_MANY:
        return "too many hellos at once";
    case FRY_HELLO_TOO_LATE:
        return "it took too long, or is no longer wanted";
    default:
        return "for an unknown reason";
    }
}

const char *fry_hello_failure_text(fry_hello_failure failure)
{
    switch (failure) {
    case FRY_HELLO_NOT_FERRY:
        return "another protocol than ferry's";
    case FRY_HELLO_OTHER_VERSION:
        return "another version of the protocol";
    case FRY_HELLO_BAD_LENGTH:
        return "a message of a length that can't be";
    case FRY_HELLO_BAD_SECRET:
        return "another secret, or changed bytes";
    case FRY_HELLO_BAD_SEAL:
        return "a message that does not open: changed or repeated";
    case FRY_HELLO_BAD_FORM:
        return "a message with impossible contents";
    case FRY_HELLO_BAD_TURN:
        return "a message out of turn";
    default:
        return "nothing";
    }
}
