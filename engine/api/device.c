/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: finding them, and opening those of modules.
 *
 * An open device is found without a lock: the table never moves and only grows (fry_lane_attach).
 * Opening may take as long as a driver takes, so it has a mutex of its own. No callback runs under
 * this mutex, and nothing else takes it except the shutdown, when the graph is quiet and `closing`
 * keeps other openers out.
 *
 * A backend can't close a device. So a device for which there was no memory in the table is kept,
 * and the next call that names it adds it to the table.
 */
#include "engine/api/device.h"

#include "base/options.h"
#include "engine/engine.h"
#include "engine/graph/lane.h"
#include "engine/graph/turn.h"
#include "engine/ground/context.h"
#include "engine/ground/ground.h"
#include "engine/loop/late.h"
#include "engine/messages/members.h"
#include "gpu/backend.h"

#include <errno.h>
#include <time.h>

#define OPENED_MAX (FRY_DEVICES_MAX - FRY_HOST_DEVICES_MAX)
#define PARKED_STREAMS_DEFAULT 4
#define PARKED_STREAMS_MAX 64
#define STAGING_DEFAULT ((size_t)16 << 20)
#define STAGING_MIN ((size_t)64 << 10)
#define STAGING_MAX ((size_t)1 << 30)
#define STOP_LOOK_NS 1000000

/* Backends in modules; a device's name begins with its backend's. */
static const char *const backend_names[] = {"cuda"};
#define BACKENDS_MAX (sizeof backend_names / sizeof backend_names[0])

typedef struct opened_backend {
    const fry_backend_ops *ops;
    fry_backend *backend; /* NULL: none of its devices was asked for yet */
    bool is_stopped;
} opened_backend;

typedef struct opened_device {
    fry_device *device;
    ferry_device *handle;         /* NULL: there was no memory for it in the table */
    ferry_device_options options; /* in force */
} opened_device;

struct fry_backends {
    opened_backend backends[BACKENDS_MAX];
    opened_device devices[OPENED_MAX];
    size_t device_count;
};

typedef struct refusal {
    const char *text; /* static, or fault.message */
    fry_fault fault;
} refusal;

static ferry_status refuse(refusal *why, ferry_status status, const char *text)
{
    why->text = text;
    return status;
}

/* ---- names and options ---- */

static ferry_device *find_open(ferry_engine *engine, const char *name)
{
    uint32_t count = fry_engine_device_count(engine);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(engine->devices[i].device->name, name) == 0)
            return &engine->devices[i];
    }
    return NULL;
}

/* The backend that the name begins with; BACKENDS_MAX: none in a module. */
static size_t backend_of(const char *name)
{
    size_t length = strcspn(name, ":"), i = 0;
    while (i < BACKENDS_MAX &&
           (strlen(backend_names[i]) != length || strncmp(backend_names[i], name, length) != 0))
        i++;
    return i;
}

static const char *name_complaint(const char *name)
{
    if (strlen(name) >= FRY_DEVICE_NAME_BYTES)
        return "the name is longer than 31 characters";
    const char *colon = strchr(name, ':');
    if (colon == NULL || colon == name || colon[1] == '\0')
        return "a device's name is a backend, a colon and a number, like host:0";
    return NULL;
}

static const char *options_complaint(const ferry_device_options *options)
{
    if (options->completion < FERRY_COMPLETION_DEFAULT ||
        options->completion > FERRY_COMPLETION_EVENTS)
        return "completion is not a ferry_completion";
    if (options->parked_streams > PARKED_STREAMS_MAX)
        return "parked_streams is at most 64";
    if (options->staging_bytes != 0 &&
        (options->staging_bytes < STAGING_MIN || options->staging_bytes > STAGING_MAX))
        return "staging_bytes is 64 KiB to 1 GiB";
    return NULL;
}

/* A zero field accepts what an open device has. */
static bool options_agree(const ferry_device_options *wanted, const ferry_device_options *in_force)
{
    return (wanted->native_context == NULL || wanted->native_context == in_force->native_context) &&
           (wanted->completion == FERRY_COMPLETION_DEFAULT ||
            wanted->completion == in_force->completion) &&
           (wanted->parked_streams == 0 || wanted->parked_streams == in_force->parked_streams) &&
           (wanted->staging_bytes == 0 || wanted->staging_bytes == in_force->staging_bytes);
}

