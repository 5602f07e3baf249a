/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the specification section by section; a unit test compares with published vectors. A
 * nonce comes again after 2^64 uses; hellos send a handful of messages.
 */
#include "net/connect/noise.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#define BLOCK_BYTES 128 /* BLAKE2b's block, for HMAC */

typedef struct chunk {
    const void *bytes;
    size_t size;
} chunk;

static const char protocol_name[] = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";

static void blake2b(uint8_t out[FRY_NOISE_HASH_BYTES], const chunk *chunks, size_t count)
{
    crypto_generichash_blake2b_state state;

    (void)crypto_generichash_blake2b_init(&state, NULL, 0, FRY_NOISE_HASH_BYTES);
    for (size_t i = 0; i < count; i++)
        (void)crypto_generichash_blake2b_update(&state, chunks[i].bytes, chunks[i].size);
    (void)crypto_generichash_blake2b_final(&state, out, FRY_NOISE_HASH_BYTES);
    sodium_memzero(&state, sizeof(state));
}

/* HMAC whose key has the size of a hash (RFC 2104). */
static void hmac(uint8_t out[FRY_NOISE_HASH_BYTES], const uint8_t key[FRY_NOISE_HASH_BYTES],
                 chunk first, chunk second)
{
    uint8_t pad[BLOCK_BYTES], inner[FRY_NOISE_HASH_BYTES];

    memset(pad, 0x36, sizeof(pad));
    for (size_t i = 0; i < FRY_NOISE_HASH_BYTES; i++)
        pad[i] ^= key[i];
    blake2b(inner, (chunk[]){{pad, sizeof(pad)}, first, second}, 3);
    memset(pad, 0x5c, sizeof(pad));
    for (size_t i = 0; i < FRY_NOISE_HASH_BYTES; i++)
        pad[i] ^= key[i];
    blake2b(out, (chunk[]){{pad, sizeof(pad)}, {inner, sizeof(inner)}}, 2);
    sodium_memzero(pad, sizeof(pad));
    sodium_memzero(inner, sizeof(inner));
}

/* Section 4.3: three outputs; callers that want two use the first two. */
static void hkdf(uint8_t outputs[3][FRY_NOISE_HASH_BYTES],
                 const uint8_t chaining[FRY_NOISE_HASH_BYTES], const void *input,
                 size_t input_bytes)
{
    static const uint8_t one = 1, two = 2, three = 3;
    uint8_t key[FRY_NOISE_HASH_BYTES];

    hmac(key, chaining, (chunk){input, input_bytes}, (chunk){NULL, 0});
    hmac(outputs[0], key, (chunk){&one, 1}, (chunk){NULL, 0});
    hmac(outputs[1], key, (chunk){outputs[0], FRY_NOISE_HASH_BYTES}, (chunk){&two, 1});
    hmac(outputs[2], key, (chunk){outputs[1], FRY_NOISE_HASH_BYTES}, (chunk){&three, 1});
    sodium_memzero(key, sizeof(key));
}

/* ---- 5.1: a key and its nonce ---- */

static void set_key(fry_noise_cipher *cipher, const uint8_t *key)
{
    memcpy(cipher->key, key, sizeof(cipher->key));
    cipher->nonce = 0;
}

static void make_nonce(uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES],
                       fry_noise_cipher *cipher)
{
    const uint64_t number = htole64(cipher->nonce++);

    memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    memcpy(nonce + 4, &number, sizeof(number));
}

static void seal(fry_noise_cipher *cipher, chunk more, chunk plain, uint8_t *sealed)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

    make_nonce(nonce, cipher);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(
        sealed, NULL, plain.bytes, plain.size, more.bytes, more.size, NULL, nonce, cipher->key);
}

static bool unseal(fry_noise_cipher *cipher, chunk more, chunk sealed, void *plain)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

    make_nonce(nonce, cipher);
    return crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed.bytes, sealed.size,
                                                     more.bytes, more.size, nonce,
                                                     cipher->key) == 0;
}

/* ---- 5.2: what was said so far ---- */

static void mix_hash(fry_noise *noise, const void *bytes, size_t size)
{
    blake2b(noise->hash, (chunk[]){{noise->hash, sizeof(noise->hash)}, {bytes, size}}, 2);
}

static void mix_key(fry_noise *noise, const void *input, size_t input_bytes)
{
    uint8_t outputs[3][FRY_NOISE_HASH_BYTES];

    hkdf(outputs, noise->chaining, input, input_bytes);
    memcpy(noise->chaining, outputs[0], sizeof(noise->chaining));
    set_key(&noise->cipher, outputs[1]);
    sodium_memzero(outputs, sizeof(outputs));
}

static void mix_key_and_hash(fry_noise *noise, const uint8_t psk[FRY_NOISE_KEY_BYTES])
{
    uint8_t outputs[3][FRY_NOISE_HASH_BYTES];

    hkdf(outputs, noise->chaining, psk, FRY_NOISE_KEY_BYTES);
    memcpy(noise->chaining, outputs[0], sizeof(noise->chaining));
    mix_hash(noise, outputs[1], FRY_NOISE_HASH_BYTES);
    set_key(&noise->cipher, outputs[2]);
    sodium_memzero(outputs, sizeof(outputs));
}

