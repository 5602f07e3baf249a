/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open group: a server stays, workers come, do their share and leave, and the server hears of
 * each. Here all of them are in this process, each with an engine of its own.
 */
#include <ferry/ferry.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 3, WORKERS = 4 };

typedef struct worker {
    int share;
    bool is_right;
    pthread_t thread;
} worker;

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

static bool join(ferry_engine **engine_p, ferry_group **group_p)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:open-group";
    options.job = "open-group";
    options.kind = FERRY_GROUP_OPEN;
    options.size = MOST; /* at most; a worker gets any rank that is free */
    return ferry_engine_create(NULL, engine_p, NULL) == FERRY_OK &&
           end(ferry_group_join(*engine_p, &options, group_p)) == FERRY_OK;
}

/* A worker tells the server, which has rank 0, what it has worked out, and leaves. */
static void *work(void *arg)
{
    worker *self = arg;
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    self->is_right =
        join(&engine, &group) &&
        end(ferry_notice_send(group, 0, &self->share, sizeof self->share, NULL)) == FERRY_OK &&
        end(ferry_group_leave(group)) == FERRY_OK;
    ferry_group_release(group);
    ferry_engine_release(engine);
    return NULL;
}

/* Takes what a worker tells. */
static int take_share(ferry_group *group)
{
    ferry_future *next = ferry_notice_next(group, 0);
    ferry_value value = FERRY_VALUE_INIT;
    int share = 0;
    if (ferry_future_wait(next, -1) == FERRY_OK && ferry_future_value(next, &value) == FERRY_OK)
        memcpy(&share, value.data, sizeof share);
    ferry_future_release(next);
    return share;
}

/* What the server hears next of its workers. */
static bool hear(ferry_group *group, ferry_member_state expected)
{
    ferry_future *next = ferry_group_event_next(group, 0);
    ferry_value value = FERRY_VALUE_INIT;
    bool is_heard =
        ferry_future_wait(next, -1) == FERRY_OK && ferry_future_value(next, &value) == FERRY_OK;
    if (is_heard) {
        const ferry_group_event *event = value.data;
        printf("event %llu: rank %u has %s\n", (unsigned long long)value.version, event->rank,
               event->what == FERRY_MEMBER_HERE   ? "joined"
               : event->what == FERRY_MEMBER_LEFT ? "left"
                                                  : "died");
        is_heard = event->what == expected && event->lost == 0;
    }
    ferry_future_release(next);
    return is_heard;
}

/* More workers come in turn than there are ranks: each leaves its rank to the next. */
static bool serve(ferry_group *group)
{
    int sum = 0;
    bool is_right = true;
    for (int share = 1; is_right && share <= WORKERS; share++) {
        worker next = {.share = share};
        if (pthread_create(&next.thread, NULL, work, &next) != 0)
            return false;
        is_right = hear(group, FERRY_MEMBER_HERE);
        sum += take_share(group);
        is_right = hear(group, FERRY_MEMBER_LEFT) && is_right;
        pthread_join(next.thread, NULL);
        is_right = is_right && next.is_right;
    }
    return is_right && sum == WORKERS * (WORKERS + 1) / 2;
}

int main(void)
{
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    bool is_right = join(&engine, &group) && serve(group);
    ferry_group_release(group);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}
