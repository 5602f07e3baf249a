/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that somebody who knows the job's secret wrote a member's record or the roster. The proof
 * is a last line "proof HEX": BLAKE2b-128 keyed with a key derived from secret and job (libsodium),
 * over the text's key in the store and the text above. So a stranger who reaches the store can't
 * make itself a member, and a proven text can't be moved to another key. An old text that is put
 * back in its own place is still proven: whoever may write to the store can disturb a group, but
 * not join it.
 */
#ifndef FRY_NET_GROUP_SEAL_H
#define FRY_NET_GROUP_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#define FRY_GROUP_SEAL_KEY_BYTES 32
#define FRY_GROUP_PROOF_BYTES 39 /* "proof ", 32 digits, the end of the line */

typedef struct fry_group_seal {
    bool is_keyed; /* there is a secret; otherwise texts have no proof, and must have none */
    unsigned char key[FRY_GROUP_SEAL_KEY_BYTES];
} fry_group_seal;

/* Sets up a seal; secret NULL: not keyed. False: libsodium can't be used here. */
bool fry_group_seal_init(fry_group_seal *seal, const char *job, const void *secret,
                         size_t secret_bytes);
void fry_group_seal_wipe(fry_group_seal *seal);

/*
 * Adds the proof to a text for `key` in the store; the text has room for it. Returns the new
 * length, without an ending zero.
 */
size_t fry_group_seal_close(const fry_group_seal *seal, const char *key, char *text,
                            size_t text_bytes);

/* Whether a text is proven; *text_bytes becomes its length without the proof. */
bool fry_group_seal_open(const fry_group_seal *seal, const char *key, const char *text,
                         size_t *text_bytes);

#endif
