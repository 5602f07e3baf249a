/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/emu/ipc_file.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME "ferry-emu-ipc %016llx" /* of the file; the kernel shows it in /proc */
#define HANDLE_BYTES 64
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

_Static_assert(sizeof(emu_ipc_name) <= HANDLE_BYTES, "a handle of CUDA has room for it");
_Static_assert(sizeof(emu_ipc_name) == 56, "no gaps, whose bytes would be anything");

static const char magic[8] = "emu ipc";
static size_t file_count; /* with the driver's lock */

/* ---- Files ---------------------------------------------------------------------------------- */

/* Unlike that of any other process, and of one that had this process's number before. */
static uint64_t new_nonce(void)
{
    static uint64_t count;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    count++;
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15 ^
           (uint64_t)getpid() << 40 ^ count;
}

static bool has_room(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           file_count < limit.rlim_cur / 2;
}

bool emu_ipc_file_new(size_t size_bytes, emu_ipc_file *file)
{
    const uint64_t nonce = new_nonce();
    char name[64];
    int number;

    if (!has_room())
        return false;
    (void)snprintf(name, sizeof name, FILE_NAME, (unsigned long long)nonce);
    number = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (number < 0)
        return false;
    if (ftruncate(number, (off_t)size_bytes) != 0 || fcntl(number, F_ADD_SEALS, SEALS) != 0) {
        (void)close(number);
        return false;
    }
    file_count++;
    *file = (emu_ipc_file){number, nonce};
    return true;
}

void emu_ipc_file_close(emu_ipc_file *file)
{
    if (file->number < 0)
        return;
    (void)close(file->number);
    file_count--;
    *file = EMU_IPC_FILE_NONE;
}

/* Who opens one holds a shared lock meanwhile. */
bool emu_ipc_file_is_open(const emu_ipc_file *file)
{
    return file->number >= 0 && flock(file->number, LOCK_EX | LOCK_NB) != 0;
}

/* ---- Handles -------------------------------------------------------------------------------- */

/* FNV-1a: bytes that are no handle are told from one; who forges one can do that, too. */
static uint64_t check_of(const emu_ipc_name *name)
{
    const unsigned char *const bytes = (const unsigned char *)name;
    uint64_t check = 0xcbf29ce484222325;

    for (size_t i = 0; i < offsetof(emu_ipc_name, check); i++)
        check = (check ^ bytes[i]) * 0x100000001b3;
    return check;
}

void emu_ipc_name_write(const emu_ipc_name *name, const emu_ipc_file *file, char handle[64])
{
    emu_ipc_name whole = *name;

    memcpy(whole.magic, magic, sizeof magic);
    whole.pid = (int32_t)getpid();
    whole.number = file->number;
    whole.nonce = file->nonce;
    whole.check = check_of(&whole);
    memset(handle, 0, HANDLE_BYTES);
    memcpy(handle, &whole, sizeof whole);
}

bool emu_ipc_name_read(const char handle[64], emu_ipc_kind kind, emu_ipc_name *name)
{
    memcpy(name, handle, sizeof *name);
    return memcmp(name->magic, magic, sizeof magic) == 0 && name->check == check_of(name) &&
           name->kind == (uint32_t)kind && name->pid > 0 && name->number >= 0 &&
           name->ordinal >= 0 && name->size_bytes > 0;
}

/* Whether that number of that process (0: this one) is the file. */
static bool is_file(int pid, int number, uint64_t nonce)
{
    char path[64], wanted[96], found[96];
    ssize_t length;

    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid == 0 ? (int)getpid() : pid, number);
    (void)snprintf(wanted, sizeof wanted, "/memfd:" FILE_NAME " (deleted)",
                   (unsigned long long)nonce);
    length = readlink(path, found, sizeof found - 1);
    if (length < 0)
        return false;
    found[length] = '\0';
    return strcmp(found, wanted) == 0;
}

int emu_ipc_name_open(const emu_ipc_name *name, size_t size_bytes)
{
    char path[64];
    struct stat status;
    int number, seals;

    /* Asked before, so that nothing else is opened, and after, as the number may have changed. */
    if (!is_file(name->pid, name->number, name->nonce))
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", name->pid, name->number);
    number = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (number < 0)
        return -1;
    /* What is sealed stays that long: nobody who has it mapped finds it cut off. */
    seals = fcntl(number, F_GET_SEALS);
    if (!is_file(0, number, name->nonce) || seals < 0 || (seals & SEALS) != SEALS ||
        fstat(number, &status) != 0 || (uint64_t)status.st_size < size_bytes ||
        flock(number, LOCK_SH | LOCK_NB) != 0) {
        (void)close(number);
        return -1;
    }
    return number;
}

void emu_ipc_name_close(int number)
{
    (void)flock(number, LOCK_UN); /* a forked process may have the descriptor, too */
    (void)close(number);
}
