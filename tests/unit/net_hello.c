/* SPDX-License-Identifier: Apache-2.0 */
/* The hello with both ends in memory, and what an attacker between or before them can do. */
#include "net/connect/hello.h"
#include "net/mac.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 16384

/* One way of the wire: what was sent on it, and how much of it was taken. */
typedef struct way {
    uint8_t bytes[LINE_BYTES];
    size_t sent, taken;
    size_t flip; /* this byte comes with `bit` changed; SIZE_MAX: none */
    uint8_t bit;
    size_t cut; /* nothing from here on comes; SIZE_MAX: all does */
} way;

typedef struct end {
    fry_hello hello;
    way *out, *in;
    fry_hello_offer offer;
    fry_hello_event last;
    bool is_done, has_offered;
    uint8_t channel[FRY_ADDRESS_BYTES_MAX];
    size_t channel_bytes;
} end;

static uint8_t key[FRY_NOISE_KEY_BYTES], other_key[FRY_NOISE_KEY_BYTES];
static way forth, back;
static end caller, answerer;

static const fry_hello_greeting usual = {
    .job = "train.7", .rank = 3, .to_rank = 5, .incarnation = 11, .to_incarnation = 13};

static void load_keys(void)
{
    cr_assert_eq(fry_hello_key(key, "a secret of many bytes", 22), FERRY_OK);
    cr_assert_eq(fry_hello_key(other_key, "a secret of many bytez", 22), FERRY_OK);
}

TestSuite(net_hello, .init = load_keys);

static fry_hello_offer offer_of(uint32_t rank, uint64_t incarnation)
{
    fry_hello_offer offer = {
        .rank = rank,
        .incarnation = incarnation,
        .pid = 100 + rank,
        .started = 5,
        .paths = FRY_HELLO_PATH(FRY_PATH_SHARED) | FRY_HELLO_PATH(FRY_PATH_NET),
        .window_messages = 64 * (rank + 1),
        .unexpected_max = 1000 - rank,
        .window_bytes = 4096 * (rank + 1),
    };
    memset(offer.host, 'h', sizeof(offer.host));
    return offer;
}

static void clear_way(way *line)
{
    line->sent = line->taken = 0;
    line->flip = line->cut = SIZE_MAX;
    line->bit = 1;
}

static void set_ends(const uint8_t *caller_key, const uint8_t *answerer_key)
{
    clear_way(&forth);
    clear_way(&back);
    memset(&caller, 0, sizeof(caller));
    memset(&answerer, 0, sizeof(answerer));
    caller.out = answerer.in = &forth;
    caller.in = answerer.out = &back;
    caller.offer = offer_of(usual.rank, usual.incarnation);
    answerer.offer = offer_of(usual.to_rank, usual.to_incarnation);
    caller.channel_bytes = 300;
    answerer.channel_bytes = FRY_ADDRESS_BYTES_MAX;
    memset(caller.channel, 'c', sizeof(caller.channel));
    memset(answerer.channel, 'a', sizeof(answerer.channel));
    fry_hello_call(&caller.hello, caller_key, &usual);
    fry_hello_await(&answerer.hello, answerer_key);
}

static void flush(end *self)
{
    const size_t size = self->hello.out_bytes;

    cr_assert_leq(self->out->sent + size, (size_t)LINE_BYTES);
    memcpy(self->out->bytes + self->out->sent, self->hello.out, size);
    self->out->sent += size;
    fry_hello_took(&self->hello, size);
}

/* What a link does. */
static void decide(end *self, fry_hello_event event)
{
    fry_hello *hello = &self->hello;

    self->last = event;
    switch (event) {
    case FRY_HELLO_GREETED:
        (void)fry_hello_answer(hello, &self->offer);
        break;
    case FRY_HELLO_OFFERED:
        self->has_offered = true;
        if (hello->is_caller)
            fry_hello_offer_own(hello, &self->offer);
        if (fry_hello_agree(hello))
            fry_hello_address(hello, self->channel, self->channel_bytes);
        else
            fry_hello_end(hello, FRY_HELLO_NO_PATH);
        break;
    case FRY_HELLO_ADDRESSED:
        self->is_done = fry_hello_ready(hello);
        break;
    case FRY_HELLO_DONE:
        self->is_done = true;
        break;
    default:
        break;
    }
}

