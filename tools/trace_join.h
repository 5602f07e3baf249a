/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a job's processes made one trace: a send and its receive have one number (flow) in
 * whatever files they stand. Processes of one host have one clock. Where clocks differ, a message
 * would be received before it was sent; then the times of a file are shifted.
 */
#ifndef TRACE_JOIN_H
#define TRACE_JOIN_H

#include "tools/trace_model.h"

/*
 * Shifts the files' times so that no message goes back in time. A file gets the shift of one before
 * it, if its messages allow that, as those of one host do; else it is in the middle of what its
 * messages allow, or as near as possible if they are all in one direction. So clocks of two that
 * have messages in both directions differ by no more than the shortest way there and back, if they
 * run alike. A file that has no message with another one is not shifted.
 */
trace_result trace_join_clocks(trace_model *model);

/* Sets each operation's peer. The model's operations have their places. */
trace_result trace_join_ends(trace_model *model);

#endif
