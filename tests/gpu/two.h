/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two members in two processes of one host: the program starts itself once more for each test, and
 * both do the same steps, each as its rank.
 */
#ifndef FERRY_TESTS_GPU_TWO_H
#define FERRY_TESTS_GPU_TWO_H

#include "tests/gpu/members.h"
#include "tests/support/temporary_folder.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef struct scene {
    member own;
    int rank;
    pid_t other; /* of who started the other process; there 0 */
} scene;

typedef struct two_test {
    const char *name;
    void (*fn)(scene *);
    bool ends; /* one of the two, for the other */
} two_test;

static const char *program_path, *test_name;
static int64_t lease_ns; /* long, but where a member is to count as dead */
static char folder[TEMPORARY_FOLDER_BYTES];
static ferry_gpu_way gpu_way; /* that the next one to join allows */

/* A test that fails leaves nobody behind, also who is stopped. */
static inline void end_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static inline pid_t start_other(int rank)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", rank);
    pid_t child = fork();
    if (child == 0) {
        end_with_parent();
        (void)execl(program_path, program_path, test_name, folder, text, (char *)NULL);
        _exit(127);
    }
    CHECK(child > 0);
    return child;
}

static inline void join(scene *self)
{
    char store[TEMPORARY_FOLDER_BYTES + 16];
    ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    (void)snprintf(store, sizeof store, "file:%s/store", folder);
    group.store = store;
    group.job = "job";
    group.size = 2;
    group.rank = (ferry_rank)self->rank;
    group.has_rank = true;
    group.lease_ns = lease_ns;
    group.unexpected_max = UNEXPECTED_FEW;
    group.gpu_way = gpu_way;
    group.any_source_max = any_source_max;
    CHECK_STATUS(gpu_end(ferry_group_join(engine_of(&self->own), &group, &self->own.group)),
                 FERRY_OK);
}

static inline void open_scene(scene *self, int rank)
{
    *self = (scene){.rank = rank};
    open_engine(&self->own, 0);
    join(self);
}

static inline void close_scene(scene *self)
{
    close_some(&self->own, 1);
}

/* Both come here before either goes on. */
static inline void meet(scene *self)
{
    OWN_BUFFER *buffer = gpu_buffer(self->own.at.host, 16, FERRY_MEMORY_DEFAULT);
    ferry_span to = {buffer, 0, 8}, from = {buffer, 8, 8};
    ferry_future *receive =
        ferry_recv(self->own.group, (ferry_rank)(1 - self->rank), 1000, from, NULL);
    CHECK_STATUS(gpu_end(ferry_send(self->own.group, (ferry_rank)(1 - self->rank), 1000, to, NULL)),
                 FERRY_OK);
    CHECK_STATUS(gpu_end(receive), FERRY_OK);
}

static inline void send_one(scene *self, ferry_buffer *buffer, uint64_t seed, ferry_tag tag)
{
    write_to(&self->own, ferry_buffer_span(buffer), seed);
    CHECK_STATUS(gpu_end(ferry_send(self->own.group, (ferry_rank)(1 - self->rank), tag,
                                    ferry_buffer_span(buffer), NULL)),
                 FERRY_OK);
}

static inline void receive_one(scene *self, ferry_buffer *buffer, uint64_t seed, ferry_tag tag)
{
    bool is_right = false;
    write_to(&self->own, ferry_buffer_span(buffer), seed + 1);
    CHECK_STATUS(gpu_end(ferry_recv(self->own.group, (ferry_rank)(1 - self->rank), tag,
                                    ferry_buffer_span(buffer), NULL)),
                 FERRY_OK);
    CHECK_STATUS(read_from(&self->own, ferry_buffer_span(buffer), seed, &is_right), FERRY_OK);
    CHECK(is_right);
}

/* For the first: until the other has stopped or ended, which two_run is to hear of, too. */
static inline void await_other(const scene *self, int what)
{
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)self->other, &info, what | WNOWAIT) == 0);
}

/* As the rank, with the other process if it is this one that starts it. */
static inline void two_run(const two_test *test, int rank, bool starts)
{
    scene self;
    pid_t other = starts ? start_other(1 - rank) : 0;
    open_scene(&self, rank);
    self.other = other;
    test->fn(&self);
    if (!test->ends)
        meet(&self);
    close_scene(&self);
    int status = 0;
    if (starts)
        CHECK(waitpid(other, &status, 0) == other && (status == 0 || WIFSIGNALED(status)));
}

/* The other process: program TEST FOLDER RANK. True: this is one, and test_name is set. */
static inline bool two_is_other(int argc, char **argv)
{
    program_path = argv[0];
    if (argc < 4)
        return false;
    (void)snprintf(folder, sizeof folder, "%s", argv[2]);
    return true;
}

#endif
