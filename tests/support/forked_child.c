/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with each test program of an AddressSanitizer build. */
#include "tests/support/forked_child.h"
#include "tests/support/patience.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__

#define HANG_S 6

/* Of libasan, whose headers Debian's GCC does not bring. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
void __sanitizer_print_stack_trace(void);

static bool had_threads, may_hang;

/* The folder of a process has an entry for each thread, beside "." and "..". */
static void before_fork(void)
{
    struct stat tasks;
    had_threads = stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2 + 1;
}

static void in_child(void)
{
    may_hang = may_hang || had_threads;
}

static void look_at_allocation(const volatile void *address, size_t size_bytes)
{
    static const char text[] = "a child of a process with threads allocates: once in thousands "
                               "that hangs under AddressSanitizer (tests/support/forked_child.h)\n";
    (void)address;
    (void)size_bytes;
    if (!may_hang)
        return;
    may_hang = false;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)alarm(HANG_S * PATIENCE); /* what prints the stack has locks, too */
    __sanitizer_print_stack_trace();
    abort();
}

/* There have to be both. To free may hang as well, though hardly ever: libasan keeps what is freed
 * with the thread at first. */
static void look_at_free(const volatile void *address)
{
    (void)address;
}

/* Not static: the linker is told to take it from the archive. */
__attribute__((constructor)) void forked_child_watch(void)
{
    if (pthread_atfork(before_fork, NULL, in_child) != 0 ||
        __sanitizer_install_malloc_and_free_hooks(look_at_allocation, look_at_free) == 0)
        abort();
}

#endif
