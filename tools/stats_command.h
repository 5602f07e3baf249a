/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry stats`: the figures of an engine in another process. */
#ifndef STATS_COMMAND_H
#define STATS_COMMAND_H

/* Takes the command line from the command's name on; returns the exit status. */
int stats_command_run(int argc, char **argv);

#endif
