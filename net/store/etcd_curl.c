/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/etcd_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CURL_FILE "libcurl.so.4"
#define CURL_OLDEST 0x075800 /* older versions may raise SIGPIPE when they send by TLS */
#define TEXT_BYTES 256

fry_curl_functions fry_curl;

static struct {
    pthread_once_t once;
    bool is_here;
    char why[TEXT_BYTES];
} curl = {.once = PTHREAD_ONCE_INIT};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(fry_curl_functions, name)},
    FRY_CURL_FUNCTION_MAP(FUNCTION)
#undef FUNCTION
};

static bool find_functions(void *file)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(file, functions[i].name);

        if (address == NULL) {
            (void)snprintf(curl.why, TEXT_BYTES, "%s lacks %s", CURL_FILE, functions[i].name);
            return false;
        }
        /* ISO C has no cast from dlsym's result to a function. */
        memcpy((char *)&fry_curl + functions[i].offset, &address, sizeof address);
    }
    return true;
}

/*
 * curl_global_init must not run twice at once. Within ferry pthread_once prevents this. If the
 * program itself first uses libcurl at the same moment, a lock in libcurl 7.84 and later does.
 */
static void load(void)
{
    void *file = dlopen(CURL_FILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (file == NULL) {
        const char *why = dlerror();

        (void)snprintf(curl.why, TEXT_BYTES, "%s",
                       why != NULL ? why : CURL_FILE " can't be opened");
        return;
    }
    if (!find_functions(file))
        return;
    const CURLcode code = fry_curl.curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) {
        (void)snprintf(curl.why, TEXT_BYTES, "%s does not start: %s", CURL_FILE,
                       fry_curl.curl_easy_strerror(code));
        return;
    }
    const curl_version_info_data *version = fry_curl.curl_version_info(CURLVERSION_NOW);
    if (version->version_num < CURL_OLDEST) {
        (void)snprintf(curl.why, TEXT_BYTES, "%s is %s, and 7.88 or later is needed", CURL_FILE,
                       version->version);
        return;
    }
    curl.is_here = true;
}

bool fry_curl_load(const char **why_p)
{
    (void)pthread_once(&curl.once, load);
    *why_p = curl.why;
    return curl.is_here;
}
