/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs over the NCCL module, with the test in the place of both members' engines: GPU 0's has one
 * end, GPU 1's the other. Each case is a process of its own.
 */
#include "engine/messages/pairing_open.h"
#include "net/pairs.h"
#include "tests/emu/emu_nccl.h"
#include "tests/module/rig.h"

#include <sched.h>
#include <unistd.h>

#define BYTES ((size_t)4096)
#define HELD_NS INT64_C(-1)

typedef struct end {
    fry_device *device;
    fry_pair *pair;
} end;

/* What has been said of a lot; written by the module's thread. */
typedef struct told {
    fry_lot lot; /* first */
    fry_device *device;
    uint32_t is_told; /* atomic, after the rest */
    ferry_status status;
    fry_event event;
    fry_fault fault;
} told;

typedef struct duo {
    rig rig;
    const fry_pairs_ops *ops;
    fry_pairs *pairs;
    uint32_t notified; /* atomic */
    end ends[2];
} duo;

static void count_notify(void *arg)
{
    (void)fry_fetch_add(&((duo *)arg)->notified, 1);
}

static fry_pair *open_end(duo *self, int which)
{
    const fry_pair_device device = fry_pairing_device(self->ends[which].device);
    return self->ops->pair_open(self->pairs, &device, which == 0);
}

static void duo_open(duo *self)
{
    const char *reason = "";
    rig_open(&self->rig);
    self->ends[0].device = rig_device(&self->rig, "cuda:0", 0);
    self->ends[1].device = rig_device(&self->rig, "cuda:1", 0);
    self->ops = fry_pairs_find("nccl", &reason);
    if (self->ops == NULL) {
        (void)fprintf(stderr, "no module: %s\n", reason);
        exit(EXIT_FAILURE);
    }
    const fry_pairs_options options = {
        .notify = {count_notify, self}, .log = &self->rig.log, .pairs_most = 2};
    CHECK(self->ops->probe(&reason) >= 22700);
    CHECK(strncmp(reason, "NCCL 2.", 7) == 0);
    OK(self->ops->open(&self->rig.memory, &options, &self->pairs));
    for (int i = 0; i < 2; i++) {
        self->ends[i].pair = open_end(self, i);
        CHECK(self->ends[i].pair != NULL);
        CHECK(self->ops->pair_state(self->ends[i].pair) == FRY_PAIR_OPEN);
    }
    CHECK(open_end(self, 0) == NULL); /* pairs_most */
}

static void await(const duo *self, int which, fry_pair_state state)
{
    while (self->ops->pair_state(self->ends[which].pair) != state)
        (void)sched_yield();
}

static void duo_make(duo *self)
{
    self->ops->pair_make_token(self->ends[0].pair);
    await(self, 0, FRY_PAIR_TOKEN);
    self->ops->pair_make(self->ends[1].pair, self->ops->pair_token(self->ends[0].pair));
    self->ops->pair_make(self->ends[0].pair, NULL);
    await(self, 0, FRY_PAIR_READY);
    await(self, 1, FRY_PAIR_READY);
}

static void end_one(duo *self, int which)
{
    self->ops->pair_end(self->ends[which].pair);
    await(self, which, FRY_PAIR_ENDED);
    self->ops->pair_close(self->ends[which].pair);
    self->ends[which].pair = NULL;
}

static void duo_close(duo *self)
{
    for (int i = 0; i < 2; i++) {
        if (self->ends[i].pair != NULL)
            end_one(self, i);
    }
    CHECK(fry_load_acquire(&self->notified) >= 2);
    GIVES(emu_nccl_standing(), 0);
    self->ops->close(self->pairs);
    rig_close(&self->rig);
}

/* ---- lots ---- */

static void is_launched(fry_lot *lot, void *stream, ferry_status status, const fry_fault *fault)
{
    told *self = (told *)(void *)lot;
    self->status = status;
    if (status == FERRY_OK)
        MUST(self->device->ops->event_record(self->device, stream, &self->event, &self->fault) ==
             FERRY_OK);
    else
        self->fault = *fault;
    fry_store_release(&self->is_told, 1);
}

static void launch(duo *self, int which, told *what)
{
    what->device = self->ends[which].device;
    what->is_told = 0;
    what->lot.launched = is_launched;
    self->ops->pair_launch(self->ends[which].pair, &what->lot);
}

static void await_told(const told *what)
{
    while (fry_load_acquire(&what->is_told) == 0)
        (void)sched_yield();
}

/* It was launched, and is over. */
static void await_landed(duo *self, int which, told *what)
{
    await_told(what);
    OK(what->status);
    rig_entered(what->event);
    rig_await(&self->rig, what->event);
    self->ops->pair_landed(self->ends[which].pair);
}

static void add(told *what, char *memory, size_t size_bytes, bool is_send)
{
    what->lot.items[what->lot.count++] = (fry_lot_item){memory, size_bytes, is_send};
}

/* ---- cases ---- */

