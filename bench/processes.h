/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the bench runs as processes of its own, and what they print. */
#ifndef FRY_BENCH_PROCESSES_H
#define FRY_BENCH_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define BENCH_ARGUMENTS_MAX 32
#define BENCH_FOLDER_BYTES 64

typedef struct bench_command {
    const char *arguments[BENCH_ARGUMENTS_MAX]; /* NULL at the end; the first is the program */
    int link_fd;                                /* what it has as descriptor 3; -1: nothing */
    int network_fd;                             /* its network namespace; -1: this one's */
    int cpu;                                    /* the nth that may be used; -1: any */
    const char *set;                            /* "NAME=VALUE" for its environment; NULL: none */
} bench_command;

#define BENCH_COMMAND_INIT                                                                         \
    {                                                                                              \
        .link_fd = -1, .network_fd = -1, .cpu = -1                                                 \
    }

typedef struct bench_process {
    pid_t pid;
    int output_fd;
    int input_fd; /* a line to it; -1: none */
    const char *name;
} bench_process;

/* It dies with the bench, and by itself after a minute and a half. */
bench_process bench_process_start(const bench_command *command);

/* A line that it prints, without the newline; valid until the next. Fails the bench at its end. */
const char *bench_process_line(bench_process *process);

/* One to it. */
void bench_process_tell(const bench_process *process, const char *line);

/* All that it still prints, valid until the next; its exit status must be 0. */
const char *bench_process_end(bench_process *process);
void bench_process_kill(bench_process *process);

/* The number after "name=" or "\"name\":" in a text; fails the bench if there is none. */
double bench_text_number(const char *text, const char *name);

/* A program beside this one in the build tree, or an empty path if it was not built. */
void bench_find_program(char *path, size_t path_bytes, const char *name);

/* This program. */
const char *bench_own_path(void);

/* A folder of its own, and its end. */
void bench_folder_make(char folder[BENCH_FOLDER_BYTES]);
void bench_folder_remove(const char *folder);

/*
 * Two network namespaces with a cable between their "eth0", 10.78.0.1 and 10.78.0.2, which go with
 * this process. False: not allowed here, or no `ip`. Made once.
 */
bool bench_hosts_open(int network_fds[2]);

/* For a child that has moved to one of them: a /sys that shows it. 0 or -1. */
int bench_own_sysfs(void);

/* ---- etcd, on loopback ---- */

typedef struct bench_etcd {
    bench_process process;
    char folder[BENCH_FOLDER_BYTES];
    char uri[64];
} bench_etcd;

/* False: it is not installed. */
bool bench_etcd_start(bench_etcd *etcd);
void bench_etcd_stop(bench_etcd *etcd);

#endif