/* One byte at a time where `crumbs`; true if anything came. */
static bool deliver(end *self, bool crumbs)
{
    way *in = self->in;
    const size_t limit = in->sent < in->cut ? in->sent : in->cut;
    uint8_t bytes[FRY_HELLO_FRAME_BYTES_MAX];
    size_t size = fry_hello_wants(&self->hello);

    if (size > limit - in->taken)
        size = limit - in->taken;
    if (crumbs && size > 1)
        size = 1;
    if (size == 0)
        return false;
    memcpy(bytes, in->bytes + in->taken, size);
    if (in->flip >= in->taken && in->flip < in->taken + size)
        bytes[in->flip - in->taken] ^= in->bit;
    in->taken += size;
    decide(self, fry_hello_feed(&self->hello, bytes, size));
    return true;
}

static void talk(bool crumbs)
{
    bool moves = true;

    while (moves) {
        flush(&caller);
        moves = deliver(&answerer, crumbs);
        flush(&answerer);
        moves = deliver(&caller, crumbs) || moves;
    }
}

/* Two ends with one key, and all that they say to each other. */
static void meet(void)
{
    set_ends(key, key);
    talk(false);
}

static void close_ends(void)
{
    fry_hello_close(&caller.hello);
    fry_hello_close(&answerer.hello);
    cr_assert(sodium_is_zero((const uint8_t *)&caller.hello, sizeof(caller.hello)));
}

/* ---- Noise itself ---- */

static uint8_t given[2][32];
static size_t given_count;

static const char *given_name(void)
{
    return "given";
}

static uint32_t given_random(void)
{
    return 4;
}

static void give_bytes(void *buffer, const size_t size)
{
    cr_assert_eq(size, sizeof(given[0]));
    memcpy(buffer, given[given_count++], size);
}

static size_t from_hex(const char *hex, uint8_t *bytes, size_t room)
{
    size_t size = 0;

    cr_assert_eq(sodium_hex2bin(bytes, room, hex, strlen(hex), NULL, &size, NULL), 0);
    return size;
}

/* The vector of Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b among those that come with the Haskell
 * library cacophony, which other libraries of Noise are tested with too. */
Test(net_hello, noise_as_published)
{
    static randombytes_implementation known = {
        .implementation_name = given_name, .random = given_random, .buf = give_bytes};
    static const char *const plain[] = {"4c756477696720766f6e204d69736573",
                                        "4d757272617920526f746862617264",
                                        "462e20412e20486179656b",
                                        "4361726c204d656e676572",
                                        "4a65616e2d426170746973746520536179",
                                        "457567656e2042f6686d20766f6e2042617765726b"};
    static const char *const sealed[] = {
        "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
        "ed63df2f5a12aee1185ee9c50305f2ecf12421dcb53c047a63b784cf7c54a105",
        "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
        "0e0fe7d5c0c9b92f7478716c8852f1b4f389edb75e3ebe546fafafd5b6f0f7",
        "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6",
        "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe",
        "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f",
        "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce29bd9"};
    uint8_t psk[32], prologue[16], payload[64], message[128], expected[128], got[128], hash[64];
    fry_noise one, two;
    fry_noise_cipher keys[4];

    from_hex("54686973206973206d7920417573747269616e20706572737065637469766521", psk, sizeof(psk));
    const size_t prologue_bytes = from_hex("4a6f686e2047616c74", prologue, sizeof(prologue));
    from_hex("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a", given[0], 32);
    from_hex("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b", given[1], 32);
    randombytes_set_implementation(&known);
    fry_noise_begin(&one, prologue, prologue_bytes);
    fry_noise_begin(&two, prologue, prologue_bytes);

    size_t size = from_hex(plain[0], payload, sizeof(payload));
    size_t sealed_size = from_hex(sealed[0], expected, sizeof(expected));
    fry_noise_write_first(&one, psk, payload, size, message);
    cr_assert_eq(sealed_size, size + FRY_NOISE_HANDSHAKE_BYTES);
    cr_assert_arr_eq(message, expected, sealed_size);
    cr_assert(fry_noise_read_first(&two, psk, message, sealed_size, got));
    cr_assert_arr_eq(got, payload, size);

    size = from_hex(plain[1], payload, sizeof(payload));
    sealed_size = from_hex(sealed[1], expected, sizeof(expected));
    cr_assert(fry_noise_write_second(&two, payload, size, message));
    cr_assert_arr_eq(message, expected, sealed_size);
    cr_assert(fry_noise_read_second(&one, message, sealed_size, got));
    cr_assert_arr_eq(got, payload, size);

    from_hex("ed5e9692d0ab507b6c2beec3f584fd5b127817a9d20b26cd50aa72c507260fa3"
             "1aa7d88dd3723316338af37ce0b4cfb2923aeb848bbf2b934911306f01ffc963",
             hash, sizeof(hash));
    cr_assert_arr_eq(one.hash, hash, sizeof(hash));
    cr_assert_arr_eq(two.hash, hash, sizeof(hash));
    fry_noise_split(&one, true, &keys[0], &keys[1], NULL);
    fry_noise_split(&two, false, &keys[2], &keys[3], NULL);
    for (size_t i = 2; i < 6; i++) {
        const bool is_first = i % 2 == 0;
        size = from_hex(plain[i], payload, sizeof(payload));
        sealed_size = from_hex(sealed[i], expected, sizeof(expected));
        fry_noise_seal(is_first ? &keys[0] : &keys[2], payload, size, message);
        cr_assert_arr_eq(message, expected, sealed_size);
        cr_assert(fry_noise_unseal(is_first ? &keys[3] : &keys[1], message, sealed_size, got));
        cr_assert_arr_eq(got, payload, size);
    }
}

