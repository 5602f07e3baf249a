/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host is what all of these agree on. UCX's shared memory wakes its peer through a socket with a
 * name of the net namespace, finds segments by ipc namespace, pid and /dev/shm, and reads the
 * other's memory as the user namespace and the user allow. Start times are told as the time
 * namespace has them, so that of another one a running process looks like one whose number was used
 * again.
 */
#include "net/connect/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BOOT_ID_BYTES 36
#define STATE_FIELD 3 /* of /proc/PID/stat (proc(5)) */
#define FLAGS_FIELD 9
#define THREADS_FIELD 20
#define START_TIME_FIELD 22
#define FLAG_EXITING 0x4 /* the kernel's PF_EXITING, since its first versions */

/* Reads up to size - 1 bytes and adds a zero; 0: nothing was read. */
static size_t read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    const ssize_t count = read(fd, text, size - 1);
    (void)close(fd);
    if (count <= 0)
        return 0;
    text[count] = 0;
    return (size_t)count;
}

void fry_machine_identify(uint8_t host[FRY_MACHINE_BYTES])
{
    static const char *const places[] = {"/proc/self/ns/net", "/proc/self/ns/pid",
                                         "/proc/self/ns/ipc", "/proc/self/ns/user", "/dev/shm"};
    char boot[BOOT_ID_BYTES + 1];
    crypto_generichash_state state;

    memset(host, 0, FRY_MACHINE_BYTES);
    if (read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) != BOOT_ID_BYTES)
        return;
    (void)crypto_generichash_init(&state, NULL, 0, FRY_MACHINE_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)boot, BOOT_ID_BYTES);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct stat found;
        if (stat(places[i], &found) != 0)
            return;
        const uint64_t words[] = {found.st_dev, found.st_ino};
        (void)crypto_generichash_update(&state, (const uint8_t *)words, sizeof(words));
    }
    struct stat time_namespace = {0}; /* Linux before 5.6 has none */
    (void)stat("/proc/self/ns/time", &time_namespace);
    const uint64_t words[] = {time_namespace.st_dev, time_namespace.st_ino, geteuid()};
    (void)crypto_generichash_update(&state, (const uint8_t *)words, sizeof(words));
    (void)crypto_generichash_final(&state, host, FRY_MACHINE_BYTES);
}

typedef struct process {
    char state;
    unsigned flags;
    long threads;
    uint64_t started;
} process;

/* False: the process does not exist, or can't be seen. */
static bool read_process(int64_t pid, process *found)
{
    char path[64], text[1024];

    *found = (process){0};
    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (read_text(path, text, sizeof(text)) == 0)
        return false;
    /* The second field is a name of any characters, in brackets. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < START_TIME_FIELD; field++) {
        at = strchr(at + 1, ' ');
        if (at == NULL)
            return false;
        if (field + 1 == STATE_FIELD)
            found->state = at[1];
        else if (field + 1 == FLAGS_FIELD)
            found->flags = (unsigned)strtoul(at + 1, NULL, 10);
        else if (field + 1 == THREADS_FIELD)
            found->threads = strtol(at + 1, NULL, 10);
        else if (field + 1 == START_TIME_FIELD)
            found->started = strtoull(at + 1, NULL, 10);
    }
    return found->started != 0;
}

uint64_t fry_process_started(int64_t pid)
{
    process found;

    return read_process(pid, &found) ? found.started : 0;
}

/*
 * Reading takes a descriptor, and some mounts of /proc hide others' processes. So a process has
 * ended only if the kernel says that it does not exist.
 */
fry_process_state fry_process_look(int64_t pid, uint64_t started)
{
    process found;

    if (!read_process(pid, &found))
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? FRY_PROCESS_ENDED : FRY_PROCESS_UNKNOWN;
    if (found.started != started)
        return FRY_PROCESS_ENDED;
    /* State and flags are those of the first thread, which stays until the others have ended. */
    const bool is_first_over = found.state == 'Z' || found.state == 'X';
    if (is_first_over && found.threads <= 1)
        return FRY_PROCESS_ENDED;
    return is_first_over || (found.flags & FLAG_EXITING) != 0 ? FRY_PROCESS_ENDING
                                                              : FRY_PROCESS_RUNS;
}

bool fry_process_is_ending(int64_t pid, uint64_t started)
{
    /*
     * The last thread that has files closes them, and each thread leaves them after it let go of
     * the memory. So if files are closed by dying, the first thread is dying. It proves nothing of
     * a process whose first thread ended while others run on; but somebody would have to cut its
     * sockets too.
     */
    return fry_process_look(pid, started) >= FRY_PROCESS_ENDING;
}

static int open_pid(int64_t pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0); /* close-on-exec */
}

fry_process_result fry_process_watch(int64_t pid, uint64_t started, int *fd_p)
{
    if (pid == getpid()) /* no other process of this host has that number now */
        return fry_process_look(pid, started) == FRY_PROCESS_ENDED ? FRY_PROCESS_GONE
                                                                   : FRY_PROCESS_IS_OWN;
    const int fd = open_pid(pid);
    if (fd < 0)
        return errno == ESRCH ? FRY_PROCESS_GONE : FRY_PROCESS_UNWATCHED;
    /*
     * Looks after the descriptor was made. If the process that has the number now started when the
     * sender did, it is the sender. Then the descriptor is the sender's too: a number goes to
     * another process only after its owner has ended, and then the start times would differ.
     */
    const fry_process_state state = fry_process_look(pid, started);
    const int error = errno;
    if (state == FRY_PROCESS_RUNS || state == FRY_PROCESS_ENDING) {
        *fd_p = fd;
        return FRY_PROCESS_WATCHED;
    }
    (void)close(fd);
    errno = error;
    return state == FRY_PROCESS_ENDED ? FRY_PROCESS_GONE : FRY_PROCESS_UNWATCHED;
}

bool fry_process_can_watch(void)
{
    const int fd = open_pid(getpid());

    if (fd < 0)
        return false;
    (void)close(fd);
    return fry_process_started(getpid()) != 0;
}
