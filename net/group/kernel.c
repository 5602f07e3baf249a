/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of members of this host: whether their processes still run. A process is
 * identified by its number and the moment it began, within one boot and one pid namespace. Numbers
 * are used again, moments are not.
 */
#include "net/group/kernel.h"

#include "net/connect/process.h"
#include "net/group/state.h"
#include "net/group/text.h"

#include <fcntl.h>
#include <stdio.h>
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

void fry_group_own_process(fry_group_record *record)
{
    fry_group_process *process = &record->process;
    char text[128];
    struct stat namespace_;

    process->pid = getpid();
    if (gethostname(record->host, sizeof record->host) != 0)
        record->host[0] = '\0';
    record->host[sizeof record->host - 1] = '\0';
    for (char *c = record->host; *c != '\0'; c++) {
        if (*c < 0x21 || *c > 0x7e)
            *c = '?';
    }
    const size_t bytes = read_file("/proc/sys/kernel/random/boot_id", text, sizeof text / 2);
    if (bytes == 0 || stat("/proc/self/ns/pid", &namespace_) != 0)
        return;
    process->started = fry_process_started(process->pid);
    if (process->started == 0)
        return;
    const int more = snprintf(text + bytes, sizeof text - bytes, "%ju:%ju",
                              (uintmax_t)namespace_.st_dev, (uintmax_t)namespace_.st_ino);
    process->kernel = fry_group_hash(text, bytes + (size_t)more);
}

fry_process_state fry_group_process_of(const fry_group *group, const fry_group_process *process)
{
    const fry_group_process *own = &group->record.process;

    if (own->kernel == 0 || process->kernel != own->kernel || process->started == 0 ||
        process->pid <= 0)
        return FRY_PROCESS_UNKNOWN;
    if (process->pid == own->pid && process->started == own->started)
        return FRY_PROCESS_UNKNOWN; /* this process runs, but that says nothing of a group in it */
    return fry_process_look(process->pid, process->started);
}
