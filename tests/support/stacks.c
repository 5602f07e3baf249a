/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/stacks.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 8 /* children of children */

static void show_thread(pid_t pid, const char *thread)
{
    static const char *const names[] = {"comm", "wchan", "syscall"};
    fprintf(stderr, "    thread %s:", thread);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[PATH_MAX];
        char text[160];
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", (int)pid, thread, names[i]);
        FILE *file = fopen(path, "re");
        if (file && fgets(text, sizeof(text), file))
            fprintf(stderr, " %.*s", (int)strcspn(text, "\n"), text);
        if (file)
            (void)fclose(file);
    }
    fputc('\n', stderr);
}

static void show_command(pid_t pid)
{
    char path[64];
    char text[160] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        (void)fclose(file);
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    fprintf(stderr, "  process %d: %s\n", (int)pid, text);
}

static void show_process(pid_t pid)
{
    char command[256];
    (void)snprintf(command, sizeof(command),
                   "command -v gdb >/dev/null && timeout 60 gdb -p %d -batch -ex 'thread apply all "
                   "bt 16' 2>/dev/null | grep '^\\(#\\|Thread\\)' >&2",
                   (int)pid);
    (void)!system(command);
}

static void show_tree(pid_t pid, unsigned depth);

static void show_children(pid_t pid, const char *thread, unsigned depth)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    int child = 0;
    while (file && fscanf(file, "%d", &child) == 1)
        show_tree(child, depth);
    if (file)
        (void)fclose(file);
}

static void show_tree(pid_t pid, unsigned depth)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads)
        return;
    show_command(pid);
    for (const struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] != '.')
            show_thread(pid, entry->d_name);
    }
    show_process(pid);
    rewinddir(threads);
    for (const struct dirent *entry; depth < DEPTH_MAX && (entry = readdir(threads));) {
        if (entry->d_name[0] != '.')
            show_children(pid, entry->d_name, depth + 1);
    }
    (void)closedir(threads);
}

void stacks_show(pid_t pid)
{
    (void)fflush(stdout);
    show_tree(pid, 0);
    (void)fflush(stderr);
}
