/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs that callers pass in or have filled begin with their size in the caller's version. Fields
 * that a shorter struct lacks have their defaults; the bytes that a longer struct has beyond ours
 * must be zero, because their meaning is unknown here.
 */
#ifndef FRY_BASE_OPTIONS_H
#define FRY_BASE_OPTIONS_H

#include <ferry/status.h>

#include <stddef.h>
#include <string.h>

#define FRY_OPTIONS_BYTES_MAX 4096

/*
 * Reads a struct of the caller's version into ours; NULL: all zeros. FERRY_E_INVALID if its size is
 * invalid or unknown fields are set.
 */
static inline ferry_status fry_options_read(void *options, size_t size_bytes, const void *given)
{
    memset(options, 0, size_bytes);
    if (given == NULL)
        return FERRY_OK;
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes || given_bytes > FRY_OPTIONS_BYTES_MAX)
        return FERRY_E_INVALID;
    for (size_t i = size_bytes; i < given_bytes; i++) {
        if (((const char *)given)[i] != 0)
            return FERRY_E_INVALID;
    }
    memcpy(options, given, given_bytes < size_bytes ? given_bytes : size_bytes);
    return FERRY_OK;
}

/* Fills a struct of the caller's version, which may be shorter or longer than ours. */
static inline ferry_status fry_struct_hand_out(void *to, const void *from, size_t size_bytes)
{
    size_t wanted_bytes;
    memcpy(&wanted_bytes, to, sizeof wanted_bytes);
    if (wanted_bytes < sizeof wanted_bytes || wanted_bytes > FRY_OPTIONS_BYTES_MAX)
        return FERRY_E_INVALID;
    memset((char *)to + sizeof wanted_bytes, 0, wanted_bytes - sizeof wanted_bytes);
    size_t copied_bytes = wanted_bytes < size_bytes ? wanted_bytes : size_bytes;
    memcpy((char *)to + sizeof wanted_bytes, (const char *)from + sizeof wanted_bytes,
           copied_bytes - sizeof wanted_bytes);
    return FERRY_OK;
}

#endif
