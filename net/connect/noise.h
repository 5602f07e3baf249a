/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b of the Noise Protocol Framework (revision 34), whole and
 * unchanged, on libsodium's primitives. It knows nothing of sockets or of what the payloads mean.
 *
 *     -> psk, e      first:  public key, sealed payload
 *     <- e, ee       second: public key, sealed payload; then both split
 *
 * Each step that gives bool gives false for a message that is not of this run by somebody who has
 * the key; the run is over then. fry_noise_wipe ends a run at any point.
 */
#ifndef FRY_NET_CONNECT_NOISE_H
#define FRY_NET_CONNECT_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRY_NOISE_KEY_BYTES 32
#define FRY_NOISE_PUBLIC_BYTES 32
#define FRY_NOISE_TAG_BYTES 16
#define FRY_NOISE_HASH_BYTES 64
/* Bytes of a handshake message besides its payload. */
#define FRY_NOISE_HANDSHAKE_BYTES (FRY_NOISE_PUBLIC_BYTES + FRY_NOISE_TAG_BYTES)

/* A key of one direction, and how often it was used. */
typedef struct fry_noise_cipher {
    uint8_t key[FRY_NOISE_KEY_BYTES];
    uint64_t nonce;
} fry_noise_cipher;

typedef struct fry_noise {
    uint8_t chaining[FRY_NOISE_HASH_BYTES];
    uint8_t hash[FRY_NOISE_HASH_BYTES]; /* of all messages so far */
    fry_noise_cipher cipher;
    uint8_t own_secret[FRY_NOISE_KEY_BYTES];
    uint8_t own_public[FRY_NOISE_PUBLIC_BYTES];
    uint8_t other_public[FRY_NOISE_PUBLIC_BYTES];
} fry_noise;

/* Begins a run with a prologue that both ends know: another prologue is another run. */
void fry_noise_begin(fry_noise *noise, const void *prologue, size_t prologue_bytes);

/* Messages have FRY_NOISE_HANDSHAKE_BYTES more than their payloads. */
void fry_noise_write_first(fry_noise *noise, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                           const void *payload, size_t payload_bytes, uint8_t *message);
bool fry_noise_read_first(fry_noise *noise, const uint8_t psk[FRY_NOISE_KEY_BYTES],
                          const uint8_t *message, size_t message_bytes, void *payload);
bool fry_noise_write_second(fry_noise *noise, const void *payload, size_t payload_bytes,
                            uint8_t *message);
bool fry_noise_read_second(fry_noise *noise, const uint8_t *message, size_t message_bytes,
                           void *payload);

/*
 * Ends the handshake: gives the keys of both directions; the end that began sends first. `more` is
 * the third output of the same HKDF, for keys of the caller's own; NULL: not wanted. Wipes the run.
 */
void fry_noise_split(fry_noise *noise, bool has_begun, fry_noise_cipher *send,
                     fry_noise_cipher *receive, uint8_t more[FRY_NOISE_HASH_BYTES]);

/*
 * Messages must come in order, each once: one that was lost, moved or repeated does not open.
 * Sealed bytes have FRY_NOISE_TAG_BYTES more. In place is allowed.
 */
void fry_noise_seal(fry_noise_cipher *cipher, const void *plain, size_t plain_bytes,
                    uint8_t *sealed);
bool fry_noise_unseal(fry_noise_cipher *cipher, const uint8_t *sealed, size_t sealed_bytes,
                      void *plain);

void fry_noise_wipe(fry_noise *noise);

#endif
