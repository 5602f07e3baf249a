/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry reshard`: the schedule of a reshard, on paper. */
#ifndef RESHARD_COMMAND_H
#define RESHARD_COMMAND_H

/* Returns the exit status. */
int reshard_command_run(int argc, char **argv);

#endif
