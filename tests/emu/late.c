/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that come late. What a stream writes to memory for the host may be seen there after the
 * stream, and an event behind the write, count as done. If a test asks for it such words lie here
 * for a while first: a thread writes them, in the order in which their streams did.
 */
#include "tests/emu/driver.h"
#include <signal.h>
#include <stdlib.h>
#include <time.h>

typedef struct late_word {
    TAILQ_ENTRY(late_word) entry;
    CUstream stream; /* a reference */
    void *memory;
    uint64_t value;
    size_t size_bytes; /* 4 or 8 */
    int64_t due_ns;
} late_word;

static TAILQ_HEAD(, late_word) words = TAILQ_HEAD_INITIALIZER(words);
static pthread_cond_t more;
static bool has_thread;
static int64_t most_ns; /* 0: none is late */
static int64_t last_due_ns;
static uint64_t random_state = 0x9e3779b97f4a7c15;

void emu_word_write(void *memory, uint64_t value, size_t size_bytes)
{
    if (size_bytes == 4)
        atomic_store_explicit((_Atomic(uint32_t) *)memory, (uint32_t)value, memory_order_release);
    else
        atomic_store_explicit((_Atomic(uint64_t) *)memory, value, memory_order_release);
}

/* With the lock. Of a context that has failed nothing comes any more. */
static void arrive(late_word *word)
{
    emu_allocation *allocation;

    if (emu_context_error(word->stream->context) == CUDA_SUCCESS) {
        if (emu_pointer_kind(word->memory, word->size_bytes, &allocation) == EMU_POINTER_KNOWN)
            emu_word_write(word->memory, word->value, word->size_bytes);
        else
            emu_catch(EMU_CATCH_FREED,
                      "a word that stream %llu has written comes late to %p, which is not "
                      "allocated",
                      (unsigned long long)word->stream->id, word->memory);
    }
    emu_object_drop(word->stream);
    free(word);
}

static void *thread_main(void *unused)
{
    emu_lock();
    while (!emu.stopping) {
        late_word *const word = TAILQ_FIRST(&words);
        struct timespec until;

        if (word == NULL) {
            pthread_cond_wait(&more, &emu.mutex);
        } else if (word->due_ns > emu_now_ns()) {
            until = (struct timespec){.tv_sec = word->due_ns / 1000000000,
                                      .tv_nsec = word->due_ns % 1000000000};
            pthread_cond_timedwait(&more, &emu.mutex, &until);
        } else {
            TAILQ_REMOVE(&words, word, entry);
            arrive(word);
        }
    }
    emu_unlock();
    return unused;
}

static bool thread_start(void)
{
    pthread_condattr_t condition;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;

    if (has_thread)
        return true;
    pthread_condattr_init(&condition);
    pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    pthread_cond_init(&more, &condition);
    pthread_condattr_destroy(&condition);
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    has_thread = pthread_create(&thread, &attributes, thread_main, NULL) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return has_thread;
}

/* Between nothing and the most; one of eight up to four times that. */
static int64_t lateness_ns(void)
{
    const uint64_t luck = emu_random(&random_state);
    const uint64_t bound_ns = (uint64_t)most_ns * (luck % 8 == 0 ? 4 : 1);

    return (int64_t)((luck >> 8) % bound_ns);
}

bool emu_word_is_late(CUstream stream, void *memory, uint64_t value, size_t size_bytes)
{
    late_word *word;
    int64_t due_ns;

    if (most_ns == 0 || !thread_start())
        return false;
    due_ns = emu_now_ns() + lateness_ns();
    last_due_ns = due_ns > last_due_ns ? due_ns : last_due_ns;
    word = emu_allocate(sizeof *word);
    *word = (late_word){.stream = stream,
                        .memory = memory,
                        .value = value,
                        .size_bytes = size_bytes,
                        .due_ns = last_due_ns};
    emu_object_hold(stream);
    TAILQ_INSERT_TAIL(&words, word, entry);
    pthread_cond_signal(&more);
    return true;
}

bool emu_has_late_words(void)
{
    return !TAILQ_EMPTY(&words);
}

void emu_words_lag(int64_t late_ns)
{
    most_ns = late_ns;
}

void emu_late_words(int64_t late_ns)
{
    emu_lock();
    emu_words_lag(late_ns);
    emu_unlock();
}