/* A key of small order would make a secret that everybody knows. */
Test(net_hello, no_small_order)
{
    static const uint8_t none[32];
    uint8_t message[FRY_NOISE_HANDSHAKE_BYTES + 4] = {0};
    fry_noise noise;

    fry_noise_begin(&noise, "p", 1);
    memcpy(noise.other_public, none, sizeof(none));
    cr_assert_not(fry_noise_write_second(&noise, "text", 4, message));
}

/* ---- both ends well ---- */

static void assert_agreed(void)
{
    fry_connection_session one, two;

    cr_assert(caller.is_done);
    cr_assert(answerer.is_done);
    cr_assert_eq(caller.hello.state, FRY_HELLO_IS_LINE);
    cr_assert_eq(caller.hello.address_bytes, answerer.channel_bytes);
    cr_assert_arr_eq(caller.hello.address, answerer.channel, answerer.channel_bytes);
    cr_assert_eq(answerer.hello.address_bytes, caller.channel_bytes);
    cr_assert_str_eq(answerer.hello.greeting.job, usual.job);
    cr_assert_eq(answerer.hello.greeting.rank, usual.rank);
    cr_assert_eq(answerer.hello.greeting.to_incarnation, usual.to_incarnation);
    cr_assert_eq(answerer.hello.other.pid, 103);
    fry_hello_session(&caller.hello, &one);
    fry_hello_session(&answerer.hello, &two);
    cr_assert_arr_eq(one.send_key, two.receive_key, sizeof(one.send_key));
    cr_assert_arr_eq(one.receive_key, two.send_key, sizeof(one.send_key));
    cr_assert_arr_neq(one.send_key, one.receive_key, sizeof(one.send_key));
    cr_assert_eq(one.window_messages, 256);
    cr_assert_eq(one.unexpected_max, 995);
    cr_assert_eq(one.window_bytes, 4 * 4096);
    cr_assert_eq(two.window_messages, one.window_messages);
}

Test(net_hello, both_well)
{
    for (int crumbs = 0; crumbs < 2; crumbs++) {
        set_ends(key, key);
        talk(crumbs != 0);
        assert_agreed();
        cr_assert_eq(caller.hello.agreement.path, FRY_PATH_SHARED);
        close_ends();
    }
}