/* Messages both ways in one lot, of several sizes, and several lots in a row. */
static void both_ways(void)
{
    enum { LOTS = 5, ITEMS = 6 };
    static told lots[2][LOTS];
    duo self = {0};
    char *memory[2][LOTS][ITEMS];
    duo_open(&self);
    duo_make(&self);
    for (int i = 0; i < LOTS; i++) {
        for (int k = 0; k < ITEMS; k++) {
            size_t size_bytes = BYTES << k | 1;
            bool is_from_first = (i + k) % 2 == 0;
            for (int which = 0; which < 2; which++) {
                bool is_send = is_from_first == (which == 0);
                memory[which][i][k] =
                    rig_on_gpu(which, size_bytes, is_send ? 1 + i * ITEMS + k : 0);
                add(&lots[which][i], memory[which][i][k], size_bytes, is_send);
            }
        }
        launch(&self, 0, &lots[0][i]);
        launch(&self, 1, &lots[1][i]);
    }
    for (int i = 0; i < LOTS; i++) {
        for (int which = 0; which < 2; which++) {
            await_landed(&self, which, &lots[which][i]);
            for (int k = 0; k < ITEMS; k++) {
                CHECK(rig_is_all(memory[which][i][k], 1 + i * ITEMS + k, BYTES << k | 1));
                rig_free_on_gpu(memory[which][i][k]);
            }
        }
    }
    duo_close(&self);
}

/* The other end never begins. */
static void ends_while_it_is_made(void)
{
    duo self = {0};
    duo_open(&self);
    self.ops->pair_make_token(self.ends[0].pair);
    await(&self, 0, FRY_PAIR_TOKEN);
    self.ops->pair_make(self.ends[0].pair, NULL);
    await(&self, 0, FRY_PAIR_MAKING);
    end_one(&self, 0);
    self.ends[0].pair = open_end(&self, 0); /* its place is free again */
    CHECK(self.ends[0].pair != NULL);
    end_one(&self, 0);
    duo_close(&self);
}

/* The other end never launches: the lot stands until the pair is ended, and writes no more then. */
static void ends_what_stands(void)
{
    static told lots[2];
    duo self = {0};
    duo_open(&self);
    duo_make(&self);
    char *to = rig_on_gpu(0, BYTES, 1), *from = rig_on_gpu(1, BYTES, 2);
    add(&lots[0], to, BYTES, false);
    launch(&self, 0, &lots[0]);
    await_told(&lots[0]);
    OK(lots[0].status);
    GIVES(emu_nccl_standing(), 1);
    rig_entered(lots[0].event);
    CHECK(rig_fired(&self.rig, lots[0].event.stream) < lots[0].event.sequence);
    end_one(&self, 0);
    rig_await(&self.rig, lots[0].event);
    memset(to, 3, BYTES);
    add(&lots[1], from, BYTES, true);
    launch(&self, 1, &lots[1]); /* to nobody */
    await_told(&lots[1]);
    if (lots[1].status == FERRY_OK)
        rig_entered(lots[1].event);
    end_one(&self, 1);
    CHECK(rig_is_all(to, 3, BYTES));
    if (lots[1].status == FERRY_OK)
        rig_await(&self.rig, lots[1].event);
    rig_free_on_gpu(to);
    rig_free_on_gpu(from);
    duo_close(&self);
}

/* NCCL does not get to them: they are told that the pair is ended. */
static void ends_what_waits(void)
{
    enum { LOTS = 3 };
    static told lots[LOTS];
    duo self = {0};
    duo_open(&self);
    duo_make(&self);
    char *memory = rig_on_gpu(0, BYTES, 1);
    emu_nccl_delay(HELD_NS);
    for (int i = 0; i < LOTS; i++) {
        add(&lots[i], memory, BYTES, true);
        launch(&self, 0, &lots[i]);
    }
    self.ops->pair_end(self.ends[0].pair);
    for (int i = 0; i < LOTS; i++) {
        await_told(&lots[i]);
        GIVES(lots[i].status, FERRY_E_CANCELLED);
        CHECK(strstr(lots[i].fault.message, "is ended") != NULL);
    }
    emu_nccl_delay(0);
    await(&self, 0, FRY_PAIR_ENDED);
    self.ops->pair_close(self.ends[0].pair);
    self.ends[0].pair = NULL;
    rig_free_on_gpu(memory);
    duo_close(&self);
}

static void check_failed(duo *self, int which, const char *call, ncclResult_t result)
{
    fry_fault fault;
    await(self, which, FRY_PAIR_FAILED);
    self->ops->pair_fault(self->ends[which].pair, &fault);
    GIVES(fault.status, FERRY_E_DEVICE);
    GIVES(fault.native_code, result);
    CHECK(strcmp(fault.domain, "nccl") == 0);
    CHECK(strncmp(fault.message, call, strlen(call)) == 0);
}

/*
 * A call that NCCL refuses, each in turn; but for ncclGroupEnd, which if told to fail does nothing
 * in the emulator, and leaves the group open. NCCL's does not.
 */
