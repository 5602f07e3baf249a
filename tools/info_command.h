/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry info`: what this build of ferry has and can do on this machine. */
#ifndef FRY_TOOLS_INFO_COMMAND_H
#define FRY_TOOLS_INFO_COMMAND_H

/* Takes the command line from the command's name on; returns the exit status. */
int info_command_run(int argc, char **argv);

#endif