Test(net_hello, without_a_secret)
{
    uint8_t empty[FRY_NOISE_KEY_BYTES];

    cr_assert_eq(fry_hello_key(empty, NULL, 0), FERRY_OK);
    set_ends(empty, empty);
    talk(false);
    assert_agreed();
    set_ends(key, empty);
    talk(false);
    cr_assert_eq(answerer.hello.failure, FRY_HELLO_BAD_SECRET);
}

Test(net_hello, paths)
{
    fry_connection_session session;

    set_ends(key, key);
    answerer.offer.host[7] ^= 1; /* another host */
    talk(false);
    cr_assert(caller.is_done);
    cr_assert_eq(caller.hello.agreement.path, FRY_PATH_NET);
    fry_hello_session(&caller.hello, &session);
    cr_assert(session.is_keyed);

    set_ends(key, key);
    answerer.offer.paths = FRY_HELLO_PATH(FRY_PATH_NET); /* one host, and one that won't */
    talk(false);
    cr_assert_eq(answerer.hello.agreement.path, FRY_PATH_NET);

    set_ends(key, key); /* hosts that nobody can tell are not the same */
    memset(caller.offer.host, 0, FRY_MACHINE_BYTES);
    memset(answerer.offer.host, 0, FRY_MACHINE_BYTES);
    talk(false);
    cr_assert_eq(answerer.hello.agreement.path, FRY_PATH_NET);

    set_ends(key, key);
    answerer.offer.host[7] ^= 1;
    answerer.offer.paths = FRY_HELLO_PATH(FRY_PATH_SHARED);
    talk(false);
    cr_assert_not(caller.is_done);
    cr_assert_eq(caller.hello.state, FRY_HELLO_IS_OVER);
    cr_assert_eq(answerer.hello.state, FRY_HELLO_IS_OVER);
}

/* Members that do not know pieces send 0 there, and still agree on the rest. */
Test(net_hello, pieces_are_for_two_who_know_them)
{
    for (unsigned who = 0; who < 4; who++) {
        fry_connection_session one, two;
        set_ends(key, key);
        if ((who & 1) != 0)
            caller.offer.paths |= FRY_HELLO_PIECES;
        if ((who & 2) != 0)
            answerer.offer.paths |= FRY_HELLO_PIECES;
        talk(false);
        cr_assert(caller.is_done);
        cr_assert_eq(caller.hello.agreement.path, FRY_PATH_SHARED);
        fry_hello_session(&caller.hello, &one);
        fry_hello_session(&answerer.hello, &two);
        cr_assert_eq(one.has_pieces, who == 3);
        cr_assert_eq(two.has_pieces, who == 3);
    }
}

/* The same of views; and only on one host. */
Test(net_hello, views_are_for_two_on_one_host)
{
    for (unsigned who = 0; who < 8; who++) {
        fry_connection_session one, two;
        set_ends(key, key);
        if ((who & 1) != 0)
            caller.offer.paths |= FRY_HELLO_VIEWS;
        if ((who & 2) != 0)
            answerer.offer.paths |= FRY_HELLO_VIEWS;
        if ((who & 4) != 0)
            answerer.offer.host[7] ^= 1;
        talk(false);
        cr_assert(caller.is_done);
        fry_hello_session(&caller.hello, &one);
        fry_hello_session(&answerer.hello, &two);
        cr_assert_eq(one.has_views, who == 3);
        cr_assert_eq(two.has_views, who == 3);
    }
}

/* Lots are for two that both name them and have no views. */
Test(net_hello, pairs_are_for_two_without_views)
{
    for (unsigned who = 0; who < 32; who++) {
        fry_connection_session one, two;
        set_ends(key, key);
        for (unsigned i = 0; i < 4; i++) {
            fry_hello_offer *offer = i < 2 ? &caller.offer : &answerer.offer;
            if ((who >> i & 1) != 0)
                offer->paths |= i % 2 == 0 ? FRY_HELLO_VIEWS : FRY_HELLO_PAIRS;
        }
        if ((who & 16) != 0)
            answerer.offer.host[7] ^= 1;
        talk(false);
        cr_assert(caller.is_done);
        fry_hello_session(&caller.hello, &one);
        fry_hello_session(&answerer.hello, &two);
        cr_assert_eq(one.has_pairs, (who & 10) == 10 && (who & 21) != 5);
        cr_assert_eq(two.has_pairs, one.has_pairs);
    }
}

