/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of no folder (memfd) that other processes of the same user map, and the handles that name
 * them: 64 bytes that come from anybody. A handle says which process has the file under which
 * number, and a nonce that is in the file's own name: so a process that is gone, or has closed the
 * file, is told from one that has something else under that number by now.
 *
 * Others open /proc/PID/fd/NUMBER. That needs no more than the right to read what the process is
 * (PTRACE_MODE_READ), so two processes of one user that are no relatives may do it, also where Yama
 * refuses pidfd_getfd, which asks for the right to attach. The files are gone with those who have
 * them, also by SIGKILL, as names in /dev/shm are not. Both ends see each other's process ids, as
 * for CUDA's own handles.
 */
#ifndef EMU_IPC_FILE_H
#define EMU_IPC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct emu_ipc_file {
    int number; /* of the descriptor; -1: there is no file */
    uint64_t nonce;
} emu_ipc_file;

#define EMU_IPC_FILE_NONE ((emu_ipc_file){.number = -1})

typedef enum emu_ipc_kind {
    EMU_IPC_MEMORY = 1,
    EMU_IPC_EVENT = 2,
} emu_ipc_kind;

/* What a handle says; its bytes follow each other without gaps. */
typedef struct emu_ipc_name {
    char magic[8];
    uint32_t kind;
    int32_t pid;
    int32_t number;
    int32_t ordinal; /* of the device */
    uint64_t nonce;
    uint64_t start, size_bytes; /* of the memory, in its own process */
    uint64_t check;             /* of all before it */
} emu_ipc_name;

/*
 * A file of that size, which nobody can change any more; zeros. False: the system has none, or they
 * take half of what the process may have open, the other half of which is the program's. One thread
 * at a time, as for the next one.
 */
bool emu_ipc_file_new(size_t size_bytes, emu_ipc_file *file);
/* Nobody opens it any more; who has it mapped keeps it. Nothing if there is no file. */
void emu_ipc_file_close(emu_ipc_file *file);
/* Whether another process has it open by its name; nobody opens it any more. */
bool emu_ipc_file_is_open(const emu_ipc_file *file);

/* The handle of a file of this process; what is not said of the file is taken from `name`. */
void emu_ipc_name_write(const emu_ipc_name *name, const emu_ipc_file *file, char handle[64]);
/* False: no handle of that kind. */
bool emu_ipc_name_read(const char handle[64], emu_ipc_kind kind, emu_ipc_name *name);
/*
 * A descriptor of the file, of at least that size; -1: it is there no more, or never was. Until it
 * is closed, or this process is gone, the owner can tell that the file is open.
 */
int emu_ipc_name_open(const emu_ipc_name *name, size_t size_bytes);
void emu_ipc_name_close(int number);

#endif
