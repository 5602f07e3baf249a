/* SPDX-License-Identifier: Apache-2.0 */
#include "net/store/open.h"

#include "net/store/etcd.h"
#include "net/store/file.h"
#include "net/store/mem.h"
#include "net/store/store.h"

#include <string.h>

#define NAME_BYTES_MAX 4096 /* of a URI */

static const struct {
    const char *scheme;
    ferry_status (*open)(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                         fry_store **store_p, fry_error **error_p);
} schemes[] = {
    {"mem:", fry_mem_open},
    {"file:", fry_file_open},
    {"etcd://", fry_etcd_open},
    {"etcds://", fry_etcd_open},
};

/* Writes the URI without what is between "://" and the last "@" of the same part. */
static void write_name(char *name, const char *uri)
{
    const char *from = strstr(uri, "://");
    const size_t head_bytes = from != NULL ? (size_t)(from + 3 - uri) : 0;
    const char *rest = uri + head_bytes;
    const char *at = head_bytes > 0 ? strrchr(rest, '@') : NULL;

    memcpy(name, uri, head_bytes);
    (void)strcpy(name + head_bytes, at != NULL ? at + 1 : rest);
}

ferry_status fry_store_open(fry_reactor *reactor, const char *uri, const fry_store_options *options,
                            fry_store **store_p, fry_error **error_p)
{
    static const fry_store_options none;
    const fry_memory *memory = reactor->memory;
    const size_t count = sizeof schemes / sizeof *schemes;
    fry_store *store = NULL;
    size_t i = 0;

    *error_p = NULL;
    if (uri == NULL || strlen(uri) > NAME_BYTES_MAX)
        return fry_store_error(memory, FERRY_E_INVALID, error_p, "a store's URI has 1 to %d bytes",
                               NAME_BYTES_MAX);
    while (i < count && strncmp(uri, schemes[i].scheme, strlen(schemes[i].scheme)) != 0)
        i++;
    if (i == count)
        return fry_store_error(memory, FERRY_E_INVALID, error_p,
                               "'%.60s' is not mem:, file:, etcd:// or etcds://", uri);
    const size_t name_bytes = strlen(uri) + 1;
    char *name = fry_alloc(memory, name_bytes, 1);
    if (name == NULL)
        return fry_store_error(memory, FERRY_E_NO_MEMORY, error_p, "no memory for a store");
    write_name(name, uri);
    const ferry_status status =
        schemes[i].open(reactor, uri, options != NULL ? options : &none, &store, error_p);
    if (status != FERRY_OK) {
        fry_free(memory, name, name_bytes);
        return status;
    }
    store->name = name;
    store->name_bytes = name_bytes;
    *store_p = store;
    return FERRY_OK;
}
