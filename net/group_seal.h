/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that a member's record, and the roster, were written by somebody who knows the job's
 * secret: a last line "proof HEX", BLAKE2b-128 keyed with a key that is derived from secret and job
 * (libsodium), over the key it stands at and the text above. So a stranger who reaches the store
 * can't make a member of itself, nor can what was proven be moved to another key. An old text put
 * back in its own place still is proven: who may write to the store can disturb a group, not join
 * it.
 */
#ifndef FRY_NET_GROUP_SEAL_H
#define FRY_NET_GROUP_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#define FRY_GROUP_SEAL_KEY_BYTES 32
#define FRY_GROUP_PROOF_BYTES 39 /* "proof ", 32 digits, the line's end */

typedef struct fry_group_seal {
    bool is_keyed; /* there is a secret; else texts have no proof, and may have none */
    unsigned char key[FRY_GROUP_SEAL_KEY_BYTES];
} fry_group_seal;

/* secret NULL: not keyed. False: libsodium can't be used here. */
bool fry_group_seal_init(fry_group_seal *seal, const char *job, const void *secret,
                         size_t secret_bytes);
void fry_group_seal_wipe(fry_group_seal *seal);

/* Adds the proof to a text that stands at `key` in the store, which has room for it; the new
 * length, without an ending zero. */
size_t fry_group_seal_close(const fry_group_seal *seal, const char *key, char *text,
                            size_t text_bytes);

/* Whether a text proves itself; *text_bytes becomes its length without the proof. */
bool fry_group_seal_open(const fry_group_seal *seal, const char *key, const char *text,
                         size_t *text_bytes);

#endif
