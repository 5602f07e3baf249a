/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw UCX, all pairs of four processes at once: each sends an equal part of its bytes to each other
 * one, out of one run and into one, and copies its own part. That is what a matrix by rows moves
 * that comes to lie by columns, without what it takes to gather columns out of rows.
 *
 *     ucx_mesh MIB ROUNDS     prints mesh_us=U, the median round of the slowest
 */
#include "bench/rivals/pair.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>

enum { MEMBERS = 4, ADDRESS_BYTES = 4096, ROUNDS_MAX = 100 };

/* What the processes share. */
typedef struct meeting {
    atomic_uint arrived;
    char addresses[MEMBERS][ADDRESS_BYTES];
    double rounds_s[MEMBERS][ROUNDS_MAX];
} meeting;

typedef struct member {
    meeting *meeting;
    unsigned rank, meetings;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h endpoints[MEMBERS];
    char *out, *in;
    size_t part_bytes; /* for each member */
} member;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK)
        pair_fail(what, ucs_status_string(status));
}

/* All come, and make progress for those who are not there yet. */
static void meet(member *self)
{
    self->meetings++;
    (void)atomic_fetch_add(&self->meeting->arrived, 1);
    while (atomic_load(&self->meeting->arrived) < self->meetings * MEMBERS) {
        if (self->worker == NULL || ucp_worker_progress(self->worker) == 0)
            (void)sched_yield(); /* there may be fewer CPUs than members */
    }
}

static void connect_all(member *self)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config = NULL;
    ucp_address_t *own = NULL;
    size_t own_bytes = 0;
    check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    check(ucp_init(&params, config, &self->context), "ucp_init");
    ucp_config_release(config);
    check(ucp_worker_create(self->context, &worker, &self->worker), "ucp_worker_create");
    check(ucp_worker_get_address(self->worker, &own, &own_bytes), "ucp_worker_get_address");
    if (own_bytes > ADDRESS_BYTES)
        pair_fail("connecting", "the address is too long");
    memcpy(self->meeting->addresses[self->rank], own, own_bytes);
    ucp_worker_release_address(self->worker, own);
    meet(self);
    for (unsigned rank = 0; rank < MEMBERS; rank++) {
        ucp_ep_params_t endpoint = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address =
                                        (const ucp_address_t *)self->meeting->addresses[rank]};
        if (rank != self->rank)
            check(ucp_ep_create(self->worker, &endpoint, &self->endpoints[rank]), "ucp_ep_create");
    }
}

static void finish(const member *self, ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_OK;
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "a message");
    if (request == NULL)
        return;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        if (ucp_worker_progress(self->worker) == 0)
            (void)sched_yield();
    }
    check(status, "a message");
    ucp_request_free(request);
}

static double run_round(member *self)
{
    static const ucp_request_param_t plain = {0};
    ucs_status_ptr_t requests[2 * MEMBERS];
    size_t count = 0;
    meet(self);
    double begin_s = pair_now_s();
    for (unsigned turn = 1; turn < MEMBERS; turn++) {
        unsigned to = (self->rank + turn) % MEMBERS, from = (self->rank + MEMBERS - turn) % MEMBERS;
        requests[count++] = ucp_tag_recv_nbx(self->worker, self->in + from * self->part_bytes,
                                             self->part_bytes, from, UINT64_MAX, &plain);
        requests[count++] = ucp_tag_send_nbx(self->endpoints[to], self->out + to * self->part_bytes,
                                             self->part_bytes, self->rank, &plain);
    }
    memcpy(self->in + self->rank * self->part_bytes, self->out + self->rank * self->part_bytes,
           self->part_bytes);
    for (size_t i = 0; i < count; i++)
        finish(self, requests[i]);
    return pair_now_s() - begin_s;
}

/* Huge pages, as ferry has. */
static char *take_memory(size_t size, int fill)
{
    char *memory = aligned_alloc((size_t)2 << 20, size);
    if (memory == NULL)
        pair_fail("memory", "there is none");
    (void)madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, fill, size);
    return memory;
}

static void run(member *self, size_t rounds)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    connect_all(self);
    self->out = take_memory(MEMBERS * self->part_bytes, 1);
    self->in = take_memory(MEMBERS * self->part_bytes, 2);
    for (size_t i = 0; i <= rounds; i++) { /* the first connects */
        double round_s = run_round(self);
        self->meeting->rounds_s[self->rank][i == 0 ? 0 : i - 1] = round_s;
    }
    meet(self);
    _Exit(0); /* all are done; nothing is taken down */
}

int main(int argc, char **argv)
{
    size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    if (mebibytes < 32 || mebibytes % 32 != 0 || rounds == 0 || rounds > ROUNDS_MAX)
        pair_fail("arguments", "MIB, a multiple of 32, and ROUNDS, up to 100");
    meeting *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        pair_fail("mmap", strerror(errno));
    for (unsigned rank = 0; rank < MEMBERS; rank++) {
        pid_t pid = fork();
        if (pid < 0)
            pair_fail("fork", strerror(errno));
        member self = {.meeting = shared, .rank = rank};
        self.part_bytes = (mebibytes << 20) / (MEMBERS * MEMBERS);
        if (pid == 0)
            run(&self, rounds);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0)
            pair_fail("a member", "it failed");
    }
    double slowest_s = 0;
    for (unsigned rank = 0; rank < MEMBERS; rank++) {
        double own_s = pair_median(shared->rounds_s[rank], rounds);
        slowest_s = own_s > slowest_s ? own_s : slowest_s;
    }
    printf("mesh_us=%.3f\n", slowest_s * 1e6);
    return 0;
}
