/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target offers to libFuzzer, or to driver.c. */
#ifndef FERRY_TESTS_FUZZ_H
#define FERRY_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Eats the bytes; returns 0. Anything else than returning is a finding. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
