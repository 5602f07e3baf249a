/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a process for its engine's figures, by the socket that the engine has made. */
#ifndef STATS_CLIENT_H
#define STATS_CLIENT_H

#include <jansson.h>
#include <stddef.h>

#define STATS_PROBLEM_BYTES 512

typedef enum stats_result {
    STATS_OK,
    STATS_GONE,    /* no process serves the socket */
    STATS_FAILED,  /* there is no answer, or none that can be understood */
    STATS_REFUSED, /* the process says that it can't answer; it may later */
    STATS_STOPPED, /* stop_fd became readable */
} stats_result;

/*
 * Sends a request, "stats" or "dump", and waits some seconds for the answer.
 *  stop_fd   a descriptor that ends the waiting when it becomes readable; -1: none
 *  answer_p  receives the JSON object, only with STATS_OK; the caller releases it
 *  problem   receives what is wrong, with the path, in other cases
 */
stats_result stats_client_ask(const char *path, const char *request, int stop_fd, json_t **answer_p,
                              char problem[STATS_PROBLEM_BYTES]);

#endif
