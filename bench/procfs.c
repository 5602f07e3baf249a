/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/procfs.h"

#include "bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLEEP_LIMIT_NS INT64_C(1000000000)

void bench_threads_list(bench_threads *threads)
{
    threads->count = 0;
    DIR *directory = opendir("/proc/self/task");
    if (directory == NULL)
        bench_fail("cannot read /proc/self/task");
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (threads->count == BENCH_THREADS_MAX)
            bench_fail("more than %d threads", BENCH_THREADS_MAX);
        threads->ids[threads->count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    (void)closedir(directory);
}

void bench_threads_subtract(bench_threads *threads, const bench_threads *others)
{
    size_t kept = 0;
    for (size_t i = 0; i < threads->count; i++) {
        size_t k = 0;
        while (k < others->count && others->ids[k] != threads->ids[i])
            k++;
        if (k == others->count)
            threads->ids[kept++] = threads->ids[i];
    }
    threads->count = kept;
}

/* The start of a file, as a string. */
static void read_file(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, text_bytes - 1);
    if (size <= 0)
        bench_fail("cannot read %s", path);
    text[size] = '\0';
    (void)close(fd);
}

static void read_thread_file(pid_t id, const char *name, char *text, size_t text_bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)id, name);
    read_file(path, text, text_bytes);
}

static uint64_t find_number(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    if (found == NULL)
        bench_fail("no %s in a status", key);
    return strtoull(found + strlen(key), NULL, 10);
}

uint64_t bench_threads_switches(const bench_threads *threads)
{
    uint64_t switches = 0;
    for (size_t i = 0; i < threads->count; i++) {
        char text[4096];
        read_thread_file(threads->ids[i], "status", text, sizeof text);
        switches += find_number(text, "\nvoluntary_ctxt_switches:");
        switches += find_number(text, "\nnonvoluntary_ctxt_switches:");
    }
    return switches;
}

int64_t bench_rss_bytes(void)
{
    char text[4096];
    read_file("/proc/self/status", text, sizeof text);
    return (int64_t)find_number(text, "\nVmRSS:") * 1024;
}

void bench_thread_await_sleep(pid_t id)
{
    int64_t limit_ns = bench_now_ns() + SLEEP_LIMIT_NS;
    for (;;) {
        char text[256];
        read_thread_file(id, "stat", text, sizeof text);
        /* The name stands in parentheses and may hold some itself; the state follows the last one.
         */
        const char *name_end = strrchr(text, ')');
        if (name_end != NULL && strncmp(name_end, ") S", 3) == 0)
            return;
        if (bench_now_ns() > limit_ns)
            bench_fail("thread %d does not go to sleep", (int)id);
    }
}

cpu_set_t bench_cpus_allowed(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        bench_fail("cannot read the CPU affinity");
    return allowed;
}

void bench_thread_pin(pid_t id, const cpu_set_t *allowed, int nth)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, allowed) && nth-- == 0) {
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(id, sizeof one, &one);
            return;
        }
    }
}
