/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds modules, and opens each once a process.
 *
 * A module's state is one word that only moves forward. From MODULE_HERE on it is read without the
 * lock; text and operations are written before it (release) and never again. A fork's child has
 * neither the module's threads nor the driver's state, and may find the lock taken. So in a child a
 * module that the parent opened or was opening is refused for good; one that the parent had not
 * asked for can be opened.
 */
#include "base/module.h"

#include "base/futex.h"
#include "base/lf.h"

#include <dlfcn.h>
#include <errno.h>
#include <ferry/version.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 1024
#define REASON_BYTES (2 * PATH_BYTES + 256) /* room for both paths */

enum module_state {
    MODULE_UNASKED = 0, /* nobody has asked for it */
    MODULE_OPENING,     /* a thread opens it, with the lock */
    MODULE_HERE,        /* `ops` are set */
    MODULE_ABSENT,      /* `reason` says why */
    MODULE_FORKED,      /* a parent process has it */
};

typedef struct module {
    const char *name;
    uint32_t state; /* module_state */
    const fry_module_ops *ops;
    char reason[REASON_BYTES];
} module;

/* All modules: a name from outside never becomes a path. */
static module modules[] = {{.name = "cuda"}, {.name = "nccl"}};
#define MODULE_COUNT (sizeof modules / sizeof modules[0])

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one module is opened at a time */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    for (size_t i = 0; i < MODULE_COUNT; i++) {
        if (modules[i].state == MODULE_OPENING || modules[i].state == MODULE_HERE)
            modules[i].state = MODULE_FORKED;
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked_in_child);
}

/* ---- where it may be ---- */

static bool path_is_there(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* The file in FERRY_MODULE_PATH; "": not set, or too long a path. */
static void path_from_environment(char path[PATH_BYTES], const char *name)
{
    const char *folder = fry_environment(FRY_ENV_FERRY_MODULE_PATH);
    path[0] = '\0';
    if (folder != NULL && snprintf(path, PATH_BYTES, "%s/ferry_%s.so", folder, name) >= PATH_BYTES)
        path[0] = '\0';
}

/* The file in the folder `ferry` beside the library; "": the loader can't tell. */
static void path_beside_library(char path[PATH_BYTES], const char *name)
{
    Dl_info library;
    path[0] = '\0';
    if (dladdr((void *)(uintptr_t)fry_module_find, &library) == 0 || library.dli_fname == NULL)
        return;
    const char *slash = strrchr(library.dli_fname, '/');
    if (slash == NULL)
        return;
    int folder_length = (int)(slash - library.dli_fname);
    if (snprintf(path, PATH_BYTES, "%.*s/ferry/ferry_%s.so", folder_length, library.dli_fname,
                 name) >= PATH_BYTES)
        path[0] = '\0';
}

/* ---- opening ---- */

static fry_module_thread *find_thread(void)
{
    static _Thread_local fry_module_thread thread;
    return &thread;
}

static fry_module_host host = {
    .version = FRY_MODULE_VERSION,
    .size_bytes = sizeof host,
    .alloc = fry_alloc,
    .alloc_raw = fry_alloc_raw,
    .free = fry_free,
    .log_line = fry_log_line,
    .clock_now_ns = fry_clock_now_ns,
    .clock_monotonic_ns = fry_clock_monotonic_ns,
    .environment = fry_environment,
    .futex_wait = fry_futex_wait,
    .futex_wake = fry_futex_wake,
    .thread = find_thread,
};

static void __attribute__((format(printf, 2, 3))) explain(module *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(self->reason, sizeof self->reason, format, arguments);
    va_end(arguments);
}

/* A file that can't be used stays loaded: it may have started something. */
static const fry_module_ops *module_load(module *self, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        const char *why = dlerror();
        explain(self, "the module can't be loaded: %s", why != NULL ? why : path);
        return NULL;
    }
    void *symbol = dlsym(handle, FRY_MODULE_ENTRY);
    if (symbol == NULL) {
        explain(self, "%s is not a module of ferry", path);
        return NULL;
    }
    fry_module_entry_fn entry;
    _Static_assert(sizeof entry == sizeof symbol, "POSIX: functions' addresses are dlsym's");
    memcpy(&entry, &symbol, sizeof entry);
    const char *why = NULL;
    host.build = ferry_version();
    const fry_module_ops *ops = entry(&host, &why);
    if (ops == NULL) {
        explain(self, "%s: %s", path, why != NULL ? why : "it refuses this library");
        return NULL;
    }
    if (strcmp(ops->name, self->name) != 0) {
        explain(self, "%s is the module of \"%.32s\"", path, ops->name);
        return NULL;
    }
    return ops;
}

/* Takes the first file there is, even if it can't be used: another than meant would be worse. */
static const fry_module_ops *module_open(module *self)
{
    char wanted[PATH_BYTES], own[PATH_BYTES];
    path_from_environment(wanted, self->name);
    path_beside_library(own, self->name);
    if (wanted[0] != '\0' && path_is_there(wanted))
        return module_load(self, wanted);
    if (own[0] != '\0' && path_is_there(own))
        return module_load(self, own);
    const char *beside = own[0] != '\0' ? own : "a folder ferry beside the library";
    if (wanted[0] != '\0')
        explain(self, "no module: neither %s nor %s is there", wanted, beside);
    else
        explain(self, "no module: %s is not there", beside);
    return NULL;
}

/* ---- asking for it ---- */

static const fry_module_ops *module_answer(const module *self, const char **reason)
{
    switch ((enum module_state)fry_load_acquire(&self->state)) { /* pairs with the store below */
    case MODULE_HERE:
        return self->ops;
    case MODULE_FORKED:
        *reason = "the parent process uses the module, and a child can't share its driver";
        return NULL;
    default:
        *reason = self->reason;
        return NULL;
    }
}

const fry_module_ops *fry_module_find(const char *name, const char **reason)
{
    const char *unread;
    if (reason == NULL)
        reason = &unread;
    module *self = NULL;
    for (size_t i = 0; i < MODULE_COUNT; i++) {
        if (strcmp(modules[i].name, name) == 0)
            self = &modules[i];
    }
    if (self == NULL) {
        *reason = "ferry has no such module";
        return NULL;
    }
    if (fry_load_acquire(&self->state) >= MODULE_HERE)
        return module_answer(self, reason);
    (void)pthread_once(&fork_once, watch_forks);
    (void)pthread_mutex_lock(&lock);
    if (fry_load_relaxed(&self->state) == MODULE_UNASKED) {
        fry_store_relaxed(&self->state, MODULE_OPENING);
        self->ops = module_open(self);
        fry_store_release(&self->state, self->ops != NULL ? MODULE_HERE : MODULE_ABSENT);
    }
    (void)pthread_mutex_unlock(&lock);
    return module_answer(self, reason);
}
