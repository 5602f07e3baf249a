/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that ferry reads: all of them stand here, and only here are they read.
 */
#ifndef FRY_BASE_ENVIRONMENT_H
#define FRY_BASE_ENVIRONMENT_H

#define FRY_ENVIRONMENT_MAP(X)                                                                     \
    X(FERRY_LOG, "highest level of log lines on stderr: error, warning (default), info, debug")    \
    X(FERRY_TRACE, "file that every engine is traced into, from the first engine to the exit; "    \
                   "%p becomes the process id")                                                    \
    X(FERRY_NVTX, "1: operations are NVTX ranges, 0: never; default: where a tool is injected")    \
    X(FERRY_MODULE_PATH, "folder with ferry's modules (ferry_cuda.so); default: the folder ferry " \
                         "beside the library")                                                     \
    X(NVTX_INJECTION64_PATH, "library of an NVTX tool, as set by the tool; turns FERRY_NVTX on")

#define FRY_ENVIRONMENT_ENUM_(name, text) FRY_ENV_##name,
typedef enum fry_environment_variable {
    FRY_ENVIRONMENT_MAP(FRY_ENVIRONMENT_ENUM_) FRY_ENVIRONMENT_COUNT
} fry_environment_variable;
#undef FRY_ENVIRONMENT_ENUM_

/*
 * Its value, or NULL if it is not set or empty, and always in a program that runs with more rights
 * than its caller: FERRY_TRACE would write files with them. Valid until the environment is changed.
 */
const char *fry_environment(fry_environment_variable variable);

/* Its name and its one line of text. Static strings. */
const char *fry_environment_name(fry_environment_variable variable);
const char *fry_environment_text(fry_environment_variable variable);

#endif
