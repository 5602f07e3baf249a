/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cases of ferry_probe share. Each runs in a process of its own: what it allocates nobody
 * frees, what fails in CUDA ends it with a row that says so, and what stands still is let go by a
 * watch-dog, so that "it waits" is an answer and not a hang.
 */
#ifndef FRY_BENCH_PROBE_H
#define FRY_BENCH_PROBE_H

#include "bench/bench.h"
#include "bench/rivals/cuda_driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_NO_GPU 77

/* ---- cases and their rows ---- */

typedef struct probe_case {
    const char *name;
    const char *probe; /* of its rows */
    void (*run)(const struct probe_case *which);
    int limit_s;          /* then it is ended */
    int connections;      /* CUDA_DEVICE_MAX_CONNECTIONS; 0: 32, as much as there is */
    int copy_connections; /* CUDA_DEVICE_MAX_COPY_CONNECTIONS; 0: not set */
    int variant;          /* what the case makes of it */
    bool is_hidden;       /* not in "list" nor among all */
} probe_case;

extern const probe_case probe_cases[];
extern const size_t probe_case_count;

const probe_case *probe_case_find(const char *name); /* NULL: none */

/* Is there a case, not hidden, whose rows are of that probe? */
bool probe_case_has_rows(const char *probe);

void probe_calls(const probe_case *which);
void probe_bubble(const probe_case *which);
void probe_room(const probe_case *which);
void probe_head_of_line(const probe_case *which);
void probe_visible(const probe_case *which);
void probe_late(const probe_case *which);
void probe_gap(const probe_case *which);
void probe_teller(const probe_case *which);
void probe_free(const probe_case *which);
void probe_exit(const probe_case *which);
void probe_exit_body(const probe_case *which);
void probe_attributes(const probe_case *which);
void probe_batch(const probe_case *which);
void probe_pitch(const probe_case *which);
void probe_contexts(const probe_case *which);
void probe_capture(const probe_case *which);
void probe_current(const probe_case *which);
void probe_ipc(const probe_case *which);
void probe_ipc_peer(const probe_case *which);
void probe_share_order(const probe_case *which);
void probe_share_free(const probe_case *which);
void probe_share_offset(const probe_case *which);
void probe_share_die(const probe_case *which);
void probe_share_die_reader(const probe_case *which);
void probe_share_stop(const probe_case *which);
void probe_share_close_busy(const probe_case *which);
void probe_share_closer(const probe_case *which);
void probe_share_open_dead(const probe_case *which);
void probe_share_reused(const probe_case *which);
void probe_share_event_dead(const probe_case *which);
void probe_share_waiter(const probe_case *which);
void probe_share_open_time(const probe_case *which);
void probe_share_turns(const probe_case *which);
void probe_share_owner(const probe_case *which);
void probe_share_pool(const probe_case *which);
void probe_share_pool_reader(const probe_case *which);
void probe_nccl_make(const probe_case *which);
void probe_nccl_capture_group(const probe_case *which);
void probe_nccl_self(const probe_case *which);
void probe_nccl_stuck(const probe_case *which);
void probe_nccl_unmatched(const probe_case *which);
void probe_nccl_two_ranks(const probe_case *which);
void probe_nccl_two_hosts(const probe_case *which);
void probe_nccl_rank(const probe_case *which);

typedef enum probe_answer {
    PROBE_NO,
    PROBE_YES,
    PROBE_NONE, /* there was no answer: the note says why */
} probe_answer;

/* Who prints rows, and how. */
typedef struct probe_run {
    const char *probe;
    const char *device; /* the GPU's name, or BENCH_EMULATED */
    bool is_json;
    bool is_smoke;
} probe_run;

extern probe_run probe;

/*
 * One row, out at once: whoever reads has it, whatever becomes of this process.
 *  value  NAN: there is no figure
 *  note   in words; "" is left out
 */
void probe_row(const char *shape, double value, const char *unit, probe_answer answer,
               const char *note, ...) __attribute__((format(printf, 5, 6)));

/* The median as a row that has a figure and judges nothing; its answer is yes: there is one. */
void probe_row_median(const char *shape, const bench_samples *samples, const char *unit);

