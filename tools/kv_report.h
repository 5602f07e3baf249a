/* SPDX-License-Identifier: Apache-2.0 */
/* What `ferry kv` prints. */
#ifndef KV_REPORT_H
#define KV_REPORT_H

#include "tools/kv_prefill.h"

/* Returns 0, or EXIT_FAILURE if it can't be written, or if pages had other bytes. */
int kv_report_print(const kv_options *options, const kv_outcome *outcome);

#endif
