/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member dies, and the others go on. Three processes wait for each other's messages; one is
 * killed. The others hear which rank died, agree on who is left (a view, whose version is their
 * epoch), and exchange messages among these. Nobody hangs, and nobody goes on with another view
 * than the rest.
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <ferry/ferry.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 3, VICTIM = 2 };

static ferry_status end(ferry_future *future)
{
    ferry_status status = ferry_future_wait(future, -1);
    ferry_future_release(future);
    return status;
}

/* A future that waits for the victim, and the rank that its failure names. */
static bool hears_of_death(ferry_group *group, ferry_span span)
{
    ferry_future *received = ferry_recv(group, VICTIM, 0, span, NULL);
    bool is_dead = ferry_future_wait(received, -1) == FERRY_E_DEAD &&
                   ferry_future_error(received)->rank == VICTIM;
    ferry_future_release(received);
    return is_dead;
}

/* All that are left call this, and get the same ranks. */
static size_t agree_on_view(ferry_group *group, ferry_rank ranks[MEMBERS], uint64_t *epoch)
{
    ferry_value view = FERRY_VALUE_INIT;
    ferry_future *alive = ferry_group_alive(group, 0);
    size_t count = 0;
    if (ferry_future_wait(alive, -1) == FERRY_OK && ferry_future_value(alive, &view) == FERRY_OK) {
        for (count = 0; count < view.size_bytes / sizeof(ferry_rank); count++)
            ranks[count] = ((const ferry_rank *)view.data)[count];
        *epoch = view.version;
    }
    ferry_future_release(alive);
    return count;
}

/* Sends to the next member of the view, and receives from the one before. */
static bool exchange(ferry_engine *engine, ferry_group *group, ferry_buffer *buffer)
{
    ferry_rank ranks[MEMBERS], self = ferry_group_rank(group);
    uint64_t epoch = 0;
    size_t count = agree_on_view(group, ranks, &epoch), at = 0;
    while (at < count && ranks[at] != self)
        at++;
    if (count != MEMBERS - 1 || at == count)
        return false;
    ferry_span mine = ferry_span_slice(ferry_buffer_span(buffer), 0, sizeof(ferry_rank));
    ferry_span theirs = ferry_span_slice(ferry_buffer_span(buffer), 64, sizeof(ferry_rank));
    *(ferry_rank *)ferry_buffer_data(buffer) = self;
    ferry_buffer_define(mine, NULL);
    ferry_rank before = ranks[(at + count - 1) % count];
    ferry_future_release(ferry_send(group, ranks[(at + 1) % count], epoch, mine, NULL));
    ferry_status status = end(ferry_recv(group, before, epoch, theirs, NULL));
    (void)engine;
    printf("rank %u: epoch %llu has %zu members\n", self, (unsigned long long)epoch, count);
    return status == FERRY_OK && *((ferry_rank *)ferry_buffer_data(buffer) + 16) == before;
}

static int run_member(const char *store, ferry_rank rank)
{
    ferry_engine *engine = NULL;
    ferry_group *group = NULL;
    ferry_buffer *buffer = NULL;
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = store;
    options.job = "dead-peer";
    options.size = MEMBERS;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(engine, 0), 4096, &buffer) != FERRY_OK ||
        end(ferry_group_join(engine, &options, &group)) != FERRY_OK)
        return 1;
    if (rank == VICTIM)
        raise(SIGKILL);
    bool is_right =
        hears_of_death(group, ferry_buffer_span(buffer)) && exchange(engine, group, buffer);
    is_right = end(ferry_group_leave(group)) == FERRY_OK && is_right;
    ferry_group_release(group);
    ferry_buffer_release(buffer);
    ferry_engine_release(engine);
    return is_right ? 0 : 1;
}

int main(void)
{
    char folder[] = "/tmp/dead-peer-XXXXXX", text[64];
    int right = 0;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(text, sizeof text, "file:%s/store", folder);
    for (ferry_rank rank = 0; rank < MEMBERS; rank++)
        if (fork() == 0)
            exit(run_member(text, rank)); /* a child makes its own engine */
    for (int i = 0; i < MEMBERS; i++) {
        int status = 0;
        wait(&status);
        right += WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : status == 0;
    }
    snprintf(text, sizeof text, "rm -r %s", folder);
    return system(text) == 0 && right == MEMBERS ? 0 : 1;
}