Test(net_hello, the_line_ends)
{
    meet();
    for (int i = 0; i < 3; i++) {
        fry_hello_ping(&caller.hello);
        talk(false);
        cr_assert_eq(answerer.last, FRY_HELLO_MORE);
    }
    fry_hello_end(&answerer.hello, FRY_HELLO_LEFT);
    talk(false);
    cr_assert_eq(caller.last, FRY_HELLO_ENDED);
    cr_assert_eq(caller.hello.reason, FRY_HELLO_LEFT);
    cr_assert_eq(fry_hello_wants(&caller.hello), 0);
    for (fry_hello_reason r = FRY_HELLO_CONNECTION_ENDED; r <= FRY_HELLO_REASON_END; r++)
        cr_assert_not_null(fry_hello_reason_text(r));
}

/* ---- strangers ---- */

Test(net_hello, another_secret)
{
    set_ends(other_key, key);
    talk(false);
    cr_assert_eq(answerer.last, FRY_HELLO_FAILED);
    cr_assert_eq(answerer.hello.failure, FRY_HELLO_BAD_SECRET);
    cr_assert_eq(back.sent, 0, "a stranger gets no answer");
    cr_assert_eq(caller.last, FRY_HELLO_MORE);
}

/* An answerer without the secret can say nothing that the caller takes. */
Test(net_hello, a_false_answerer)
{
    uint8_t payload[256], message[512] = {0};
    fry_noise noise;

    set_ends(key, key);
    flush(&caller);
    fry_noise_begin(&noise, forth.bytes, 8);
    cr_assert_not(fry_noise_read_first(&noise, other_key, forth.bytes + 10, 136, payload));
    memcpy(back.bytes, forth.bytes, 8);
    back.bytes[9] = 117;
    cr_assert(fry_noise_write_second(&noise, payload, 69, message));
    memcpy(back.bytes + 10, message, 117);
    back.sent = 127;
    talk(false);
    cr_assert_eq(caller.hello.failure, FRY_HELLO_BAD_SECRET);
}

Test(net_hello, another_version)
{
    set_ends(key, key);
    flush(&caller);
    forth.bytes[7] = 9;
    talk(false);
    cr_assert_eq(answerer.hello.failure, FRY_HELLO_OTHER_VERSION);
    cr_assert_eq(answerer.hello.other_version, 9);
    cr_assert_eq(back.sent, 8, "the version is named, and nothing more");
    back.bytes[7] = FRY_HELLO_VERSION + 1;
    cr_assert_eq(caller.hello.state, FRY_HELLO_AWAITS_SECOND);

    set_ends(key, key);
    flush(&caller);
    memcpy(back.bytes, forth.bytes, 8);
    back.bytes[7] = FRY_HELLO_VERSION + 1;
    back.sent = 8;
    forth.cut = 0;
    talk(false);
    cr_assert_eq(caller.hello.failure, FRY_HELLO_OTHER_VERSION);
}

Test(net_hello, garbage)
{
    uint8_t bytes[256];

    for (int i = 0; i < 20000; i++) {
        fry_hello hello;
        fry_hello_event event = FRY_HELLO_MORE;
        size_t at = 0;

        randombytes_buf(bytes, sizeof(bytes));
        if (i % 2 == 0)
            memcpy(bytes, (uint8_t[]){'f', 'e', 'r', 'r', 'y', '~', 0, FRY_HELLO_VERSION}, 8);
        if (i % 4 == 0)
            memcpy(bytes + 8, "\0\210", 2);
        fry_hello_await(&hello, key);
        while (event == FRY_HELLO_MORE && at < sizeof(bytes)) {
            size_t size = fry_hello_wants(&hello);
            size = size < sizeof(bytes) - at ? size : sizeof(bytes) - at;
            event = fry_hello_feed(&hello, bytes + at, size);
            at += size;
        }
        cr_assert_eq(event, FRY_HELLO_FAILED);
        cr_assert_eq(hello.out_bytes, 0);
        cr_assert_leq(at, (size_t)146, "no more is read than what decides");
    }
}

