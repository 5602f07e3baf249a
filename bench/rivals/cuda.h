/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU as programs use it without ferry: what stands around ferry in a case, and what its rivals
 * are made of. CUDA's handles are void pointers here, so that CUDA's headers stay in this folder;
 * cudaStream_t and cudaEvent_t are pointers, which is how ferry takes them too. Every function
 * fails the bench if CUDA does. All are for GPU 0.
 */
#ifndef FRY_BENCH_RIVALS_CUDA_H
#define FRY_BENCH_RIVALS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cuda_facts {
    char name[256];
    bool is_emulated;                    /* by tests/emu */
    int driver_version, runtime_version; /* 13000 is 13.0 */
    int multiprocessors;
    int clock_khz, memory_clock_khz; /* the peaks */
    uint64_t memory_bytes;
} cuda_facts;

/* Makes GPU 0 current and loads the kernels; once. The facts stay. */
const cuda_facts *cuda_open(void);

/* Only what tells what there is; makes no context. NULL and why, if there is no GPU. */
const cuda_facts *cuda_look(const char **reason);

/* Calls to the driver so far, by all threads; false: nobody counts them, for it is a real one. */
bool cuda_driver_calls(uint64_t *count_p);

/* ---- memory ---- */

void *cuda_memory_alloc(size_t size_bytes); /* the GPU's */
void cuda_memory_free(void *memory);
void *cuda_pinned_alloc(size_t size_bytes); /* the host's, zeroed; the GPU sees it too */
void cuda_pinned_free(void *memory);

/* Waits for the copy, whatever the two are. */
void cuda_copy_now(void *target, const void *source, size_t size_bytes);

/* ---- streams and events ---- */

/* Independent of the legacy stream. */
void *cuda_stream_open(bool is_highest_priority);
void cuda_stream_close(void *stream);
void cuda_stream_synchronize(void *stream); /* as the driver likes to: by spinning */
void cuda_stream_wait(void *stream, void *event);
void cuda_synchronize(void);

typedef enum cuda_event_kind {
    CUDA_EVENT_PLAIN,    /* without a time, as those that only order */
    CUDA_EVENT_BLOCKING, /* who waits for it sleeps */
    CUDA_EVENT_TIMED,
} cuda_event_kind;

void *cuda_event_open(cuda_event_kind kind);
void cuda_event_close(void *event);
void cuda_event_record(void *event, void *stream);
bool cuda_event_is_fired(void *event);
void cuda_event_synchronize(void *event);

/* Between two timed events, on the device's clock. Both have fired. */
double cuda_event_elapsed_ns(void *start, void *end);

/* ---- what runs on streams ---- */

void cuda_copy(void *target, const void *source, size_t size_bytes, void *stream);

/* Copies of one size, any order among them, by one call; false: this driver has no such call. */
bool cuda_copy_batch(void *const *targets, void *const *sources, size_t size_bytes, size_t count,
                     void *stream);

/* The stream writes a number to pinned memory; false: this driver can't. */
bool cuda_word_write(uint32_t *word, uint32_t value, void *stream);

void cuda_host_call(void (*fn)(void *arg), void *arg, void *stream);

/* One thread that is busy for so long. */
void cuda_spin(int64_t duration_ns, void *stream);

/* Until *flag, in pinned memory, is the value: the stream stands still until the host says. */
void cuda_wait_flag(const uint32_t *flag, uint32_t value, void *stream);

/* The least there is to launch: writes one number. */
void cuda_touch(uint32_t *word, uint32_t value, void *stream);

/* words[i] = seed ^ (i * 0x9e3779b97f4a7c15), and how many are not that. */
void cuda_pattern_fill(void *words, size_t size_bytes, uint64_t seed, void *stream);
uint32_t cuda_pattern_errors(const void *words, size_t size_bytes, uint64_t seed);

/* A layer of the demo's perceptron: out = rectify(in x weights); keeps the whole GPU busy if there
 * are rows enough. The width is a multiple of 16. */
void cuda_layer(size_t width, size_t rows, const void *weights, const void *in, void *out,
                void *stream);

#endif
