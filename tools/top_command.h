/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry top`: what an engine in another process does now, live in a terminal. */
#ifndef TOP_COMMAND_H
#define TOP_COMMAND_H

/* Takes the command line from the command's name on; returns the exit status. */
int top_command_run(int argc, char **argv);

#endif
