/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module over the NCCL of the toolkit, which this program is linked with, in place of the
 * emulated one: it has all that the module calls, in the form that nccl.h says, and its version is
 * good. A token is made. Without a driver a communicator is not, which the pair says; with one it
 * is ended while it is made, as nobody takes part. The GPU's streams are this program's own words.
 */
#include "base/module/forward.h"
#include "net/nccl/library.h"
#include "net/pairs.h"
#include "tests/support/stress.h"

#include <dlfcn.h>
#include <sched.h>

static bool make_current(void *arg)
{
    (void)arg;
    return true;
}

static void *open_stream(void *arg, fry_fault *fault)
{
    (void)fault;
    return arg;
}

static bool is_idle(void *arg, void *stream)
{
    return arg == stream;
}

static void close_stream(void *arg, void *stream)
{
    CHECK(arg == stream);
}

static void notify(void *arg)
{
    (void)arg;
}

static void await(const fry_pairs_ops *ops, const fry_pair *pair, fry_pair_state state)
{
    while (ops->pair_state(pair) != state)
        (void)sched_yield();
}

/* That it links says most. */
static void check_functions(void)
{
    int version = 0;
#define FUNCTION(name) CHECK((void *)name != NULL);
    FRY_NCCL_FUNCTION_MAP(FUNCTION)
#undef FUNCTION
    CHECK(ncclGetVersion(&version) == ncclSuccess);
    CHECK(version == NCCL_VERSION_CODE);
}

int main(void)
{
    const char *reason = "";
    char text[32];
    fry_memory memory;
    fry_pairs *pairs;
    fry_fault fault;
    end_if_hung(60);
    check_functions();
    const fry_pairs_ops *ops = fry_pairs_find("nccl", &reason);
    if (ops == NULL)
        (void)fprintf(stderr, "no module: %s\n", reason);
    CHECK(ops != NULL);
    CHECK(ops->probe(&reason) == NCCL_VERSION_CODE);
    (void)snprintf(text, sizeof text, "NCCL %d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    CHECK(strcmp(reason, text) == 0);

    static fry_log log;
    fry_memory_init(&memory, NULL);
    const fry_pairs_options options = {.notify = {notify, NULL}, .log = &log, .pairs_most = 1};
    CHECK(ops->open(&memory, &options, &pairs) == FERRY_OK);
    const fry_pair_device device = {.arg = &memory,
                                    .make_current = make_current,
                                    .open_stream = open_stream,
                                    .is_stream_idle = is_idle,
                                    .close_stream = close_stream};
    fry_pair *pair = ops->pair_open(pairs, &device, true);
    CHECK(pair != NULL);
    ops->pair_make_token(pair);
    await(ops, pair, FRY_PAIR_TOKEN);
    ops->pair_make(pair, NULL);
    if (dlopen("libcuda.so.1", RTLD_LAZY) == NULL) {
        await(ops, pair, FRY_PAIR_FAILED);
        ops->pair_fault(pair, &fault);
        CHECK(strcmp(fault.domain, "nccl") == 0 && fault.native_code != ncclSuccess);
        CHECK(strncmp(fault.message, "ncclCommInitRankConfig: ", 24) == 0);
        (void)printf("%s\n", fault.message);
    }
    ops->pair_end(pair);
    await(ops, pair, FRY_PAIR_ENDED);
    ops->pair_close(pair);
    ops->close(pairs);
    return 0;
}
