/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/scene.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct property {
    scene_kind kind;
    void *thing; /* NULL: it was released */
    char name[SCENE_NAME_BYTES];
} property;

typedef enum scene_stage {
    SCENE_EMPTY,
    SCENE_PLANNED, /* options are there */
    SCENE_OPEN,    /* the engine is */
    SCENE_LEFT,    /* it is gone */
} scene_stage;

enum { WARNINGS = 64, WARNING_BYTES = 512 };

static struct {
    pthread_mutex_t mutex;
    char lines[WARNINGS][WARNING_BYTES]; /* a ring */
    char last[WARNING_BYTES];            /* of any level */
    int count;
} said = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct {
    scene_stage stage;
    test_engine te;
    ferry_engine_options options;
    manual_executor executor;
    _Atomic int calls;
    property *properties;
    size_t count, room;
} self;

/* ---- what the engine says ---- */

static void hear(void *arg, ferry_log_level level, const char *line)
{
    (void)pthread_mutex_lock(&said.mutex);
    (void)snprintf(said.last, WARNING_BYTES, "%s", line);
    if (level <= FERRY_LOG_WARNING)
        (void)snprintf(said.lines[said.count++ % WARNINGS], WARNING_BYTES, "%s", line);
    (void)pthread_mutex_unlock(&said.mutex);
    test_log(arg, level, line);
}

int scene_warnings(void)
{
    (void)pthread_mutex_lock(&said.mutex);
    int count = said.count;
    (void)pthread_mutex_unlock(&said.mutex);
    return count;
}

const char *scene_warning(int at)
{
    int count = scene_warnings(), index = at < 0 ? count + at : at;
    cr_assert(at < count && index >= count - WARNINGS, "line %d of %d", at, count);
    return index < 0 ? "" : said.lines[index % WARNINGS];
}

const char *scene_last_line(void)
{
    return said.last;
}

/* ---- the engine ---- */

ferry_engine_options *scene_options(ferry_loop_mode loop)
{
    cr_assert_eq(self.stage, SCENE_EMPTY, "the scene has begun");
    self.options = test_engine_options(&self.te, loop);
    self.options.log = hear;
    said.count = 0;
    manual_executor_init(&self.executor);
    atomic_store(&self.calls, 0);
    self.stage = SCENE_PLANNED;
    return &self.options;
}

void scene_begin(ferry_loop_mode loop)
{
    (void)scene_options(loop);
    (void)scene();
}

test_engine *scene(void)
{
    if (self.stage == SCENE_EMPTY)
        (void)scene_options(FERRY_LOOP_EMBEDDED);
    if (self.stage == SCENE_PLANNED) {
        self.stage = SCENE_OPEN;
        test_engine_create(&self.te, &self.options);
    }
    return &self.te;
}

ferry_engine *engine(void)
{
    return scene()->engine;
}

void scene_settle(void)
{
    (void)scene();
    if (self.stage == SCENE_OPEN && self.options.loop == FERRY_LOOP_EMBEDDED)
        settle(&self.te);
}

