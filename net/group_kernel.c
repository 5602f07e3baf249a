/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of members of this host: whether their processes still run. A process is
 * known by its number and the moment it began, among the processes of one boot and one namespace
 * of them; numbers are used again, moments are not.
 */
#include "net/group_state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t read_file(const char *path, char *text, size_t text_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = -1;

    if (fd >= 0) {
        bytes = read(fd, text, text_bytes - 1);
        (void)close(fd);
    }
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (size_t)bytes : 0;
}

/* State and start of a process; false: there is none, or /proc does not say. */
static bool read_process(int64_t pid, char *state_p, uint64_t *started_p)
{
    char path[64], text[1024];

    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (read_file(path, text, sizeof text) == 0)
        return false;
    /* "pid (name) S ..." with anything in the name; the start is the 22nd field. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return false;
    *state_p = at[2];
    for (int field = 2; field < 22; field++) {
        at = strchr(at + 1, ' ');
        if (at == NULL)
            return false;
    }
    *started_p = strtoull(at, NULL, 10);
    return *started_p != 0;
}

void fry_group_own_process(fry_group_record *record)
{
    char text[128];
    struct stat namespace_;
    char state;

    record->pid = getpid();
    if (gethostname(record->host, sizeof record->host) != 0)
        record->host[0] = '\0';
    record->host[sizeof record->host - 1] = '\0';
    for (char *c = record->host; *c != '\0'; c++) {
        if (*c < 0x21 || *c > 0x7e)
            *c = '?';
    }
    const size_t bytes = read_file("/proc/sys/kernel/random/boot_id", text, sizeof text / 2);
    if (bytes == 0 || stat("/proc/self/ns/pid", &namespace_) != 0 ||
        !read_process(record->pid, &state, &record->pid_started)) {
        record->pid_started = 0;
        return;
    }
    const int more = snprintf(text + bytes, sizeof text - bytes, "%ju:%ju",
                              (uintmax_t)namespace_.st_dev, (uintmax_t)namespace_.st_ino);
    record->kernel = fry_group_hash(text, bytes + (size_t)more);
}

fry_process_state fry_group_process_of(const fry_group *group, const fry_presence *presence)
{
    const fry_group_record *own = &group->record;
    uint64_t started;
    char state;

    if (own->kernel == 0 || presence->kernel != own->kernel || presence->pid_started == 0 ||
        presence->info.pid <= 0)
        return FRY_PROCESS_UNKNOWN;
    if (presence->info.pid == own->pid && presence->pid_started == own->pid_started)
        return FRY_PROCESS_UNKNOWN; /* this process runs; that says nothing of a group in it */
    if (!read_process(presence->info.pid, &state, &started))
        return FRY_PROCESS_ENDED;
    if (started != presence->pid_started || state == 'Z' || state == 'X')
        return FRY_PROCESS_ENDED;
    return FRY_PROCESS_RUNS;
}
