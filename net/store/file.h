/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRY_NET_STORE_FILE_H
#define FRY_NET_STORE_FILE_H

#include "net/store/store.h"

/* Added to the time for which the end of a lease of an unreadable clock must not change. */
#define FILE_OTHER_CLOCK_NS INT64_C(500000000)

ferry_status fry_file_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                           fry_store **store_p, fry_error **error_p);

#endif