bool scene_is_readable(void)
{
    struct pollfd fd = {.fd = ferry_engine_fd(engine()), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

void scene_leave(void)
{
    ASSERT_STATUS(ferry_engine_shutdown(self.te.engine, -1), FERRY_OK);
    scene_drop();
}

void scene_drop(void)
{
    cr_assert_eq(self.stage, SCENE_OPEN);
    ferry_engine_release(self.te.engine);
    self.stage = SCENE_LEFT;
}

static void give_back(property *owned)
{
    if (owned->kind == SCENE_FUTURE)
        ferry_future_release(owned->thing);
    if (owned->kind == SCENE_BUFFER)
        ferry_buffer_release(owned->thing);
    if (owned->kind == SCENE_PROMISE)
        ferry_promise_release(owned->thing);
    if (owned->kind == SCENE_WAITER)
        free(owned->thing);
    owned->thing = NULL;
}

static void give_all_back(scene_kind kind)
{
    for (size_t i = 0; i < self.count; i++) {
        if (self.properties[i].kind == kind)
            give_back(&self.properties[i]);
    }
}

void scene_end(void)
{
    if (suite_has_failed())
        return;
    give_all_back(SCENE_PROMISE); /* what waits for them ends */
    if (self.stage == SCENE_OPEN)
        scene_settle();
    give_all_back(SCENE_FUTURE);
    give_all_back(SCENE_BUFFER);
    if (self.stage == SCENE_OPEN)
        scene_leave();
    give_all_back(SCENE_WAITER);
    if (self.stage == SCENE_LEFT)
        cr_assert_eq(failing_allocator_live_bytes(&self.te.memory), 0, "%lld bytes are left",
                     (long long)failing_allocator_live_bytes(&self.te.memory));
    free(self.properties);
    self.properties = NULL;
    self.count = self.room = 0;
    self.stage = SCENE_EMPTY;
}

/* ---- what the scene owns ---- */

/* What has no name is not found. */
static property *find(const char *name)
{
    for (size_t i = *name != '\0' ? self.count : 0; i > 0; i--) {
        property *owned = &self.properties[i - 1];
        if (owned->thing != NULL && strcmp(owned->name, name) == 0)
            return owned;
    }
    return NULL;
}

static void add(scene_kind kind, void *thing, const char *name)
{
    if (self.count == self.room) {
        self.room = self.room == 0 ? 64 : 2 * self.room;
        self.properties = realloc(self.properties, self.room * sizeof *self.properties);
        cr_assert_not_null(self.properties);
    }
    property *owned = &self.properties[self.count++];
    *owned = (property){.kind = kind, .thing = thing};
    (void)snprintf(owned->name, sizeof owned->name, "%s", name);
}

bool scene_own_as(scene_kind kind, void *thing, const char *name)
{
    bool is_free =
        strlen(name) < SCENE_NAME_BYTES && (strcmp(name, "it") == 0 || find(name) == NULL);
    add(kind, thing, is_free ? name : "");
    return is_free;
}

ferry_future *scene_own_future(ferry_future *future)
{
    add(SCENE_FUTURE, future, "");
    return future;
}

ferry_buffer *scene_own_buffer(ferry_buffer *buffer)
{
    add(SCENE_BUFFER, buffer, "");
    return buffer;
}

ferry_promise *scene_own_promise(ferry_promise *promise)
{
    add(SCENE_PROMISE, promise, "");
    return promise;
}

counted_waiter *on_ready(ferry_future *future, ferry_executor *executor)
{
    counted_waiter *waiter = malloc(sizeof *waiter);
    cr_assert_not_null(waiter);
    counted_waiter_init(waiter, executor);
    add(SCENE_WAITER, waiter, "");
    ASSERT_STATUS(ferry_future_on_ready(future, &waiter->waiter), FERRY_OK);
    return waiter;
}

void *scene_find(scene_kind kind, const char *name)
{
    property *owned = find(name);
    return owned != NULL && owned->kind == kind ? owned->thing : NULL;
}

bool scene_release(const char *name)
{
    property *owned = find(name);
    if (owned == NULL)
        return false;
    give_back(owned);
    while (self.count > 0 && self.properties[self.count - 1].thing == NULL)
        self.count--;
    return true;
}

void *scene_get(scene_kind kind, const char *format, ...)
{
    char name[SCENE_NAME_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    void *thing = scene_find(kind, name);
    if (thing == NULL && kind == SCENE_FUTURE && scene_find(SCENE_PROMISE, name) != NULL)
        thing = scene_own_future(ferry_promise_future(scene_find(SCENE_PROMISE, name)));
    cr_assert_not_null(thing, "the scene has no %s", name);
    return thing;
}

/* ---- all there is room for ---- */

size_t take_all_nodes(void)
{
    ferry_promise *promise = NULL;
    ferry_status status;
    size_t count = 0;
    while ((status = ferry_promise_create(engine(), &promise)) == FERRY_OK) {
        add(SCENE_PROMISE, promise, "a node");
        count++;
    }
    ASSERT_STATUS(status, FERRY_E_AGAIN);
    return count;
}

void give_node(void)
{
    cr_assert(scene_release("a node"), "no node is left");
}

void give_all_nodes(void)
{
    while (scene_release("a node"))
        continue;
    scene_settle();
}

/* ---- functions and looks ---- */

manual_executor *by_hand(void)
{
    if (self.stage == SCENE_EMPTY)
        manual_executor_init(&self.executor);
    return &self.executor;
}

void wait_posted(size_t count)
{
    scene_settle();
    while (atomic_load(&self.executor.posted) < count) {
        scene_settle();
        (void)sched_yield();
    }
}

void run_posted(void)
{
    while (manual_waiting(&self.executor) != 0)
        manual_run_one(&self.executor);
}

_Atomic int *scene_calls(void)
{
    return &self.calls;
}

ferry_status scene_status_now(ferry_future *future, ferry_status expected)
{
    ferry_status status = ferry_future_poll(future);
    while (status == FERRY_PENDING && expected != FERRY_PENDING && test_devices_settle())
        status = ferry_future_wait(future, 1);
    return status;
}

ferry_status scene_status(ferry_future *future, ferry_status expected)
{
    scene_settle();
    if (self.stage == SCENE_OPEN && self.options.loop != FERRY_LOOP_EMBEDDED &&
        expected != FERRY_PENDING)
        return ferry_future_wait(future, -1);
    return scene_status_now(future, expected);
}
