/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's shared memory wakes its peer through a socket whose name is the net namespace's, finds
 * segments by ipc namespace, pid and /dev/shm, and reads the other's memory as the user namespace
 * and the user allow: so all of these make the host.
 */
#include "net/host.h"

#include <errno.h>
#include <fcntl.h>
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
#define START_TIME_FIELD 22
#define FLAG_EXITING 0x4 /* the kernel's PF_EXITING, since its first versions */

/* Up to size - 1 bytes and a zero; 0: nothing. */
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

void fry_host_identify(uint8_t host[FRY_HOST_BYTES])
{
    static const char *const places[] = {"/proc/self/ns/net", "/proc/self/ns/pid",
                                         "/proc/self/ns/ipc", "/proc/self/ns/user", "/dev/shm"};
    char boot[BOOT_ID_BYTES + 1];
    crypto_generichash_state state;

    memset(host, 0, FRY_HOST_BYTES);
    if (read_text("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) != BOOT_ID_BYTES)
        return;
    (void)crypto_generichash_init(&state, NULL, 0, FRY_HOST_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)boot, BOOT_ID_BYTES);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct stat found;
        if (stat(places[i], &found) != 0)
            return;
        const uint64_t words[] = {found.st_dev, found.st_ino};
        (void)crypto_generichash_update(&state, (const uint8_t *)words, sizeof(words));
    }
    const uint64_t user = geteuid();
    (void)crypto_generichash_update(&state, (const uint8_t *)&user, sizeof(user));
    (void)crypto_generichash_final(&state, host, FRY_HOST_BYTES);
}

/* Its state, flags and start; false: it is not there, or can't be seen. */
static bool read_process(int64_t pid, char *state, unsigned *flags, uint64_t *started)
{
    char path[64], text[1024];

    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (read_text(path, text, sizeof(text)) == 0)
        return false;
    /* The second field is a name of any letters, in brackets. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < START_TIME_FIELD; field++) {
        at = strchr(at + 1, ' ');
        if (at != NULL && field + 1 == STATE_FIELD)
            *state = at[1];
        if (at != NULL && field + 1 == FLAGS_FIELD)
            *flags = (unsigned)strtoul(at + 1, NULL, 10);
    }
    if (at != NULL)
        *started = strtoull(at + 1, NULL, 10);
    return at != NULL;
}

uint64_t fry_process_started(int64_t pid)
{
    char state = 0;
    unsigned flags = 0;
    uint64_t started = 0;

    return read_process(pid, &state, &flags, &started) ? started : 0;
}

bool fry_process_is_ending(int64_t pid, uint64_t started)
{
    char state = 0;
    unsigned flags = 0;
    uint64_t found = 0;

    /*
     * These are the first thread's. Files are closed by the last thread that has them, each after
     * it let go of the memory: so where they are closed by dying, the first thread is dying. It
     * proves nothing of one whose first thread ended while others run on; but somebody would have
     * to cut its sockets too.
     */
    return !read_process(pid, &state, &flags, &found) || found != started || state == 'Z' ||
           state == 'X' || (flags & FLAG_EXITING) != 0;
}

static int open_pid(int64_t pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0); /* close-on-exec */
}

fry_process_result fry_process_watch(int64_t pid, uint64_t started, int *fd_p)
{
    if (pid == getpid())
        return fry_process_started(pid) == started ? FRY_PROCESS_IS_OWN : FRY_PROCESS_GONE;
    const int fd = open_pid(pid);
    if (fd < 0)
        return errno == ESRCH ? FRY_PROCESS_GONE : FRY_PROCESS_UNKNOWN;
    /*
     * Looked at once the descriptor is there: if who has the number now was started when the
     * sender was, it is the sender, and so is whom the descriptor is of, since a number goes to
     * another only after its owner has ended, and then the two would differ.
     */
    if (fry_process_started(pid) != started) {
        (void)close(fd);
        return FRY_PROCESS_GONE;
    }
    *fd_p = fd;
    return FRY_PROCESS_WATCHED;
}

bool fry_process_can_watch(void)
{
    const int fd = open_pid(getpid());

    if (fd < 0)
        return false;
    (void)close(fd);
    return fry_process_started(getpid()) != 0;
}
