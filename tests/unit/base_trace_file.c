/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/ferry-trace-file.XXXXXX";
static char path[64];

static void set_up(void)
{
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/file", folder);
}

static void take_down(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

TestSuite(base_trace_file, .init = set_up, .fini = take_down, .timeout = 60);

/* `count` bytes of a pattern, in pieces of many sizes. */
static void add_pattern(fry_trace_file *file, size_t count)
{
    size_t done = 0, piece = 1;
    while (done < count) {
        char *room = fry_trace_file_room(file);
        if (piece > count - done)
            piece = count - done;
        for (size_t i = 0; i < piece; i++)
            room[i] = (char)('a' + (done + i) % 23);
        fry_trace_file_add(file, room + piece);
        done += piece;
        piece = piece * 7 % FRY_TRACE_ROOM_BYTES + 1;
    }
}

static void assert_pattern(FILE *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(fgetc(from), 'a' + (int)(i % 23), "at %zu", i);
    cr_assert_eq(fgetc(from), EOF);
}

Test(base_trace_file, what_is_added_is_there)
{
    enum { COUNT = 3000000 };
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK);
    cr_assert(fry_trace_file_close(&file));
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK, "it is emptied");
    add_pattern(&file, COUNT);
    cr_assert(fry_trace_file_close(&file));
    FILE *from = fopen(path, "re");
    cr_assert_not_null(from);
    assert_pattern(from, COUNT);
    (void)fclose(from);
}

Test(base_trace_file, it_is_not_handed_to_other_programs)
{
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK);
    cr_assert((fcntl(file.fd, F_GETFD) & FD_CLOEXEC) != 0);
    cr_assert(fry_trace_file_close(&file));
}

Test(base_trace_file, errors_of_opening)
{
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, "/nowhere/at/all"), FERRY_E_SYSTEM);
    cr_assert_eq(errno, ENOENT);
    cr_assert_eq(fry_trace_file_open(&file, folder), FERRY_E_SYSTEM);
    cr_assert_eq(errno, EISDIR);
}

Test(base_trace_file, a_full_disk_ends_it)
{
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, "/dev/full"), FERRY_OK);
    add_pattern(&file, 10);
    fry_trace_file_flush(&file);
    cr_assert_eq(file.error, ENOSPC);
    add_pattern(&file, 1000000); /* goes nowhere, and is no overflow */
    cr_assert_not(fry_trace_file_close(&file));
    cr_assert_eq(file.error, ENOSPC);
}

static void *read_slowly(void *arg)
{
    (void)arg;
    FILE *from = fopen(path, "re");
    if (from != NULL) {
        (void)setvbuf(from, NULL, _IOFBF, 4000); /* less than a pipe's page: writes come short */
        assert_pattern(from, 400000);
        (void)fclose(from);
    }
    return NULL;
}

Test(base_trace_file, short_writes_go_on)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    pthread_t reader;
    cr_assert_eq(pthread_create(&reader, NULL, read_slowly, NULL), 0);
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK);
    add_pattern(&file, 400000);
    cr_assert(fry_trace_file_close(&file), "a pipe has no disk to wait for");
    cr_assert_eq(pthread_join(reader, NULL), 0);
}

Test(base_trace_file, a_reader_that_goes_ends_it)
{
    (void)signal(SIGPIPE, SIG_IGN); /* the writing thread blocks all signals */
    cr_assert_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    fry_trace_file file;
    cr_assert_eq(fry_trace_file_open(&file, path), FERRY_OK);
    (void)close(reader);
    add_pattern(&file, 1000);
    cr_assert_not(fry_trace_file_close(&file));
    cr_assert_eq(file.error, EPIPE);
}
