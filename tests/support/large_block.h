/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large memory for tests: whole pages between two without access, ending where the second begins
 * if its alignment allows. To touch a page for the first time costs ten microseconds on a virtual
 * machine, and more with a sanitizer's shadow of it, so freed blocks are kept to be given out
 * again. Not so under AddressSanitizer: there a freed block stays without access, and its address
 * is not used again. Any thread.
 */
#ifndef FERRY_TESTS_LARGE_BLOCK_H
#define FERRY_TESTS_LARGE_BLOCK_H

#include <stddef.h>

/* What is smaller is malloc's business. */
#define LARGE_BLOCK_BYTES_MIN ((size_t)1 << 20)

/* NULL: there is no memory. align_bytes: a power of two. The bytes may be anything. */
void *large_block_alloc(size_t size_bytes, size_t align_bytes);

/* Another size than was given to large_block_alloc ends the process. */
void large_block_free(void *memory, size_t size_bytes);

#endif
