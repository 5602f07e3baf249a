/* SPDX-License-Identifier: Apache-2.0 */
/* A decode process of `ferry kv`. */
#ifndef KV_DECODE_H
#define KV_DECODE_H

#include "tools/kv_end.h"

/*
 * Asks for requests until the prefill process says that it is over. The end is closed in any case.
 * Returns 0, or the exit status after a message on stderr.
 */
int kv_decode_run(kv_end *end);

#endif
