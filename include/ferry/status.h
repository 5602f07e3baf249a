/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and errors: the results of calls and futures. */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <ferry/export.h>
#include <ferry/types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One list for the enum, the names and the texts. Negative statuses are grouped by what the error
 * ends: -1.. a call, -32.. an operation, -64.. a connection to a member, -96.. a device, -128.. an
 * engine or its membership.
 */
#define FERRY_STATUS_MAP(X)                                                                        \
    X(FERRY_OK, 0, "success")                                                                      \
    X(FERRY_PENDING, 1, "not resolved yet")                                                        \
    X(FERRY_E_INVALID, -1, "invalid argument")                                                     \
    X(FERRY_E_NO_MEMORY, -2, "out of memory")                                                      \
    X(FERRY_E_AGAIN, -3, "a limit of the engine is reached; try again later")                      \
    X(FERRY_E_DEADLOCK, -4, "refused: the call would wait for itself")                             \
    X(FERRY_E_FORKED, -5, "refused: the engine belongs to the parent process")                     \
    X(FERRY_E_NOT_FOUND, -6, "not found")                                                          \
    X(FERRY_E_UNSUPPORTED, -7, "not supported here")                                               \
    X(FERRY_E_BUSY, -8, "in use, or another thread is doing this now")                             \
    X(FERRY_E_CAPTURE, -9, "refused: the stream is being captured")                                \
    X(FERRY_E_NOT_ISSUED, -10, "the operation has not been issued to a stream yet")                \
    X(FERRY_E_CHANGED, -11, "it exists already, or was changed meanwhile")                         \
    X(FERRY_E_CANCELLED, -32, "the operation was cancelled")                                       \
    X(FERRY_E_DEADLINE, -33, "the deadline passed")                                                \
    X(FERRY_E_DEPENDENCY, -34, "something the operation depends on failed")                        \
    X(FERRY_E_BROKEN_PROMISE, -35, "the promise was released before it was resolved")              \
    X(FERRY_E_FAILED, -36, "the user's function or promise reported a failure")                    \
    X(FERRY_E_LENGTH, -37, "the two ends of a transfer have different lengths")                    \
    X(FERRY_E_PEER, -64, "the connection to the other member failed")                              \
    X(FERRY_E_DEAD, -65, "a member has died or left")                                              \
    X(FERRY_E_DEVICE, -96, "the device reported an error")                                         \
    X(FERRY_E_SHUTDOWN, -128, "the engine is shutting down or shut down")                          \
    X(FERRY_E_SYSTEM, -129, "the operating system refused something the engine needs")             \
    X(FERRY_E_STORE, -130, "the store is unreachable, or its response is invalid")                 \
    X(FERRY_E_FENCED, -131, "this member was declared dead, or another has its place")

#define FERRY_STATUS_ENUM_(name, value, text) name = (value),
/* Result of a call or operation. Zero is success, positive is "not yet", negative an error. */
typedef enum ferry_status FERRY_INT_ENUM { FERRY_STATUS_MAP(FERRY_STATUS_ENUM_) } ferry_status;
#undef FERRY_STATUS_ENUM_

/*
 * Why something failed. ferry makes it; any thread may read it. An error borrowed from a future is
 * valid until the future's last reference is released. An error received through a ferry_error **
 * belongs to the caller, who releases it. Later versions may add fields at the end.
 */
typedef struct ferry_error {
    ferry_status status; /* the status of the future or call */
    ferry_rank rank;     /* member that caused it or that it is about; FERRY_RANK_NONE: this
                            process */
    const char *domain;  /* whose code native_code is: "ferry", "user"...; never NULL */
    int64_t native_code; /* code in that domain, 0 if none */
    uint64_t op;         /* id of the failed operation, 0 if none */
    const char *label;   /* label of the failed operation, or NULL */
    const char *message; /* one sentence, never NULL */
    const struct ferry_error *cause; /* the first error that led to this one, or NULL */
} ferry_error;

/*
 * Name of a status, for example "FERRY_E_AGAIN"; "FERRY_E_UNKNOWN" for a number that is no status.
 * Any thread; static string.
 */
FERRY_API const char *ferry_status_name(ferry_status status);

/* One line about a status; also answers a number that is no status. Any thread; static string. */
FERRY_API const char *ferry_status_text(ferry_status status);

/*
 * Releases an error that a call returned through a ferry_error **; call it once for each. An error
 * borrowed from a future must not be released. Frees it with the allocator that the call was given.
 * NULL is allowed. Any thread.
 */
FERRY_API void ferry_error_release(ferry_error *error);

#ifdef __cplusplus
}
#endif
#endif
