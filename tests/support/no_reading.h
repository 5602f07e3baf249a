/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NO_READING_H
#define TESTS_SUPPORT_NO_READING_H

#include <stdbool.h>

/* From now on this process may neither read another's memory nor write it. False: no seccomp. */
bool forbid_reading(void);

#endif