/* ---- opening; all of this with `opening` held ---- */

static ferry_status open_backend(ferry_engine *engine, size_t index, refusal *why)
{
    opened_backend *self = &engine->backends->backends[index];
    if (self->backend != NULL)
        return FERRY_OK;
    self->ops = fry_backend_find(backend_names[index], &why->text);
    if (self->ops == NULL || self->ops->probe(&why->text) == 0)
        return FERRY_E_NOT_FOUND;
    fry_backend_options options = {.notify = {fry_fired_wake, engine},
                                   .log = &engine->log,
                                   .clock = &engine->clock,
                                   .tracing = &engine->tracing};
    ferry_status status = self->ops->open(&engine->memory, &options, &self->backend);
    if (status == FERRY_OK)
        return FERRY_OK;
    self->backend = NULL;
    return refuse(why, status,
                  status == FERRY_E_NO_MEMORY ? "no memory for its backend"
                                              : "its backend can't be opened");
}

static ferry_status open_device(ferry_engine *engine, const char *name, size_t index,
                                const ferry_device_options *options, refusal *why)
{
    struct fry_backends *all = engine->backends;
    if (all->device_count == OPENED_MAX)
        return refuse(why, FERRY_E_AGAIN, "64 devices are open");
    const opened_backend *from = &all->backends[index];
    opened_device *opened = &all->devices[all->device_count];
    *opened = (opened_device){.options = *options};
    if (opened->options.parked_streams == 0)
        opened->options.parked_streams = PARKED_STREAMS_DEFAULT;
    if (opened->options.staging_bytes == 0)
        opened->options.staging_bytes = STAGING_DEFAULT;
    fry_device_request request = {.name = name,
                                  .native_context = options->native_context,
                                  .completion = (uint32_t)options->completion,
                                  .parked_count = opened->options.parked_streams,
                                  .staging_bytes = opened->options.staging_bytes};
    ferry_status status =
        from->ops->device_open(from->backend, &request, &opened->device, &why->fault);
    if (status != FERRY_OK)
        return refuse(why, status, why->fault.message);
    all->device_count++;
    return FERRY_OK;
}

/* Puts an opened device into the table unless it is there. Fails if its options differ. */
static ferry_status show_device(ferry_engine *engine, opened_device *opened,
                                const ferry_device_options *options, refusal *why)
{
    if (!options_agree(options, &opened->options))
        return refuse(why, FERRY_E_BUSY, "the device is open with other options");
    if (opened->handle != NULL)
        return FERRY_OK;
    ferry_status status = fry_lane_attach(engine, opened->device, &opened->handle);
    if (status == FERRY_OK)
        return FERRY_OK;
    return refuse(why, status,
                  status == FERRY_E_AGAIN ? "the engine has reached 65535 streams"
                                          : "no memory for the device's streams");
}

static opened_device *find_opened(struct fry_backends *all, const char *name)
{
    for (size_t i = 0; i < all->device_count; i++) {
        if (strcmp(all->devices[i].device->name, name) == 0)
            return &all->devices[i];
    }
    return NULL;
}

static ferry_status open_from_module(ferry_engine *engine, const char *name, size_t index,
                                     const ferry_device_options *options, ferry_device **device_p,
                                     refusal *why)
{
    if (fry_load_seq_cst(&engine->closing) != 0) /* the shutdown sets it before it takes the lock */
        return refuse(why, FERRY_E_SHUTDOWN, ferry_status_text(FERRY_E_SHUTDOWN));
    if (engine->backends == NULL) {
        struct fry_backends *made =
            fry_alloc(&engine->memory, sizeof *made, _Alignof(struct fry_backends));
        if (made == NULL)
            return refuse(why, FERRY_E_NO_MEMORY, "no memory for a table of devices");
        engine->backends = made;
    }
    opened_device *opened = find_opened(engine->backends, name);
    if (opened == NULL) {
        ferry_status status = open_backend(engine, index, why);
        if (status == FERRY_OK)
            status = open_device(engine, name, index, options, why);
        if (status != FERRY_OK)
            return status;
        opened = &engine->backends->devices[engine->backends->device_count - 1];
    }
    ferry_status status = show_device(engine, opened, options, why);
    if (status == FERRY_OK)
        *device_p = opened->handle;
    return status;
}

