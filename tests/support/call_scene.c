/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check.h"
#include "tests/support/effort.h"
#include "tests/support/every_call.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scenes ---- */

static void keep_task(ferry_executor *executor, ferry_task *task)
{
    call_scene *self = executor->arg;
    (void)pthread_mutex_lock(&self->lock);
    MUST(self->task_count < CALL_TASKS);
    self->tasks[self->task_count++] = task;
    (void)pthread_mutex_unlock(&self->lock);
}

ferry_task *call_scene_take_task(call_scene *self)
{
    (void)pthread_mutex_lock(&self->lock);
    ferry_task *task = self->task_count > 0 ? self->tasks[--self->task_count] : NULL;
    (void)pthread_mutex_unlock(&self->lock);
    return task;
}

static ferry_status do_nothing(void *arg)
{
    (void)arg;
    return FERRY_OK;
}

static bool join_group(call_scene *self)
{
    static atomic_uint jobs;
    char job[32];
    (void)snprintf(job, sizeof job, "job-%u", atomic_fetch_add(&jobs, 1));
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:every_call";
    options.job = job;
    options.size = 1;
    options.unexpected_max = UNEXPECTED_FEW;
    options.lease_ns = 100000000000; /* nobody is dead for want of a core */
    options.any_source_max = self->loop == FERRY_LOOP_EMBEDDED ? 8 : 0;
    ferry_future *joined = ferry_group_join(self->engine, &options, &self->group);
    ferry_status status = ferry_future_wait(joined, -1);
    ferry_future_release(joined);
    return status == FERRY_OK;
}

bool call_scene_open(call_scene *self, const ferry_engine_options *options, bool with_group)
{
    *self = (call_scene){
        .loop = options->loop,
        .executor = {.struct_size = sizeof self->executor, .post = keep_task, .arg = self}};
    (void)pthread_mutex_init(&self->lock, NULL);
    if (ferry_engine_create(options, &self->engine, NULL) != FERRY_OK)
        return false;
    self->device = ferry_device_at(self->engine, 0);
    if (ferry_promise_create(self->engine, &self->holder) != FERRY_OK)
        return false;
    int ignored;
    if (ferry_queue_create(self->engine, 4, &self->queue, &ignored) != FERRY_OK ||
        ferry_scope_create(self->engine, NULL, &self->scope) != FERRY_OK)
        return false;
    ferry_future *held = ferry_promise_future(self->holder);
    ferry_op_options after = FERRY_OP_OPTIONS_INIT;
    after.after = &held;
    after.after_count = 1;
    self->pending = ferry_nop(self->engine, &after);
    self->done = ferry_nop(self->engine, NULL);
    self->failed = ferry_nop(self->engine, &after);
    (void)ferry_future_cancel(self->failed);
    ferry_future_release(held);
    for (int i = 0; i < CALL_STOCK; i++)
        ferry_future_release(ferry_call(self->engine, &self->executor, do_nothing, NULL, NULL));
    return ferry_future_wait(self->done, -1) == FERRY_OK &&
           ferry_future_wait(self->failed, -1) == FERRY_E_CANCELLED &&
           (!with_group || join_group(self));
}

void call_scene_close(call_scene *self)
{
    ferry_task *task;
    while ((task = call_scene_take_task(self)) != NULL)
        ferry_task_run(task);
    ferry_group_release(self->group);
    ferry_promise_release(self->holder);
    ferry_queue_release(self->queue);
    ferry_scope_release(self->scope);
    ferry_future_release(self->done);
    ferry_future_release(self->failed);
    ferry_future_release(self->pending);
    (void)pthread_mutex_destroy(&self->lock);
}

bool caller_open(caller *self, call_scene *scene)
{
    *self = (caller){.scene = scene};
    bool is_open = ferry_buffer_alloc(scene->device, CALL_BUFFER_BYTES, &self->buffer) == FERRY_OK;
    for (size_t i = 0; is_open && i < CALL_STOCK; i++) {
        is_open = ferry_buffer_alloc(scene->device, 64, &self->buffers[i]) == FERRY_OK &&
                  ferry_promise_create(scene->engine, &self->promises[i]) == FERRY_OK;
        if (is_open)
            self->futures[i] = ferry_promise_future(self->promises[i]);
    }
    return is_open;
}

void caller_close(caller *self)
{
    ferry_buffer_release(self->buffer);
    for (size_t i = 0; i < CALL_STOCK; i++) {
        ferry_buffer_release(self->buffers[i]);
        ferry_promise_release(self->promises[i]);
        ferry_future_release(self->futures[i]);
    }
}

/* ---- whether the table is whole ---- */

static bool has_row(const char *name, size_t length)
{
    for (size_t i = 0; i < every_call_count; i++) {
        if (strlen(every_calls[i].name) == length &&
            strncmp(every_calls[i].name, name, length) == 0)
            return true;
    }
    return false;
}

/* Of a prototype that begins there: its function's name. */
static const char *function_of(const char *prototype, size_t *length_p)
{
    const char *open = strchr(prototype, '(');
    const char *name = open;
    while (name > prototype && (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z')))
        name--;
    *length_p = (size_t)(open - name);
    return name;
}

static const char *header_lacks(const char *path, size_t *count_p)
{
    static char text[1 << 16], lacking[128];
    FILE *file = fopen(path, "r");
    MUST(file != NULL);
    size_t size_bytes = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    MUST(size_bytes < sizeof text - 1);
    text[size_bytes] = '\0';
    for (const char *at = text; (at = strstr(at, "\nFERRY_API")) != NULL; at++) {
        size_t length;
        const char *name = function_of(at, &length);
        (*count_p)++;
        if (!has_row(name, length)) {
            (void)snprintf(lacking, sizeof lacking, "%.*s", (int)length, name);
            return lacking;
        }
    }
    return NULL;
}

const char *every_call_lacks(const char *include_dir)
{
    char folder[1024], path[2048];
    (void)snprintf(folder, sizeof folder, "%s/ferry", include_dir);
    DIR *headers = opendir(folder);
    MUST(headers != NULL);
    const char *lacking = NULL;
    size_t count = 0;
    for (struct dirent *entry; lacking == NULL && (entry = readdir(headers)) != NULL;) {
        if (strstr(entry->d_name, ".h") == NULL)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        lacking = header_lacks(path, &count);
    }
    (void)closedir(headers);
    return lacking == NULL && count != every_call_count ? "a row without a function" : lacking;
}
