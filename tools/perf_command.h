/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry perf`. */
#ifndef PERF_COMMAND_H
#define PERF_COMMAND_H

/*
 * Measures. argv[0] is the command as shown in messages. Returns the exit status; may exit on
 * --help or bad options.
 */
int perf_command_run(int argc, char **argv);

#endif
