/* SPDX-License-Identifier: Apache-2.0 */
/* All environment variables that ferry reads; base/environment.c alone reads them. */
#ifndef FRY_BASE_ENVIRONMENT_H
#define FRY_BASE_ENVIRONMENT_H

#define FRY_ENVIRONMENT_MAP(X)                                                                     \
    X(FERRY_LOG, "highest level of log lines on stderr: error, warning (default), info, debug")    \
    X(FERRY_TRACE, "trace file of all engines, from the first engine until the process exits; "    \
                   "%p becomes the process id")                                                    \
    X(FERRY_NVTX, "1: operations are NVTX ranges; 0: never; default: if a tool is injected")       \
    X(FERRY_MODULE_PATH, "folder with ferry's modules (ferry_cuda.so); default: the folder ferry " \
                         "beside the library")                                                     \
    X(NVTX_INJECTION64_PATH, "library of an NVTX tool, as set by the tool; turns FERRY_NVTX on")

#define FRY_ENVIRONMENT_ENUM_(name, text) FRY_ENV_##name,
typedef enum fry_environment_variable {
    FRY_ENVIRONMENT_MAP(FRY_ENVIRONMENT_ENUM_) FRY_ENVIRONMENT_COUNT
} fry_environment_variable;
#undef FRY_ENVIRONMENT_ENUM_

/*
 * Value of a variable, valid until the environment is changed. NULL if the variable is not set or
 * empty, and always in a program with more rights than its caller, because FERRY_TRACE would write
 * files with those rights.
 */
const char *fry_environment(fry_environment_variable variable);

/* Name of a variable, and one line of text about it. Static strings. */
const char *fry_environment_name(fry_environment_variable variable);
const char *fry_environment_text(fry_environment_variable variable);

#endif
