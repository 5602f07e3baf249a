/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ucx/library.h"

#include "net/ucx/guard.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY_FILE "libucp.so.0"
#define CORE_FILE "libucs.so.0"
#define MEMORY_FILE "libucm.so.0"
#define TEXT_BYTES 256

fry_ucx_functions fry_ucp;

static struct {
    pthread_once_t once;
    bool is_here;
    bool is_ours;
    unsigned minor;
    char text[TEXT_BYTES];
} library = {.once = PTHREAD_ONCE_INIT};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(name) {#name, offsetof(fry_ucx_functions, name)},
    FRY_UCX_FUNCTION_MAP(FUNCTION)
#undef FUNCTION
};

static bool find_functions(void *file)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(file, functions[i].name);
        if (address == NULL) {
            (void)snprintf(library.text, TEXT_BYTES, "no UCX: %s lacks %s", LIBRARY_FILE,
                           functions[i].name);
            return false;
        }
        memcpy((char *)&fry_ucp + functions[i].offset, &address, sizeof address);
    }
    return true;
}

/* The first options of UCX's memory events, the same in all versions so far. */
typedef struct memory_options {
    int log_level;
    int enable_events;
} memory_options;

/*
 * Must run before UCX's constructors. One of them rewrites the code of mmap, munmap, madvise and
 * more, to learn when registered memory is freed, though threads of the program may be in these
 * functions. Without InfiniBand nothing is registered. The option comes from the environment, which
 * we must not write while other threads run. So the part that would rewrite the code is started
 * first, with events off, and is not started again.
 */
static void keep_memory_calls(void)
{
    /* Some functions that it calls are in the rest of UCX. */
    void *file = dlopen(MEMORY_FILE, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (file == NULL)
        return;
    memory_options *options = dlsym(file, "ucm_global_opts");
    ucs_status_t (*start)(int events) = NULL;
    void *address = dlsym(file, "ucm_test_external_events");
    memcpy(&start, &address, sizeof address);
    if (options == NULL || start == NULL || options->enable_events != 1)
        return;
    options->enable_events = 0;
    (void)start(0);
    options->enable_events = 1; /* for programs that register memory after all */
}

bool fry_ucx_has_infiniband(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    bool is_here = false;
    const struct dirent *device;
    while (devices != NULL && !is_here && (device = readdir(devices)) != NULL)
        is_here = device->d_name[0] != '.';
    if (devices != NULL)
        (void)closedir(devices);
    return is_here;
}

/* UCX stays open: its threads and modules outlive its users. */
static void load_library(void)
{
    void *core = dlopen(CORE_FILE, RTLD_NOW | RTLD_NOLOAD);
    library.is_ours = core == NULL;
    if (core != NULL)
        (void)dlclose(core);

    fry_ucx_guard guard;
    fry_ucx_guard_enter(&guard);
    if (library.is_ours && !fry_ucx_has_infiniband())
        keep_memory_calls();
    void *file = dlopen(LIBRARY_FILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    fry_ucx_guard_leave(&guard);
    if (file == NULL) {
        const char *why = dlerror();
        (void)snprintf(library.text, TEXT_BYTES, "no UCX: %s",
                       why != NULL ? why : LIBRARY_FILE " can't be opened");
        return;
    }
    if (!find_functions(file))
        return;
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    fry_ucp.ucp_get_version(&major, &minor, &release);
    if (major != FRY_UCX_MAJOR || minor < FRY_UCX_MINOR) {
        (void)snprintf(library.text, TEXT_BYTES,
                       "no UCX: %s is of UCX %u.%u.%u, and %d.%d or a later %d is needed",
                       LIBRARY_FILE, major, minor, release, FRY_UCX_MAJOR, FRY_UCX_MINOR,
                       FRY_UCX_MAJOR);
        return;
    }
    (void)snprintf(library.text, TEXT_BYTES, "UCX %u.%u.%u", major, minor, release);
    library.minor = minor;
    library.is_here = true;
}

ferry_status fry_ucx_load(const char **text_p)
{
    (void)pthread_once(&library.once, load_library);
    *text_p = library.text;
    return library.is_here ? FERRY_OK : FERRY_E_UNSUPPORTED;
}

unsigned fry_ucx_minor(void)
{
    return library.minor;
}

bool fry_ucx_is_ours(void)
{
    return library.is_ours;
}

ferry_status fry_ucx_tell(fry_fault *fault, ferry_status status, ucs_status_t result,
                          const char *call)
{
    *fault = (fry_fault){.status = status, .rank = -1, .native_code = result, .domain = "ucx"};
    (void)snprintf(fault->message, sizeof fault->message, "%s: %s", call,
                   fry_ucp.ucs_status_string(result));
    return status;
}
