/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared.h"

#include "base/lf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100000 };

typedef struct shared {
    unsigned char *memory;
    fry_shared_place place;
    fry_shared_map map;
} shared;

static shared shared_of(size_t size_bytes, int byte)
{
    shared self = {.memory = fry_shared_alloc(size_bytes)};
    cr_assert_not_null(self.memory);
    memset(self.memory, byte, size_bytes);
    cr_assert(fry_shared_grant(self.memory, &self.place));
    cr_assert(fry_shared_open(&self.map, &self.place));
    return self;
}

static void end(shared *self)
{
    fry_shared_close(&self->map);
    fry_shared_free(self->memory);
}

static bool is_filled(const unsigned char *bytes, size_t size_bytes, int byte)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != byte)
            return false;
    }
    return true;
}

Test(base_shared, is_zeroed_and_aligned_to_a_page)
{
    static const size_t sizes[] = {1, 4095, 4096, 4097, (size_t)5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = fry_shared_alloc(sizes[i]);
        cr_assert_not_null(memory);
        cr_assert_eq((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
        cr_assert(is_filled(memory, sizes[i], 0));
        memset(memory, 1, sizes[i]);
        fry_shared_free(memory);
    }
    fry_shared_free(NULL);
}

Test(base_shared, is_read_where_it_is)
{
    shared self = shared_of(SIZE, 7);
    static unsigned char got[SIZE];
    cr_assert(fry_shared_read(&self.map, got, 0, SIZE));
    cr_assert(is_filled(got, SIZE, 7));
    memset(self.memory + 5000, 8, 100); /* no copy of it is kept */
    cr_assert(fry_shared_read(&self.map, got, 5000, 100));
    cr_assert(is_filled(got, 100, 8));
    cr_assert(fry_shared_read(&self.map, got, SIZE - 1, 1));
    cr_assert_eq(got[0], 7);
    end(&self);
}

/* The reader is another process; the owner takes the mark back while that reads. */
Test(base_shared, is_read_by_another_process_as_long_as_it_may)
{
    shared self = shared_of(SIZE, 7);
    int told[2];
    cr_assert_eq(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        static unsigned char got[SIZE];
        fry_shared_map map;
        if (!fry_shared_open(&map, &self.place) || !fry_shared_read(&map, got, 0, SIZE) ||
            !is_filled(got, SIZE, 7) || write(told[1], "", 1) != 1)
            _exit(1);
        while (fry_shared_read(&map, got, 0, SIZE)) {
            if (!is_filled(got, SIZE, 7))
                _exit(2);
        }
        _exit(0);
    }
    char byte;
    cr_assert_eq(read(told[0], &byte, 1), 1);
    fry_shared_withdraw(self.memory, self.place.mark);
    memset(self.memory, 9, SIZE);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    end(&self);
    (void)close(told[0]), (void)close(told[1]);
}

Test(base_shared, is_of_no_use_once_the_mark_was_taken_back)
{
    shared self = shared_of(SIZE, 7);
    unsigned char got[8];
    fry_shared_withdraw(self.memory, self.place.mark);
    cr_assert(!fry_shared_read(&self.map, got, 0, sizeof got));

    /* The next reader has that mark, and another number. */
    fry_shared_place next;
    fry_shared_map map;
    cr_assert(fry_shared_grant(self.memory, &next));
    cr_assert_eq(next.mark, self.place.mark);
    cr_assert_neq(next.number, self.place.number);
    cr_assert(fry_shared_open(&map, &next));
    cr_assert(fry_shared_read(&map, got, 0, sizeof got));
    cr_assert(!fry_shared_read(&self.map, got, 0, sizeof got));
    fry_shared_close(&map);
    end(&self);
}

Test(base_shared, is_written_through_a_map_for_that)
{
    shared self = shared_of(SIZE, 7);
    fry_shared_map map;
    cr_assert(fry_shared_open_writable(&map, &self.place));

    /* Not the head, which is the owner's: the kernel would write there for whoever may. */
    int told[2];
    cr_assert_eq(pipe(told), 0);
    cr_assert_eq(write(told[1], "xy", 2), 2);
    cr_assert_eq(read(told[0], (char *)fry_shared_memory(&map) - 1, 1), -1);
    cr_assert_eq(errno, EFAULT);
    cr_assert_eq(read(told[0], fry_shared_memory(&map), 1), 1);
    cr_assert_eq(self.memory[0], 'x');
    self.memory[0] = 7;
    (void)close(told[0]), (void)close(told[1]);
    unsigned char *there = fry_shared_memory(&map);
    memset(there, 8, SIZE);
    cr_assert(is_filled(self.memory, SIZE, 8));
    self.place.key[0]++;
    fry_shared_map wrong;
    cr_assert(!fry_shared_open_writable(&wrong, &self.place));
    cr_assert_null(fry_shared_memory(&wrong));
    fry_shared_free(self.memory);
    self.memory = NULL;
    memset(there, 9, SIZE); /* whose pages stay until this one is closed */
    fry_shared_close(&map);
    end(&self);
}

/* The owner's memory goes, and the mapping stays: as after the owner's death. */
Test(base_shared, stays_mapped_when_its_owner_has_none)
{
    shared self = shared_of(SIZE, 7);
    unsigned char got[8];
    fry_shared_free(self.memory);
    cr_assert(fry_shared_read(&self.map, got, SIZE - 8, sizeof got));
    cr_assert(is_filled(got, sizeof got, 7));
    fry_shared_close(&self.map);
    cr_assert_null(self.map.memory);
    fry_shared_close(&self.map);
    cr_assert(!fry_shared_open(&self.map, &self.place));
}

Test(base_shared, has_marks_for_so_many_readers)
{
    unsigned char *memory = fry_shared_alloc(1);
    fry_shared_place places[FRY_SHARED_MARKS], more;
    cr_assert_not_null(memory);
    for (size_t i = 0; i < FRY_SHARED_MARKS; i++)
        cr_assert(fry_shared_grant(memory, &places[i]));
    cr_assert(!fry_shared_grant(memory, &more));
    fry_shared_withdraw(memory, places[100].mark);
    cr_assert(fry_shared_grant(memory, &more));
    cr_assert_eq(more.mark, places[100].mark);
    fry_shared_free(memory);
}

/* ---- what is told is not trusted ---- */

static void expect_refused(const char *what, fry_shared_place place)
{
    fry_shared_map map;
    cr_expect(!fry_shared_open(&map, &place), "%s", what);
    cr_expect_null(map.memory);
}

#define WITH(field, value)                                                                         \
    do {                                                                                           \
        fry_shared_place place = self.place;                                                       \
        place.field = (value);                                                                     \
        expect_refused(#field " " #value, place);                                                  \
    } while (0)

Test(base_shared, is_not_mapped_if_a_word_of_it_is_wrong)
{
    shared self = shared_of(SIZE, 7);
    WITH(pid, 0);
    WITH(pid, -1);
    WITH(pid, 1 << 30);
    WITH(descriptor, -1);
    WITH(descriptor, 1 << 20);
    WITH(key[0], place.key[0] + 1);
    WITH(key[1], place.key[1] ^ 1);
    WITH(size_bytes, 0);
    WITH(size_bytes, SIZE + 10000);
    WITH(size_bytes, 1);
    WITH(size_bytes, UINT64_MAX);
    WITH(mark, FRY_SHARED_MARKS);
    WITH(mark, UINT32_MAX);
    WITH(number, 0);
    end(&self);
}

/* A file of the right size and with the right key, which its owner could cut. */
static int file_like(const shared *self, int seals)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = page + (SIZE + page - 1) / page * page;
    const int descriptor = memfd_create("like", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(descriptor, (off_t)bytes), 0);
    cr_assert_eq(pwrite(descriptor, self->memory - page, page, 0), (ssize_t)page);
    cr_assert_eq(fcntl(descriptor, F_ADD_SEALS, seals), 0);
    return descriptor;
}

Test(base_shared, is_mapped_only_if_nobody_can_cut_it)
{
    shared self = shared_of(SIZE, 7);
    const int sealed = file_like(&self, F_SEAL_SHRINK), loose = file_like(&self, F_SEAL_GROW);
    fry_shared_place place = self.place;
    fry_shared_map map;
    place.descriptor = sealed;
    cr_expect(fry_shared_open(&map, &place));
    fry_shared_close(&map);
    place.descriptor = loose;
    expect_refused("can be cut", place);

    /* Nor does it wait for the other end of a pipe, or do what opening a device does. */
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    place.descriptor = ends[0];
    expect_refused("a pipe", place);
    place.descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    expect_refused("a device", place);
    place.descriptor = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    expect_refused("a program", place);

    /* The owner itself can't cut it either. */
    cr_expect(ftruncate(self.place.descriptor, 4096) != 0);
    end(&self);
}

Test(base_shared, is_refused_without_descriptors_or_room)
{
    errno = 0;
    cr_assert_null(fry_shared_alloc(0));
    cr_assert_null(fry_shared_alloc(SIZE_MAX));
    cr_assert_null(fry_shared_alloc((size_t)1 << 48));
    cr_assert_neq(errno, 0);
    shared self = shared_of(SIZE, 7);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {0, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_assert_null(fry_shared_alloc(SIZE));
    cr_assert_eq(errno, EMFILE);
    fry_shared_map map;
    cr_assert(!fry_shared_open(&map, &self.place));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0); /* sanitizers need some at the end */
    end(&self);
}
