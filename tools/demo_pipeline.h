/* SPDX-License-Identifier: Apache-2.0 */
/* `ferry demo pipeline`. */
#ifndef DEMO_PIPELINE_H
#define DEMO_PIPELINE_H

/*
 * Runs the demo. argv[0] is the command as shown in messages. Returns the exit status; may exit on
 * --help or bad options.
 */
int demo_pipeline_run(int argc, char **argv);

#endif
