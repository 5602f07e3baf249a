/* SPDX-License-Identifier: Apache-2.0 */
#include "net/group/seal.h"

#include <sodium.h>
#include <string.h>

#define PROOF_WORD "proof "
#define HASH_BYTES 16

bool fry_group_seal_init(fry_group_seal *seal, const char *job, const void *secret,
                         size_t secret_bytes)
{
    static const char label[] = "ferry: records of a group";
    crypto_generichash_state state;
    unsigned char root[FRY_GROUP_SEAL_KEY_BYTES];

    *seal = (fry_group_seal){.is_keyed = secret != NULL};
    if (secret == NULL)
        return true;
    if (sodium_init() < 0)
        return false;
    (void)crypto_generichash(root, sizeof root, secret, secret_bytes, NULL, 0);
    (void)crypto_generichash_init(&state, root, sizeof root, sizeof seal->key);
    (void)crypto_generichash_update(&state, (const unsigned char *)label, sizeof label);
    (void)crypto_generichash_update(&state, (const unsigned char *)job, strlen(job));
    (void)crypto_generichash_final(&state, seal->key, sizeof seal->key);
    sodium_memzero(root, sizeof root);
    sodium_memzero(&state, sizeof state);
    return true;
}

void fry_group_seal_wipe(fry_group_seal *seal)
{
    sodium_memzero(seal, sizeof *seal);
}

static void proof_of(const fry_group_seal *seal, const char *key, const char *text,
                     size_t text_bytes, char line[FRY_GROUP_PROOF_BYTES + 1])
{
    crypto_generichash_state state;
    unsigned char hash[HASH_BYTES];

    (void)crypto_generichash_init(&state, seal->key, sizeof seal->key, sizeof hash);
    (void)crypto_generichash_update(&state, (const unsigned char *)key, strlen(key) + 1);
    (void)crypto_generichash_update(&state, (const unsigned char *)text, text_bytes);
    (void)crypto_generichash_final(&state, hash, sizeof hash);
    memcpy(line, PROOF_WORD, sizeof PROOF_WORD - 1);
    (void)sodium_bin2hex(line + sizeof PROOF_WORD - 1, 2 * HASH_BYTES + 1, hash, sizeof hash);
    line[FRY_GROUP_PROOF_BYTES - 1] = '\n';
    line[FRY_GROUP_PROOF_BYTES] = '\0';
}

size_t fry_group_seal_close(const fry_group_seal *seal, const char *key, char *text,
                            size_t text_bytes)
{
    char line[FRY_GROUP_PROOF_BYTES + 1];

    if (!seal->is_keyed)
        return text_bytes;
    proof_of(seal, key, text, text_bytes, line);
    memcpy(text + text_bytes, line, FRY_GROUP_PROOF_BYTES);
    return text_bytes + FRY_GROUP_PROOF_BYTES;
}

bool fry_group_seal_open(const fry_group_seal *seal, const char *key, const char *text,
                         size_t *text_bytes)
{
    char line[FRY_GROUP_PROOF_BYTES + 1];

    if (*text_bytes < FRY_GROUP_PROOF_BYTES)
        return !seal->is_keyed;
    const size_t above_bytes = *text_bytes - FRY_GROUP_PROOF_BYTES;
    if (!seal->is_keyed) /* members without a secret must not overwrite members with one */
        return memcmp(text + above_bytes, PROOF_WORD, sizeof PROOF_WORD - 1) != 0;
    proof_of(seal, key, text, above_bytes, line);
    if (sodium_memcmp(line, text + above_bytes, FRY_GROUP_PROOF_BYTES) != 0)
        return false;
    *text_bytes = above_bytes;
    return true;
}
