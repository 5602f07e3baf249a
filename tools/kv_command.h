/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry kv` and `ferry demo kv`. */
#ifndef KV_COMMAND_H
#define KV_COMMAND_H

/*
 * Serve a paged cache, and measure that. argv[0] is the command as shown in messages. Return the
 * exit status; may exit on --help or bad options.
 */
int kv_command_run(int argc, char **argv);
int kv_command_run_demo(int argc, char **argv);

#endif
