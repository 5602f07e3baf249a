/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of control messages between hosts: SipHash-2-4 with the connection's key of that
 * direction (fry_connection_session, which the hello agreed on) over a counter and the bytes. Each
 * side counts from 0 for each direction and never sends the counter: a message that was lost, moved
 * or repeated has another number than the receiver's. 64 bits are enough: a forger may try a
 * million times a second, but each attempt ends the connection.
 *
 * Any thread. Allocates nothing; some 20 ns for a header.
 */
#ifndef FRY_NET_MAC_H
#define FRY_NET_MAC_H

#include "net/transport.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#define FRY_MAC_BYTES crypto_shorthash_BYTES
#define FRY_MAC_KEY_BYTES crypto_shorthash_KEYBYTES

/* header_bytes: at most FRY_HEADER_BYTES_MAX. */
static inline void fry_mac_write(const uint8_t key[FRY_MAC_KEY_BYTES], uint64_t counter,
                                 const void *header, size_t header_bytes,
                                 uint8_t mac[FRY_MAC_BYTES])
{
    uint8_t text[sizeof(counter) + FRY_HEADER_BYTES_MAX];
    const uint64_t number = htole64(counter);

    memcpy(text, &number, sizeof(number));
    memcpy(text + sizeof(number), header, header_bytes);
    (void)crypto_shorthash(mac, text, sizeof(number) + header_bytes, key);
}

/*
 * The same for the table of a bundle (net/peer/wire.h), which goes as data beside a header that
 * holds the hash. Its counter is the header's with all bits inverted. No counter gets that far, so
 * a table's hash is never a header's.
 */
#define FRY_MAC_TABLE_BYTES_MAX 2048

static inline void fry_mac_write_table(const uint8_t key[FRY_MAC_KEY_BYTES], uint64_t counter,
                                       const void *table, size_t table_bytes,
                                       uint8_t mac[FRY_MAC_BYTES])
{
    uint8_t text[sizeof(counter) + FRY_MAC_TABLE_BYTES_MAX];
    const uint64_t number = htole64(~counter);

    memcpy(text, &number, sizeof(number));
    memcpy(text + sizeof(number), table, table_bytes);
    (void)crypto_shorthash(mac, text, sizeof(number) + table_bytes, key);
}

/* In constant time; table_bytes: at most FRY_MAC_TABLE_BYTES_MAX. */
static inline bool fry_mac_check_table(const uint8_t key[FRY_MAC_KEY_BYTES], uint64_t counter,
                                       const void *table, size_t table_bytes,
                                       const uint8_t mac[FRY_MAC_BYTES])
{
    uint8_t right[FRY_MAC_BYTES];

    fry_mac_write_table(key, counter, table, table_bytes, right);
    return sodium_memcmp(right, mac, sizeof(right)) == 0;
}

/* In constant time. Also false for a header that is too long. */
static inline bool fry_mac_check(const uint8_t key[FRY_MAC_KEY_BYTES], uint64_t counter,
                                 const void *header, size_t header_bytes,
                                 const uint8_t mac[FRY_MAC_BYTES])
{
    uint8_t right[FRY_MAC_BYTES];

    if (header_bytes > FRY_HEADER_BYTES_MAX)
        return false;
    fry_mac_write(key, counter, header, header_bytes, right);
    return sodium_memcmp(right, mac, sizeof(right)) == 0;
}

#endif