/* A row without an answer, as this driver has no such call. */
void probe_row_absent(const char *shape, const char *call);

/* A row without an answer that says why, and the end of this process with status 1. */
_Noreturn void probe_fail(const char *note, ...) __attribute__((format(printf, 1, 2)));

/* Reads a file of rows and prints what they say of what ferry assumes, as Markdown. */
void probe_table_print(const char *path);

/* ---- processes ---- */

typedef struct probe_child {
    int pid;
    int pidfd;
    int in, out; /* pipes to its stdin and from its stdout; -1: they are this process's */
} probe_child;

/* This program again, with the case's environment; it dies with its parent. */
probe_child probe_child_start(const probe_case *which, bool has_in, bool has_out);

/*
 * Waits for its end. One that takes longer is asked where its threads stand (bench/preload), and
 * killed. Fills in how it ended: "" if by itself with status 0. Returns whether it ended by itself,
 * with *status_p.
 */
bool probe_child_end(probe_child *child, int64_t limit_ns, int *status_p, char *how,
                     size_t how_bytes);

/* The name of GPU 0 as its first line on stdout, or why there is none. */
void probe_name(const probe_case *which);

/* ---- the GPU ---- */

typedef struct probe_gpu {
    CUdevice device;
    CUcontext context;
    int lowest, highest; /* priorities of streams */
    CUfunction wait_flag, spin, fill;
} probe_gpu;

extern probe_gpu gpu;

/* "no driver", "no device", or NULL and the name. */
const char *probe_gpu_look(char *name, int name_bytes);

/* Makes a context on GPU 0 that is current in this thread, and launches each kernel once. */
void probe_gpu_open(void);

/* A call that has to succeed. */
void probe_check(const char *call, CUresult result);
#define PROBE_CALL(name, ...)                                                                      \
    do {                                                                                           \
        if (driver.name == NULL)                                                                   \
            probe_fail("absent: %s", #name);                                                       \
        probe_check(#name, driver.name(__VA_ARGS__));                                              \
    } while (0)

CUstream probe_stream(int priority);
CUevent probe_event(unsigned flags);
CUdeviceptr probe_memory(size_t size_bytes);
void *probe_pinned(size_t size_bytes); /* zeroed */
CUdeviceptr probe_address(const void *memory);

void probe_fill(CUdeviceptr word, uint32_t value, CUstream stream);
void probe_spin(uint64_t duration_ns, CUstream stream);
void probe_write(CUstream stream, const uint32_t *word, uint32_t value);
uint32_t probe_word(const uint32_t *word); /* as it is now */

typedef enum probe_way { PROBE_H2D, PROBE_D2H, PROBE_D2D, PROBE_WAYS } probe_way;

extern const char *const probe_way_names[PROBE_WAYS];

/* Memory of their own to copy between. */
typedef struct probe_ends {
    CUdeviceptr dst, src;
    size_t size_bytes;
} probe_ends;

probe_ends probe_ends_make(probe_way way, size_t size_bytes);
void probe_copy(const probe_ends *ends, CUstream stream);

/* ---- a kernel that is held ---- */

#define PROBE_HOLD_NS INT64_C(300000000) /* then the watch-dog lets it go */

/* One at a time, of one thread. From here on what is behind it in the stream waits. */
void probe_hold(CUstream stream);

/* The same, and the kernel runs when it returns. */
void probe_hold_running(CUstream stream);

bool probe_hold_stands(void);

/* Lets it go and waits for all that the context has to do. Returns whether it stood until now. */
bool probe_hold_end(void);

/* Lets it go; all else is as it was. */
bool probe_hold_let_go(void);

/* ---- another thread ---- */

/* Starts it. Before anything is held: it allocates, and that may wait. */
void probe_other_open(void);

/* Makes driver calls in the same context, small ones that wait for nothing, again and again. */
void probe_other_begin(void);

/* The longest that one of them took since then, also one that is not over yet; which one it was. */
int64_t probe_other_end(const char **call_p);

/* Launches kernels all the time, from now on until the process ends. */
void probe_launch_always(void);

#endif
