/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs without ferry notice on the host that what a stream holds is done. Each posts
 * something behind the stream's work and waits for it in the calling thread.
 */
#ifndef FRY_BENCH_RIVALS_CUDA_NOTICE_H
#define FRY_BENCH_RIVALS_CUDA_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cuda_notice {
    const char *name;
    bool is_asleep; /* who waits sleeps */
    void (*open)(void);
    void (*post)(void *stream);
    void (*await)(void *stream); /* returns once it is noticed */
    void (*close)(void);
} cuda_notice;

/*
 * "word": a thread that does nothing but look at a word which the stream writes. No host knows
 * earlier: the floor that the others stand on. NULL: this driver can't.
 */
const cuda_notice *cuda_notice_word(void);

/*
 * The mechanisms, by index; NULL past the last.
 *  "synchronize"        cudaStreamSynchronize, which spins
 *  "event-each"         an event made for each operation, asked again and again
 *  "event-head"         pooled events, of which the oldest is asked again and again
 *  "hostfn-eventfd"     a host function that writes an eventfd, on which epoll sleeps
 *  "synchronize-asleep" cudaEventSynchronize on an event whose waiters sleep
 */
const cuda_notice *cuda_notice_at(size_t index);

#endif
