/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over the whole public API: what one or several threads, and the callbacks that
 * they cause, do to one engine, without regard for what the others do. What a seed gives is what
 * each thread asks for; what meets what is the machine's doing. Every act keeps the headers' rules
 * about handles, and checks what it is answered against the headers.
 */
#ifndef FERRY_TESTS_RANDOM_API_H
#define FERRY_TESTS_RANDOM_API_H

#include "tests/support/failing_allocator.h"
#include "tests/support/thread_executor.h"

#include <ferry/ferry.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define API_THREADS_MAX 8
#define API_HELD_MAX 256 /* futures that a thread holds at once */
#define API_BOARD 16     /* handles of each sort that any thread may take */
#define API_RECORDS_MAX 4096
#define API_BAG_MAX 4096
#define API_BUFFER_BYTES 8192
#define API_SHARED_BUFFERS 3
#define API_SCOPES 2

typedef struct api_random {
    uint64_t word; /* never 0 */
} api_random;

uint32_t api_below(api_random *random, uint32_t bound);
int64_t api_in_ns(int64_t left_ns); /* CLOCK_MONOTONIC, for deadlines */
bool api_one_in(api_random *random, uint32_t bound);

typedef struct api_world api_world;

/* What random options of an operation point to. */
typedef struct api_room {
    ferry_future *after[4];
    ferry_access accesses[4];
    char label[32];
} api_room;

/* A function of a call, or a waiter, and what has befallen it. */
typedef struct api_record {
    api_world *world;
    api_random random; /* of what it does */
    ferry_waiter waiter;
    ferry_future *future; /* the waiter's, with a reference; NULL: a call */
    ferry_status result;  /* of a call, or with which its promise is resolved */
    atomic_uint begun, ended;
    atomic_uint removed;              /* the waiter was taken back */
    _Atomic(ferry_promise *) promise; /* until it is ended: random_api_promises.c */
    bool is_async;                    /* the promise is that of an operation that ends later */
    atomic_bool has_returned;         /* of that: begin */
    atomic_uint cancelled;
    atomic_bool is_let_go;      /* its waiter for a cancel may not be called any more */
    atomic_bool is_quiet;       /* the call was seen to be: it may neither run nor begin */
    struct api_record *sibling; /* another call of the same batch; NULL: no more */
    uint32_t again;         /* how often the waiter registers itself anew; its callback's alone */
    atomic_uint registered; /* how often it was, in all */
} api_record;

/* A future that a thread holds. */
typedef struct api_held {
    ferry_future *future;
    api_record *calls;    /* the functions that it is about, or NULL */
    api_record *quiet_of; /* those that are over once it is FERRY_OK, or NULL */
    bool may_last;        /* nothing need resolve it but a cancel */
} api_held;

/* Who acts: a thread, or a callback for as long as it runs. */
typedef struct api_actor {
    api_world *world;
    api_random random;
    bool is_callback;
    uint32_t held_count;
    api_held held[API_HELD_MAX];
} api_actor;

/* Tasks that wait until somebody runs them, in any order. Once it is open they run when posted. */
typedef struct api_bag {
    ferry_executor executor;
    pthread_mutex_t mutex;
    ferry_task *tasks[API_BAG_MAX];
    uint32_t count;
    bool is_open;
} api_bag;

struct api_world {
    uint64_t seed;
    api_random random; /* the main thread's */
    ferry_loop_mode loop;
    bool has_group, has_hooks, is_cut_short;
    bool has_limits;      /* of nodes and the like: they are met */
    bool fails_memory;    /* the allocator may be made to fail at any time */
    bool keeps_tasks;     /* the bag's tasks are run after the release */
    bool is_engine_first; /* released while handles, and the threads, go on */
    bool is_threads_last; /* threads end after the engine */
    uint32_t thread_count, step_count;
    ferry_engine *engine;
    pthread_rwlock_t engine_lock; /* callbacks that name the engine read; who ends it writes */
    bool has_engine;              /* under it */
    failing_allocator memory;
    ferry_device *devices[2];
    ferry_buffer *shared[API_SHARED_BUFFERS]; /* NULL: there was no memory */
    ferry_group *group;                       /* NULL: none */
    ferry_queue *queue;
    int queue_fd;
    ferry_scope *scopes[API_SCOPES];
    thread_executor *own_thread;
    api_bag bag;
    ferry_executor direct; /* runs each task as it is posted */
    api_actor actors[API_THREADS_MAX];
    _Atomic(ferry_future *) futures[API_BOARD];
    _Atomic(ferry_promise *) promises[API_BOARD];
    _Atomic(ferry_buffer *) buffers[API_BOARD];
    _Atomic(api_record *) waited[API_BOARD];
    _Atomic(api_record *) begun[API_BOARD]; /* those with a promise */
    atomic_bool is_settling;                /* no promise stays on the board any more */
    api_record records[API_RECORDS_MAX];
    atomic_uint record_count;
    atomic_uint wrapped, freed; /* memory of the program's that ferry was given, and gave back */
};

