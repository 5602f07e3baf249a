/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/version.h>

#define FRY_TEXT_(x) #x
#define FRY_TEXT(x) FRY_TEXT_(x)

const char *ferry_version(void)
{
    return FRY_TEXT(FERRY_VERSION_MAJOR) "." FRY_TEXT(FERRY_VERSION_MINOR) "." FRY_TEXT(
        FERRY_VERSION_PATCH);
}

int ferry_version_number(void)
{
    return FERRY_VERSION_NUMBER;
}
