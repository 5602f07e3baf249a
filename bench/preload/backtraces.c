/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry_backtraces.so, to be preloaded where there is no debugger: SIGQUIT ends the process, and
 * before that each of its threads writes to stderr where it stands. script/gpu ends so what takes
 * longer than it may.
 *
 * Whichever thread gets the signal asks the others, one by one and by a signal of their own, and
 * each writes its own stack. Who does not answer stands in the kernel, or has blocked the signal by
 * itself; what the kernel says of it is written instead. All of it is done by functions that a
 * handler may call, but for the unwinder, which takes the loader's lock: a thread that stands with
 * that does not answer either. Names that are not exported come as LIBRARY(+OFFSET), for addr2line
 * and a library that was not stripped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MAX 40
#define ANSWER_MS 300 /* more than a thread takes on a busy machine to write some lines */

/* The layout of the kernel's entries of a folder: getdents64(2). */
typedef struct kernel_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size_bytes;
    uint8_t kind;
    char name[];
} kernel_entry;

static atomic_int answered; /* the thread that has answered last */
static atomic_flag is_begun = ATOMIC_FLAG_INIT;

static int asking_signal(void)
{
    return SIGRTMAX - 2;
}

static void write_text(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void write_number(long number)
{
    char text[24];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    (void)!write(STDERR_FILENO, text + at, sizeof text - at);
}

static void write_stack(void)
{
    void *frames[DEPTH_MAX];
    int count = backtrace(frames, DEPTH_MAX);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

/* A thread is asked. */
static void answer(int signal)
{
    (void)signal;
    write_stack();
    atomic_store(&answered, (int)syscall(SYS_gettid));
}

/* A line of /proc/self/task/THREAD/NAME. */
static void write_kernels(const char *thread, const char *name)
{
    char path[64] = "/proc/self/task/", text[200];
    (void)strncat(path, thread, 16);
    (void)strcat(path, "/");
    (void)strncat(path, name, 16);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof text) : 0;
    if (file >= 0)
        (void)close(file);
    if (size > 0 && text[size - 1] == '\n')
        size--;
    write_text(" ");
    (void)!write(STDERR_FILENO, text, size > 0 ? (size_t)size : 0);
}

static bool has_answered(int thread)
{
    for (int passed_ms = 0; passed_ms < ANSWER_MS; passed_ms++) {
        if (atomic_load(&answered) == thread)
            return true;
        (void)poll(NULL, 0, 1);
    }
    return false;
}

static void ask(const char *name)
{
    int thread = 0;
    for (const char *digit = name; *digit != '\0'; digit++)
        thread = thread * 10 + (*digit - '0');
    write_text("---- thread");
    write_kernels(name, "comm");
    write_text(" (");
    write_number(thread);
    write_text(")\n");
    if (thread == (int)syscall(SYS_gettid)) {
        write_stack();
    } else if (syscall(SYS_tgkill, getpid(), thread, asking_signal()) != 0 ||
               !has_answered(thread)) {
        write_text("no answer; the kernel says:");
        write_kernels(name, "wchan");
        write_kernels(name, "syscall");
        write_text("\n");
    }
}

static void ask_all(int folder)
{
    static _Alignas(kernel_entry) char entries[4096];
    long size;
    while ((size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < size;) {
            const kernel_entry *entry = (const kernel_entry *)(const void *)(entries + at);
            if (entry->name[0] != '.')
                ask(entry->name);
            at += entry->size_bytes;
        }
    }
}

/* The first to be told speaks for the process. */
static void end(int signal)
{
    if (atomic_flag_test_and_set(&is_begun))
        return;
    write_text("==== process ");
    write_number(getpid());
    write_text(" is ended, its threads stand here:\n");
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        ask_all(folder);
    write_text("====\n");
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    (void)sigaction(signal, &by_default, NULL);
    (void)raise(signal);
    _exit(128 + signal);
}

__attribute__((constructor)) static void begin(void)
{
    void *frame;
    (void)backtrace(&frame, 1); /* the unwinder is loaded now, and not in the handler */
    struct sigaction asked = {.sa_handler = answer, .sa_flags = SA_RESTART};
    struct sigaction ended = {.sa_handler = end};
    (void)sigaction(asking_signal(), &asked, NULL);
    (void)sigaction(SIGQUIT, &ended, NULL);
}

/* ---- threads that block all signals, as a library's should, answer all the same ---- */

__attribute__((visibility("default"))) int pthread_sigmask(int how, const sigset_t *set,
                                                           sigset_t *before)
{
    static int (*real)(int, const sigset_t *, sigset_t *);
    if (real == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_sigmask");
        memcpy(&real, &symbol, sizeof real);
    }
    sigset_t without;
    if (set != NULL && how != SIG_UNBLOCK) {
        without = *set;
        (void)sigdelset(&without, asking_signal());
        (void)sigdelset(&without, SIGQUIT);
        set = &without;
    }
    return real(how, set, before);
}
