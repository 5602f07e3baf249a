/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry in a GLib main loop, as a program with GTK or GStreamer has it: a GSource of its own. GLib
 * asks it before each sleep (prepare), which arms ferry, and after it (check), and lets it make
 * progress (dispatch). A time-out starts transfers; when all have ended, the loop rests for a
 * while, in which the source must not be called.
 */
#include <ferry/ferry.h>
#include <glib.h>
#include <stdio.h>

enum { TRANSFERS = 10, PERIOD_MS = 2, REST_MS = 200, SIZE_BYTES = 100000 };

typedef struct ferry_source {
    GSource source; /* first: GLib's */
    ferry_engine *engine;
    gpointer descriptor;
    unsigned dispatches;
} ferry_source;

typedef struct program {
    GMainLoop *loop;
    ferry_engine *engine;
    ferry_source *source;
    ferry_buffer *from, *to;
    ferry_waiter waiters[TRANSFERS];
    unsigned started, ended, right, at_rest;
} program;

/* TRUE: there is something to do, so GLib does not sleep. Else ferry is armed. */
static gboolean prepare(GSource *source, gint *timeout_ms)
{
    *timeout_ms = -1;
    return ferry_engine_arm(((ferry_source *)source)->engine) == FERRY_E_BUSY;
}

static gboolean check(GSource *source)
{
    return g_source_query_unix_fd(source, ((ferry_source *)source)->descriptor) != 0;
}

/* One round of ferry in each round of GLib, so that neither starves the other. */
static gboolean dispatch(GSource *source, GSourceFunc unused, gpointer data)
{
    ferry_source *self = (ferry_source *)source;
    (void)unused, (void)data;
    self->dispatches++;
    ferry_engine_progress(self->engine, 0);
    return G_SOURCE_CONTINUE;
}

static gboolean end_rest(gpointer arg)
{
    program *self = arg;
    self->at_rest = self->source->dispatches - self->at_rest;
    g_main_loop_quit(self->loop);
    return G_SOURCE_REMOVE;
}

/* Within a dispatch, which is not the rest's. */
static void finish(ferry_waiter *waiter, ferry_future *future, ferry_status status)
{
    (void)future;
    program *self = waiter->arg;
    self->right += status == FERRY_OK;
    printf("%u: %s\n", ++self->ended, ferry_status_name(status));
}

/* Starts a transfer; when all have ended, and ferry has gone to sleep, the rest begins. */
static gboolean tick(gpointer arg)
{
    program *self = arg;
    if (self->started == TRANSFERS) {
        if (self->ended < TRANSFERS || ferry_engine_arm(self->engine) != FERRY_OK)
            return G_SOURCE_CONTINUE;
        self->at_rest = self->source->dispatches;
        g_timeout_add(REST_MS, end_rest, self);
        return G_SOURCE_REMOVE;
    }
    ferry_future *copy =
        ferry_copy(self->engine, ferry_buffer_span(self->to), ferry_buffer_span(self->from), NULL);
    ferry_waiter *waiter = &self->waiters[self->started++];
    *waiter = (ferry_waiter)FERRY_WAITER_INIT(finish, self);
    ferry_future_on_ready(copy, waiter);
    ferry_future_release(copy);
    return G_SOURCE_CONTINUE;
}

int main(void)
{
    static GSourceFuncs functions = {.prepare = prepare, .check = check, .dispatch = dispatch};
    static program self;
    ferry_engine_options options = {sizeof options, .loop = FERRY_LOOP_EMBEDDED};
    if (ferry_engine_create(&options, &self.engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(self.engine, 0), SIZE_BYTES, &self.from) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(self.engine, 1), SIZE_BYTES, &self.to) != FERRY_OK)
        return 1;

    GSource *source = g_source_new(&functions, sizeof(ferry_source));
    self.source = (ferry_source *)source;
    self.source->engine = self.engine;
    self.source->descriptor = g_source_add_unix_fd(source, ferry_engine_fd(self.engine), G_IO_IN);
    g_source_attach(source, NULL);
    self.loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(PERIOD_MS, tick, &self);
    g_main_loop_run(self.loop);

    g_main_loop_unref(self.loop);
    g_source_destroy(source);
    g_source_unref(source);
    ferry_buffer_release(self.from);
    ferry_buffer_release(self.to);
    ferry_engine_release(self.engine);
    printf("%u of %d transfers are right; at rest ferry was called %u times\n", self.right,
           TRANSFERS, self.at_rest);
    return self.right == TRANSFERS && self.at_rest == 0 ? 0 : 1;
}
