/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes to a hello. The first byte says how the rest is taken: 0 and 1, as bytes on the wire,
 * by an answerer and a caller, who never believe that the sender is a member; 2 and 3, as messages
 * of somebody who knows the secret, each with its length before it, which the target seals, so that
 * what is behind the seal is reached. Keys are the same each time.
 */
#include "net/connect/hello.h"
#include "tests/fuzz/fuzz.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One end, up to the moment that the other has proven itself, and the seal that the other has. */
typedef struct scene {
    fry_hello hello;
    fry_noise_cipher other;
} scene;

static uint8_t psk[FRY_NOISE_KEY_BYTES];
static scene scenes[2];       /* an answerer and a caller */
static fry_hello first_words; /* of a caller, whose keys take longer than all the rest */
static const fry_hello_greeting greeting = {
    .job = "job", .rank = 3, .to_rank = 5, .incarnation = 11, .to_incarnation = 13};

static void insist(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "fuzz hello: %s\n", what);
    abort();
}

static const char *same_name(void)
{
    return "the same";
}

static uint32_t same_random(void)
{
    return 4;
}

static void same_bytes(void *buffer, const size_t size)
{
    static uint8_t next;

    memset(buffer, ++next, size);
}

static fry_hello_offer offer_of(uint32_t rank, uint64_t incarnation)
{
    fry_hello_offer offer = {
        .rank = rank,
        .incarnation = incarnation,
        .pid = 77,
        .paths = FRY_HELLO_PATH(FRY_PATH_SHARED) | FRY_HELLO_PATH(FRY_PATH_NET),
        .window_messages = 8,
        .unexpected_max = 8,
        .window_bytes = 8,
    };
    memset(offer.host, 'h', sizeof(offer.host));
    return offer;
}

/* Moves what one gives to the other, until it has something to say of it. */
static fry_hello_event carry(fry_hello *from, fry_hello *to)
{
    fry_hello_event event = FRY_HELLO_MORE;

    while (event == FRY_HELLO_MORE && from->out_bytes > 0) {
        size_t size = fry_hello_wants(to);
        size = size < from->out_bytes ? size : from->out_bytes;
        insist(size > 0, "it wants nothing");
        event = fry_hello_feed(to, from->out, size);
        fry_hello_took(from, size);
    }
    return event;
}

/* Two whole hellos: one stands where the offer comes, one where the address does. */
static void prepare(void)
{
    static randombytes_implementation same = {
        .implementation_name = same_name, .random = same_random, .buf = same_bytes};
    static fry_hello one, two;
    const fry_hello_offer first = offer_of(greeting.rank, greeting.incarnation);
    const fry_hello_offer second = offer_of(greeting.to_rank, greeting.to_incarnation);

    insist(fry_hello_key(psk, "the secret", 10) == FERRY_OK, "no key");
    randombytes_set_implementation(&same);
    fry_hello_call(&first_words, psk, &greeting);
    for (int i = 0; i < 2; i++) {
        fry_hello_call(&one, psk, &greeting);
        fry_hello_await(&two, psk);
        insist(carry(&one, &two) == FRY_HELLO_GREETED, "not greeted");
        insist(fry_hello_answer(&two, &second), "not answered");
        if (i == 0) {
            scenes[0].hello = two;
            scenes[0].other.nonce = 0;
            memcpy(scenes[0].other.key, two.receive.key, sizeof(two.receive.key));
        }
        insist(carry(&two, &one) == FRY_HELLO_OFFERED, "not offered");
        fry_hello_offer_own(&one, &first);
        insist(fry_hello_agree(&one), "not agreed");
        fry_hello_address(&one, "address", 7);
        scenes[1].hello = one;
        scenes[1].other = one.receive;
    }
}

/* As a link does. True: the other end is believed. */
static bool decide(fry_hello *hello, fry_hello_event event)
{
    const fry_hello_offer own = offer_of(5, 13);
    fry_connection_session session;

    insist(hello->out_bytes <= sizeof(hello->out), "too much to send");
    insist(hello->address_bytes <= sizeof(hello->address), "too long an address");
    switch (event) {
    case FRY_HELLO_GREETED:
        (void)fry_hello_answer(hello, &own);
        return false;
    case FRY_HELLO_OFFERED:
        if (hello->is_caller)
            fry_hello_offer_own(hello, &own);
        if (fry_hello_agree(hello)) {
            fry_hello_session(hello, &session);
            insist(session.window_messages > 0 && session.unexpected_max > 0, "no room agreed");
            fry_hello_address(hello, "address", 7);
        } else {
            fry_hello_end(hello, FRY_HELLO_NO_PATH);
        }
        return true;
    case FRY_HELLO_ADDRESSED:
        (void)fry_hello_ready(hello);
        return true;
    case FRY_HELLO_DONE:
        fry_hello_ping(hello);
        return true;
    default:
        return false;
    }
}

static void feed_all(fry_hello *hello, const uint8_t *data, size_t size, bool may_believe)
{
    while (size > 0 && fry_hello_wants(hello) > 0) {
        size_t count = fry_hello_wants(hello);
        count = count < size ? count : size;
        const bool believes = decide(hello, fry_hello_feed(hello, data, count));
        insist(may_believe || !believes, "a stranger is believed");
        data += count;
        size -= count;
    }
}

static void feed_sealed(scene *at, const uint8_t *data, size_t size)
{
    static uint8_t frame[2 + FRY_HELLO_FRAME_BYTES_MAX + UINT8_MAX * 256];

    while (size > 2 && fry_hello_wants(&at->hello) > 0) {
        size_t count = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        count = count < size ? count : size;
        const size_t sealed = count + FRY_NOISE_TAG_BYTES;
        if (sealed > UINT16_MAX)
            return;
        frame[0] = (uint8_t)(sealed >> 8);
        frame[1] = (uint8_t)sealed;
        fry_noise_seal(&at->other, data, count, frame + 2);
        feed_all(&at->hello, frame, 2 + sealed, true);
        data += count;
        size -= count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    static scene at;

    if (!is_ready)
        prepare();
    is_ready = true;
    if (size == 0)
        return 0;
    switch (data[0] % 4) {
    case 0:
        fry_hello_await(&at.hello, psk);
        feed_all(&at.hello, data + 1, size - 1, false);
        break;
    case 1:
        at.hello = first_words;
        feed_all(&at.hello, data + 1, size - 1, false);
        break;
    default:
        at = scenes[data[0] % 2];
        feed_sealed(&at, data + 1, size - 1);
        break;
    }
    fry_hello_close(&at.hello);
    return 0;
}