static void encrypt_and_hash(fry_noise *noise, chunk payload, uint8_t *sealed)
{
    seal(&noise->cipher, (chunk){noise->hash, sizeof(noise->hash)}, payload, sealed);
    mix_hash(noise, sealed, payload.size + FRY_NOISE_TAG_BYTES);
}

static bool decrypt_and_hash(fry_noise *noise, chunk sealed, void *payload)
{
    if (!unseal(&noise->cipher, (chunk){noise->hash, sizeof(noise->hash)}, sealed, payload))
        return false;
    mix_hash(noise, sealed.bytes, sealed.size);
    return true;
}

/* ---- 5.3: the tokens ---- */

void fry_noise_begin(fry_noise *noise, const void *prologue, size_t prologue_bytes)
{
    *noise = (fry_noise){0};
    memcpy(noise->hash, protocol_name, sizeof(protocol_name) - 1);
    memcpy(noise->chaining, noise->hash, sizeof(noise->chaining));
    mix_hash(noise, prologue, prologue_bytes);
}

/* Token e with a pre-shared key: the public key goes into the key too. */
static void write_e(fry_noise *noise, uint8_t *message)
{
    randombytes_buf(noise->own_secret, sizeof(noise->own_secret));
    (void)crypto_scalarmult_base(noise->own_public, noise->own_secret);
    memcpy(message, noise->own_public, sizeof(noise->own_public));
    mix_hash(noise, noise->own_public, sizeof(noise->own_public));
    mix_key(noise, noise->own_public, sizeof(noise->own_public));
}

static void read_e(fry_noise *noise, const uint8_t *message)
{
    memcpy(noise->other_public, message, sizeof(noise->other_public));
    mix_hash(noise, noise->other_public, sizeof(noise->other_public));
    mix_key(noise, noise->other_public, sizeof(noise->other_public));
}

/* Token ee. False: the other end's key is of small order, so that anybody would know the result. */
static bool mix_ee(fry_noise *noise)
{
    uint8_t shared[crypto_scalarmult_BYTES];
    const bool is_good = crypto_scalarmult(shared, noise->own_secret, noise->other_public) == 0;

    if (is_good)
        mix_key(noise, shared, sizeof(shared));
    sodium_memzero(shared, sizeof(shared));
    return is_good;
}

void fry_noise_write_first(fry_noise *noise, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                           const void *payload, size_t payload_bytes, uint8_t *message)
{
    mix_key_and_hash(noise, psk);
    write_e(noise, message);
    encrypt_and_hash(noise, (chunk){payload, payload_bytes}, message + FRY_NOISE_PUBLIC_BYTES);
}

bool fry_noise_read_first(fry_noise *noise, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                          const uint8_t *message, size_t message_bytes, void *payload)
{
    if (message_bytes < FRY_NOISE_HANDSHAKE_BYTES)
        return false;
    mix_key_and_hash(noise, psk);
    read_e(noise, message);
    return decrypt_and_hash(
        noise, (chunk){message + FRY_NOISE_PUBLIC_BYTES, message_bytes - FRY_NOISE_PUBLIC_BYTES},
        payload);
}

bool fry_noise_write_second(fry_noise *noise, const void *payload, size_t payload_bytes,
                            uint8_t *message)
{
    write_e(noise, message);
    if (!mix_ee(noise))
        return false;
    encrypt_and_hash(noise, (chunk){payload, payload_bytes}, message + FRY_NOISE_PUBLIC_BYTES);
    return true;
}

bool fry_noise_read_second(fry_noise *noise, const uint8_t *message, size_t message_bytes,
                           void *payload)
{
    if (message_bytes < FRY_NOISE_HANDSHAKE_BYTES)
        return false;
    read_e(noise, message);
    return mix_ee(noise) && decrypt_and_hash(noise,
                                             (chunk){message + FRY_NOISE_PUBLIC_BYTES,
                                                     message_bytes - FRY_NOISE_PUBLIC_BYTES},
                                             payload);
}

void fry_noise_split(fry_noise *noise, bool has_begun, fry_noise_cipher *send,
                     fry_noise_cipher *receive, uint8_t more[FRY_NOISE_HASH_BYTES])
{
    uint8_t outputs[3][FRY_NOISE_HASH_BYTES];

    hkdf(outputs, noise->chaining, NULL, 0);
    set_key(send, outputs[has_begun ? 0 : 1]);
    set_key(receive, outputs[has_begun ? 1 : 0]);
    if (more != NULL)
        memcpy(more, outputs[2], FRY_NOISE_HASH_BYTES);
    sodium_memzero(outputs, sizeof(outputs));
    fry_noise_wipe(noise);
}

void fry_noise_seal(fry_noise_cipher *cipher, const void *plain, size_t plain_bytes,
                    uint8_t *sealed)
{
    seal(cipher, (chunk){NULL, 0}, (chunk){plain, plain_bytes}, sealed);
}

bool fry_noise_unseal(fry_noise_cipher *cipher, const uint8_t *sealed, size_t sealed_bytes,
                      void *plain)
{
    return unseal(cipher, (chunk){NULL, 0}, (chunk){sealed, sealed_bytes}, plain);
}

void fry_noise_wipe(fry_noise *noise)
{
    sodium_memzero(noise, sizeof(*noise));
}