/* What all seeds did together: an act that never succeeded proves little. */
typedef struct api_tally {
    const char *name;
    unsigned long done, refused;
} api_tally;

/* Prints the seed and the place on stderr, and ends the program. Any thread. */
_Noreturn void api_fail(const char *file, int line, const char *what);

#define API_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            api_fail(__FILE__, __LINE__, #condition);                                              \
    } while (0)

/* The seed that api_fail names. */
extern _Atomic uint64_t api_seed;

/*
 * One act. With an engine: all there are; without: those which only handles are named to, for it
 * may be shut down or released meanwhile.
 */
void api_act(api_actor *actor, bool has_engine);

void api_actor_init(api_actor *actor, api_world *world, api_random random);

/* Releases what the actor holds; what may last it cancels first. */
void api_let_go(api_actor *actor);

/* Puts a future with the actor's reference to it among what the actor holds, or lets it go. */
void api_hold(api_actor *actor, api_held held);

/* Checks one that is held, and that it has resolved if it must have; whether it has. */
bool api_check_held(api_held *held, bool must_be);

/* What must be true of a future that has resolved: its error agrees with its status. */
void api_check_resolved(ferry_future *future);

/* A record of the world's pool; NULL: all are used. */
api_record *api_record_take(api_world *world, api_random *random);

/* A function for ferry_call whose arg is a record: acts a little, then returns its result. */
ferry_status api_called(void *record);

/* What callbacks do: a few random acts. */
void api_act_within(api_record *record);

/* For ferry_call_async: whoever comes across the record's promise ends it, cancel at the latest. */
void api_begin(void *record, ferry_promise *promise);
void api_cancel(void *record);

/* Holds a future; false: it was refused at once. */
bool api_keep(api_actor *actor, ferry_future *future);

/* Registers the record's waiter for a cancel of the promise, whose future it is. */
void api_wait_for_cancel(api_record *record, ferry_promise *promise, ferry_future *future,
                         ferry_executor *executor);

/* Registers the record's waiter on a future; the record gets a reference. */
void api_wait_for(api_record *record, ferry_future *future, ferry_executor *executor);

ferry_executor *api_executor(api_actor *actor);
ferry_buffer *api_buffer(api_actor *actor); /* borrowed; NULL: none */
api_held *api_some_held(api_actor *actor);  /* NULL: none */
ferry_op_options api_options(api_actor *actor, api_room *room);

void api_bag_init(api_bag *bag);
bool api_bag_run_one(api_bag *bag, api_random *random); /* false: it is empty */
void api_bag_open(api_bag *bag);                        /* runs all; from now on at once */

/* Acts of other files; false: refused. */
bool api_act_looks(api_actor *actor);
bool api_act_bad_input(api_actor *actor);
bool api_act_group(api_actor *actor);
bool api_act_queue(api_actor *actor);
bool api_act_take(api_actor *actor);
bool api_act_scope(api_actor *actor);
bool api_act_stats(api_actor *actor);
bool api_act_promise(api_actor *actor);
bool api_act_end_promise(api_actor *actor);
bool api_act_async(api_actor *actor);
bool api_act_on_cancel(api_actor *actor);
bool api_act_end_begun(api_actor *actor);
bool api_act_message(api_actor *actor);
bool api_act_plan(api_actor *actor);
bool api_act_reshard(api_actor *actor);
bool api_act_window(api_actor *actor);
bool api_act_symmetric(api_actor *actor);
bool api_act_notice(api_actor *actor);

/* Joins a group of one through a store in memory; NULL: that failed, as it may without memory. */
ferry_group *api_group_join(api_world *world);

/* The world's scopes, and one of them, or NULL, for an operation. */
void api_scopes_open(api_world *world);
void api_scopes_release(api_world *world);
ferry_scope *api_scope(api_actor *actor);

/* Takes what the world's queue has, and checks it; false: it has nothing. */
bool api_take_all(api_world *world);

/* Ends what was begun; and from now on whatever begins ends at once. */
void api_end_all_begun(api_world *world);

/* The tallies of all acts; ends with a NULL name. */
const api_tally *api_tallies(void);

#endif
