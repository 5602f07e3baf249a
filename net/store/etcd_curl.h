/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded at run time when the first etcd store is opened, so that programs without such a
 * store don't load it and its libraries. It stays loaded.
 */
#ifndef FRY_NET_STORE_ETCD_CURL_H
#define FRY_NET_STORE_ETCD_CURL_H

#define CURL_DISABLE_TYPECHECK /* its macros would take the table's names for calls of their own   \
                                */
#include <curl/curl.h>
#include <stdbool.h>

#define FRY_CURL_FUNCTION_MAP(X)                                                                   \
    X(curl_global_init)                                                                            \
    X(curl_version_info)                                                                           \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_easy_init)                                                                              \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_cleanup)                                                                           \
    X(curl_multi_init)                                                                             \
    X(curl_multi_setopt)                                                                           \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_socket_action)                                                                    \
    X(curl_multi_assign)                                                                           \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_cleanup)

typedef struct fry_curl_functions {
#define FRY_CURL_FIELD_(name) __typeof__(&name) name;
    FRY_CURL_FUNCTION_MAP(FRY_CURL_FIELD_)
#undef FRY_CURL_FIELD_
} fry_curl_functions;

/* Filled in by the first successful fry_curl_load; never changed afterwards. */
extern fry_curl_functions fry_curl;

/*
 * Loads libcurl, the first time. Any thread. False: it is missing or too old; *why_p, a static
 * string, says so.
 */
bool fry_curl_load(const char **why_p);

#endif