/* ---- finding ---- */

/* Why a name of no module's backend names nothing. */
static const char *unknown(const char *name)
{
    return strncmp(name, "host:", 5) == 0 ? "the engine has fewer host devices (host_devices)"
                                          : "ferry has no backend of that name";
}

/* options NULL: those of an open device, or else defaults. */
static ferry_status device_get(ferry_engine *engine, const char *name,
                               const ferry_device_options *options, ferry_device **device_p,
                               refusal *why)
{
    *device_p = find_open(engine, name);
    size_t index = backend_of(name);
    if (*device_p != NULL && (options == NULL || index == BACKENDS_MAX))
        return FERRY_OK;
    const char *complaint = name_complaint(name);
    if (complaint != NULL)
        return refuse(why, FERRY_E_INVALID, complaint);
    if (index == BACKENDS_MAX)
        return refuse(why, FERRY_E_NOT_FOUND, unknown(name));
    static const ferry_device_options defaults = FERRY_DEVICE_OPTIONS_INIT;
    (void)pthread_mutex_lock(&engine->opening);
    ferry_status status =
        open_from_module(engine, name, index, options != NULL ? options : &defaults, device_p, why);
    (void)pthread_mutex_unlock(&engine->opening);
    return status;
}

static const char *absence(const char *name)
{
    const char *complaint = name_complaint(name);
    if (complaint != NULL)
        return complaint;
    if (backend_of(name) != BACKENDS_MAX)
        return "it is not open: ferry_device_open";
    return unknown(name);
}

ferry_device *ferry_device_find(ferry_engine *engine, const char *name)
{
    if (fry_engine_check(engine) != FERRY_OK || name == NULL)
        return NULL;
    ferry_device *device = find_open(engine, name);
    if (device == NULL)
        fry_log_line(&engine->log, FERRY_LOG_WARNING, "there is no device \"%.64s\": %s", name,
                     absence(name));
    return device;
}

ferry_status ferry_device_open(ferry_engine *engine, const char *name,
                               const ferry_device_options *given, ferry_device **device_p,
                               ferry_error **error_p)
{
    if (error_p != NULL)
        *error_p = NULL;
    refusal why = {.fault = {.rank = -1}};
    ferry_device *device = NULL;
    ferry_device_options options;
    ferry_status status = fry_engine_check(engine);
    if (status != FERRY_OK) { /* there is no allocator to use */
        if (error_p != NULL)
            *error_p = &fry_error_static(status)->public_;
        return status;
    }
    if (name == NULL || device_p == NULL) {
        status = refuse(&why, FERRY_E_INVALID, "name or device_p is null");
    } else if (fry_is_in_callback(engine)) {
        status = refuse(&why, FERRY_E_DEADLOCK, "no device is opened in a callback");
    } else if (fry_options_read(&options, sizeof options, given) != FERRY_OK) {
        status = refuse(&why, FERRY_E_INVALID,
                        "struct_size of the device options is invalid, or unknown fields are set: "
                        "use FERRY_DEVICE_OPTIONS_INIT");
    } else if (options_complaint(&options) != NULL) {
        status = refuse(&why, FERRY_E_INVALID, options_complaint(&options));
    } else if (fry_load_relaxed(&engine->closing) != 0) {
        status = refuse(&why, FERRY_E_SHUTDOWN, ferry_status_text(FERRY_E_SHUTDOWN));
    } else {
        status = device_get(engine, name, given != NULL ? &options : NULL, &device, &why);
    }
    if (status == FERRY_OK) {
        *device_p = device;
        return FERRY_OK;
    }
    if (error_p != NULL) {
        why.fault.status = status;
        *error_p =
            &fry_error_create(&engine->memory, &why.fault, NULL, "%.*s: %s", FRY_DEVICE_NAME_BYTES,
                              name != NULL ? name : "a device", why.text)
                 ->public_;
    }
    return status;
}

