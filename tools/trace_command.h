/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry trace`. */
#ifndef TRACE_COMMAND_H
#define TRACE_COMMAND_H

/*
 * Runs the command. argv[0] is the command as shown in messages. Returns the exit status; may exit
 * on --help or bad options.
 */
int trace_command_run(int argc, char **argv);

#endif