/* ---- between them ---- */

/* Who gets a changed byte never has a connection of it, and never says why. */
Test(net_hello, every_byte_changed)
{
    meet();
    const size_t forth_bytes = forth.sent, back_bytes = back.sent;
    for (size_t i = 0; i < forth_bytes + back_bytes; i++) {
        /* All of an address would take its time, and is one like another. */
        if (i > 500 && i < forth_bytes + back_bytes - 200 && i % 97 != 0 &&
            (i < forth_bytes - 60 || i > forth_bytes + 400))
            continue;
        const bool is_forth = i < forth_bytes;
        set_ends(key, key);
        if (is_forth)
            forth.flip = i;
        else
            back.flip = i - forth_bytes;
        forth.bit = back.bit = (uint8_t)(1u << (i % 8));
        talk(false);
        end *victim = is_forth ? &answerer : &caller;
        cr_assert_not(victim->is_done, "byte %zu", i);
        /* A length that grew has it wait for more: the deadline is the socket's. */
        cr_assert(victim->last == FRY_HELLO_FAILED || fry_hello_wants(&victim->hello) > 0,
                  "byte %zu", i);
    }
}

/* Nothing comes to `victim` from each byte on: it is not done, and does not fail. */
static void cut_everywhere(way *line, const end *victim)
{
    meet();
    const size_t bytes = line->sent;
    for (size_t i = 0; i < bytes; i += i < 700 || i > bytes - 100 ? 1 : 61) {
        set_ends(key, key);
        line->cut = i;
        talk(false);
        cr_assert_not(victim->is_done, "byte %zu", i);
        cr_assert_neq(victim->last, FRY_HELLO_FAILED, "byte %zu", i);
    }
}

Test(net_hello, every_prefix)
{
    cut_everywhere(&forth, &answerer);
    cut_everywhere(&back, &caller);
}

/* Everything that a caller ever said, said again: it is greeted, and proves nothing. */
Test(net_hello, repeated)
{
    way heard;

    meet();
    heard = forth;
    set_ends(key, key);
    forth = heard;
    forth.taken = 0;
    while (deliver(&answerer, false))
        flush(&answerer);
    cr_assert_not(answerer.has_offered);
    cr_assert_eq(answerer.hello.failure, FRY_HELLO_BAD_SEAL);

    heard = back; /* and an answerer's, to a new call */
    meet();
    heard = back;
    set_ends(key, key);
    back = heard;
    back.taken = 0;
    forth.cut = 0;
    while (deliver(&caller, false))
        flush(&caller);
    cr_assert_not(caller.has_offered);
    cr_assert_eq(caller.hello.failure, FRY_HELLO_BAD_SECRET);
}

/* A caller hears its own words. */
Test(net_hello, reflected)
{
    set_ends(key, key);
    flush(&caller);
    back = forth;
    back.bytes[9] = 117; /* the length that it waits for */
    forth.cut = 0;
    talk(false);
    cr_assert_eq(caller.hello.failure, FRY_HELLO_BAD_SECRET);

    /* To its own port: it opens, and says that it is for another member. */
    meet();
    cr_assert_eq(answerer.hello.greeting.to_rank, usual.to_rank);
    cr_assert_neq(answerer.hello.greeting.rank, usual.to_rank);

    /* Once keys are agreed on: each direction has its own. */
    meet();
    const size_t said = forth.sent;
    fry_hello_end(&caller.hello, FRY_HELLO_LEFT);
    flush(&caller);
    memcpy(back.bytes + back.sent, forth.bytes + said, forth.sent - said);
    back.sent += forth.sent - said;
    fry_hello fresh = caller.hello;
    caller.hello.state = FRY_HELLO_IS_LINE;
    caller.hello.in_wanted = 2;
    while (deliver(&caller, false))
        ;
    cr_assert_eq(caller.hello.failure, FRY_HELLO_BAD_SEAL);
    fry_hello_close(&fresh);
}

