/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/status.h>

const char *ferry_status_name(ferry_status status)
{
#define NAME_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return #name;
    switch (status) {
        FERRY_STATUS_MAP(NAME_CASE)
    }
#undef NAME_CASE
    return "FERRY_E_UNKNOWN";
}

const char *ferry_status_text(ferry_status status)
{
#define TEXT_CASE(name, value, text)                                                               \
    case name:                                                                                     \
        return text;
    switch (status) {
        FERRY_STATUS_MAP(TEXT_CASE)
    }
#undef TEXT_CASE
    return "unknown status";
}