static void refused_calls(void)
{
    static const struct {
        const char *name;
        bool is_launch;
    } calls[] = {{"ncclGetUniqueId", false},
                 {"ncclCommInitRankConfig", false},
                 {"ncclGroupStart", true},
                 {"ncclSend", true},
                 {"ncclCommGetAsyncError", true}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        static told lots[2];
        memset(lots, 0, sizeof lots);
        duo self = {0};
        duo_open(&self);
        char *memory = rig_on_gpu(0, BYTES, 1);
        add(&lots[0], memory, BYTES, true);
        add(&lots[1], memory, BYTES, true);
        if (calls[i].is_launch)
            duo_make(&self);
        OK(emu_nccl_fail_call(calls[i].name, 1, ncclSystemError));
        if (calls[i].is_launch) {
            launch(&self, 0, &lots[0]);
            launch(&self, 0, &lots[1]);
        } else {
            self.ops->pair_make_token(self.ends[0].pair);
            if (i == 1) {
                await(&self, 0, FRY_PAIR_TOKEN);
                self.ops->pair_make(self.ends[0].pair, NULL);
            }
        }
        check_failed(&self, 0, i == 4 ? "ncclGroupEnd" : calls[i].name, ncclSystemError);
        for (int k = 0; k < 2 && calls[i].is_launch; k++) {
            await_told(&lots[k]);
            GIVES(lots[k].status, FERRY_E_DEVICE);
            GIVES(lots[k].fault.native_code, ncclSystemError);
        }
        OK(emu_nccl_fail_call(calls[i].name, 1, ncclSuccess));
        end_one(&self, 0);
        rig_free_on_gpu(memory);
        duo_close(&self);
    }
}

/* It fails when nothing is asked of it any more, but something stands. */
static void fails_by_itself(void)
{
    static told lot;
    duo self = {0};
    duo_open(&self);
    duo_make(&self);
    char *memory = rig_on_gpu(0, BYTES, 1);
    emu_nccl_fail_kernel(1, ncclRemoteError);
    add(&lot, memory, BYTES, false);
    launch(&self, 0, &lot);
    await_told(&lot);
    if (lot.status == FERRY_OK)
        rig_entered(lot.event);
    check_failed(&self, 0, "nccl", ncclRemoteError);
    end_one(&self, 0);
    if (lot.status == FERRY_OK)
        rig_await(&self.rig, lot.event);
    rig_free_on_gpu(memory);
    duo_close(&self);
}

/* The program's thread has a group open, and begins and ends a capture. */
static void beside_a_group_of_the_programs(void)
{
    static told lots[2];
    duo self = {0};
    CUstream stream;
    CUgraph graph;
    duo_open(&self);
    char *from = rig_on_gpu(0, BYTES, 1), *to = rig_on_gpu(1, BYTES, 0);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(ncclGroupStart());
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    duo_make(&self);
    add(&lots[0], from, BYTES, true);
    add(&lots[1], to, BYTES, false);
    launch(&self, 0, &lots[0]);
    launch(&self, 1, &lots[1]);
    for (int i = 0; i < 2; i++)
        await_told(&lots[i]);
    OK(cuStreamEndCapture(stream, &graph));
    for (int i = 0; i < 2; i++)
        await_landed(&self, i, &lots[i]);
    CHECK(rig_is_all(to, 1, BYTES));
    OK(ncclGroupEnd());
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    rig_free_on_gpu(from);
    rig_free_on_gpu(to);
    duo_close(&self);
}

/* The emulator reads its version from the environment as it is loaded. */
static void too_old(void)
{
    static char name[] = "too_old";
    char *const arguments[] = {name, name, NULL};
    if (getenv("FERRY_EMU_NCCL_VERSION") == NULL) {
        OK(setenv("FERRY_EMU_NCCL_VERSION", "22605", 1));
        OK(execv("/proc/self/exe", arguments));
    }
    const char *reason = "";
    const fry_pairs_ops *ops = fry_pairs_find("nccl", &reason);
    CHECK(ops != NULL);
    GIVES(ops->probe(&reason), 0);
    CHECK(strcmp(reason, "NCCL 2.26.5, and 2.27 or later is needed") == 0);
    fry_pairs *pairs;
    fry_memory memory;
    fry_memory_init(&memory, NULL);
    GIVES(ops->open(&memory, &(fry_pairs_options){.pairs_most = 1}, &pairs), FERRY_E_NOT_FOUND);
}

int main(int count, char **arguments)
{
    static const rig_test tests[] = {
        {"both_ways", both_ways},
        {"ends_while_it_is_made", ends_while_it_is_made},
        {"ends_what_stands", ends_what_stands},
        {"ends_what_waits", ends_what_waits},
        {"refused_calls", refused_calls},
        {"fails_by_itself", fails_by_itself},
        {"beside_a_group_of_the_programs", beside_a_group_of_the_programs},
        {"too_old", too_old},
    };
    return rig_run_apart(count, arguments, tests, sizeof tests / sizeof tests[0]);
}