/* The line's messages moved or repeated. */
Test(net_hello, a_line_repeated)
{
    meet();
    const size_t before = forth.sent;
    fry_hello_ping(&caller.hello);
    talk(false);
    memcpy(forth.bytes + forth.sent, forth.bytes + before, forth.sent - before);
    forth.sent += forth.sent - before;
    talk(false);
    cr_assert_eq(answerer.hello.failure, FRY_HELLO_BAD_SEAL);
}

/* ---- somebody who knows the secret and says what can't be ---- */

Test(net_hello, offers_that_cannot_be)
{
    for (int what = 0; what < 9; what++) {
        set_ends(key, key);
        fry_hello_offer *offer = what % 2 == 0 ? &caller.offer : &answerer.offer;
        switch (what / 2) {
        case 0:
            offer->pid = what == 0 ? 0 : -1;
            break;
        case 1:
            offer->window_messages = 0;
            break;
        case 2:
            offer->unexpected_max = UINT32_MAX;
            break;
        case 3:
            offer->window_bytes = UINT64_MAX;
            break;
        default:
            offer->rank = UINT32_MAX;
            break;
        }
        talk(false);
        end *victim = what % 2 == 0 ? &answerer : &caller;
        cr_assert_eq(victim->hello.failure, FRY_HELLO_BAD_FORM, "%d", what);
        cr_assert_not(victim->is_done);
    }
}

Test(net_hello, jobs_that_cannot_be)
{
    static const char *const names[] = {"", "a b", "a\n", "\xff", "a/b"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fry_hello_greeting greeting = usual;
        set_ends(key, key);
        (void)snprintf(greeting.job, sizeof(greeting.job), "%s", names[i]);
        fry_hello_call(&caller.hello, key, &greeting);
        talk(false);
        cr_assert_eq(answerer.hello.failure, FRY_HELLO_BAD_FORM);
    }
}

Test(net_hello, different_results)
{
    set_ends(key, key);
    flush(&caller);
    (void)deliver(&answerer, false);
    while (!answerer.has_offered) {
        (void)deliver(&answerer, false);
        flush(&answerer);
        (void)deliver(&caller, false);
        flush(&caller);
    }
    answerer.hello.agreement.window_bytes++;
    answerer.hello.has_sent_address = false;
    fry_hello_address(&answerer.hello, "x", 1);
    talk(false);
    cr_assert_not(answerer.is_done);
}

/* ---- hashes of control messages ---- */

Test(net_hello, macs)
{
    uint8_t keys[2][FRY_MAC_KEY_BYTES], header[FRY_HEADER_BYTES_MAX], mac[FRY_MAC_BYTES];

    randombytes_buf(keys, sizeof(keys));
    randombytes_buf(header, sizeof(header));
    fry_mac_write(keys[0], 7, header, sizeof(header), mac);
    cr_assert(fry_mac_check(keys[0], 7, header, sizeof(header), mac));
    cr_assert_not(fry_mac_check(keys[0], 8, header, sizeof(header), mac), "repeated");
    cr_assert_not(fry_mac_check(keys[1], 7, header, sizeof(header), mac), "reflected");
    cr_assert_not(fry_mac_check(keys[0], 7, header, sizeof(header) - 1, mac), "cut");
    cr_assert_not(fry_mac_check(keys[0], 7, header, sizeof(header) + 1, mac), "too long");
    header[200] ^= 4;
    cr_assert_not(fry_mac_check(keys[0], 7, header, sizeof(header), mac), "changed");

    uint8_t table[FRY_MAC_TABLE_BYTES_MAX];
    randombytes_buf(table, sizeof(table));
    fry_mac_write_table(keys[0], 7, table, sizeof(table), mac);
    cr_assert(fry_mac_check_table(keys[0], 7, table, sizeof(table), mac));
    cr_assert_not(fry_mac_check_table(keys[0], 8, table, sizeof(table), mac), "another header's");
    cr_assert_not(fry_mac_check_table(keys[1], 7, table, sizeof(table), mac), "reflected");
    cr_assert_not(fry_mac_check_table(keys[0], 7, table, sizeof(table) - 32, mac), "cut");
    /* As long as a header may be, and under its number: still no header. */
    fry_mac_write_table(keys[0], 7, table, 32, mac);
    cr_assert_not(fry_mac_check(keys[0], 7, table, 32, mac), "taken for a header");
}