size_t ferry_device_count(const ferry_engine *engine)
{
    return fry_engine_check(engine) == FERRY_OK ? fry_engine_device_count(engine) : 0;
}

ferry_device *ferry_device_at(ferry_engine *engine, size_t index)
{
    return index < ferry_device_count(engine) ? &engine->devices[index] : NULL;
}

const char *ferry_device_name(const ferry_device *device)
{
    return device != NULL ? device->device->name : "";
}

ferry_engine *ferry_device_engine(const ferry_device *device)
{
    return device != NULL ? device->engine : NULL;
}

/* ---- ending ---- */

/*
 * Another thread is opening a device: rare, but the driver may take seconds. (A loop with trylock,
 * because ThreadSanitizer does not know pthread_mutex_clocklock.)
 */
static bool lock_until(pthread_mutex_t *mutex, int64_t end_ns)
{
    const struct timespec look = {.tv_nsec = STOP_LOOK_NS};
    while (pthread_mutex_trylock(mutex) != 0) {
        if (fry_clock_monotonic_ns() >= end_ns)
            return false;
        (void)nanosleep(&look, NULL);
    }
    return true;
}

/* The graph is quiet: at most a driver has yet to report, or it never will. */
static bool stop_backend(opened_backend *self, int64_t end_ns)
{
    const struct timespec look = {.tv_nsec = STOP_LOOK_NS};
    while (!self->is_stopped) {
        self->is_stopped = self->ops->stop(self->backend) == FERRY_OK;
        if (!self->is_stopped && fry_clock_monotonic_ns() >= end_ns)
            return false;
        if (!self->is_stopped)
            (void)nanosleep(&look, NULL);
    }
    return true;
}

/*
 * Once this has had the lock, nobody opens a device any more (open_from_module), so no lock is
 * needed.
 */
bool fry_backends_stop(ferry_engine *engine, int64_t end_ns)
{
    if (!lock_until(&engine->opening, end_ns)) {
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "shutdown timed out: a device is still being opened");
        return false;
    }
    (void)pthread_mutex_unlock(&engine->opening);
    struct fry_backends *all = engine->backends;
    bool are_stopped = true;
    for (size_t i = 0; all != NULL && i < BACKENDS_MAX; i++) {
        if (all->backends[i].backend == NULL || stop_backend(&all->backends[i], end_ns))
            continue;
        are_stopped = false;
        fry_log_line(&engine->log, FERRY_LOG_ERROR,
                     "shutdown timed out: the devices of %s are not quiet", backend_names[i]);
    }
    return are_stopped;
}

void fry_backends_destroy(ferry_engine *engine)
{
    struct fry_backends *all = engine->backends;
    if (all == NULL)
        return;
    for (size_t i = 0; i < BACKENDS_MAX; i++) {
        if (all->backends[i].backend != NULL)
            all->backends[i].ops->destroy(all->backends[i].backend);
    }
    fry_free(&engine->memory, all, sizeof *all);
}

/* ---- what devices tell ---- */

/*
 * On a host worker or a backend's thread. The thread does the graph's work itself if the baton is
 * free: the future resolves and the operations behind it are issued without waking the loop, which
 * would be a thread switch on a core that has copies to do. In embedded mode nothing moves except
 * in the user's calls, so the thread only wakes.
 */
void fry_fired_wake(void *arg)
{
    ferry_engine *engine = arg;
    fry_context *context = engine->embedded ? NULL : fry_context_get(engine);
    fry_turn turn;
    if (context != NULL && fry_turn_begin(&turn, engine, context, false)) {
        (void)fry_lanes_poll(&turn);
        turn.wake |= fry_members_have_closed(engine);
        (void)fry_turn_end(&turn, engine->submit_budget);
    } else {
        fry_fence(); /* pairs with the fence in fry_arm */
        fry_wake(engine);
    }
    fry_late_call_ends(engine);
}
