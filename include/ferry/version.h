/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the headers and of the library. The build reads its version from this file. */
#ifndef FERRY_VERSION_H
#define FERRY_VERSION_H

#include <ferry/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the headers a program was compiled with. */
#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0

/* The same in one number, which grows with each version: for the preprocessor, and to compare. */
#define FERRY_VERSION_NUMBER                                                                       \
    (FERRY_VERSION_MAJOR * 1000000 + FERRY_VERSION_MINOR * 1000 + FERRY_VERSION_PATCH)

/*
 * Version of the loaded library, as "MAJOR.MINOR.PATCH". Any thread, also in a fork's child; static
 * string.
 */
FERRY_API const char *ferry_version(void);

/* FERRY_VERSION_NUMBER of the loaded library. Any thread, also in a fork's child. */
FERRY_API int ferry_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
