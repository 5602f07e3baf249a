/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver SEED...: gives a fuzz target its seed files and mutations of them, the same ones each
 * time. libFuzzer looks further; this is the part of it that every test run can afford.
 */
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_MAX_BYTES ((size_t)256 << 10)
#define EFFORT_BYTES ((size_t)4 << 20) /* of changed copies of a seed, and of cut ones */
#define NESTING 60000                  /* brackets */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static size_t fed_count;

/* A copy of the exact size, so that reading behind it is seen. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        exit(EXIT_FAILURE);
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    fed_count++;
}

/* xorshift64: the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t pick(uint64_t *state, size_t below)
{
    return (size_t)(next_random(state) % below);
}

/* ---- changes, in place or into a buffer that has room for twice the seed and the nesting ---- */

static void flip_bits(bytes *all, uint64_t *state)
{
    for (size_t count = 1 + pick(state, 4); count > 0; count--)
        all->data[pick(state, all->size)] ^= (uint8_t)(1 << pick(state, 8));
}

static void put_bytes(bytes *all, uint64_t *state)
{
    static const uint8_t odd[] = {0,   '"', '\\', '{',  '}',  '[', ']',
                                  ',', ':', '\n', 0x1b, 0x80, 0xff};
    for (size_t count = 1 + pick(state, 4); count > 0; count--)
        all->data[pick(state, all->size)] = odd[pick(state, sizeof(odd))];
}

/* Replaces `old` bytes at a place by others. */
static void splice(bytes *all, size_t at, size_t old, const void *text, size_t size)
{
    memmove(all->data + at + size, all->data + at + old, all->size - at - old);
    memcpy(all->data + at, text, size);
    all->size = all->size - old + size;
}

/* One of the seed's numbers becomes one that is hard to take. */
static void replace_number(bytes *all, uint64_t *state)
{
    static const char *const numbers[] = {
        "0",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "1e308",
        "1e999",
        "-1e308",
        "1e-320",
        "9e15",
        "8999999999999999.9",
        "4294967296",
        "16777216000",
        "0.0000000001",
        "nan",
        "null",
        "\"12\"",
        "[]",
        "{}",
        "true",
        "1.5",
    };
    size_t at = pick(state, all->size);
    while (at < all->size && (all->data[at] < '0' || all->data[at] > '9'))
        at++;
    size_t end = at;
    while (end < all->size &&
           ((all->data[end] >= '0' && all->data[end] <= '9') || all->data[end] == '.'))
        end++;
    const char *number = numbers[pick(state, sizeof(numbers) / sizeof(numbers[0]))];
    splice(all, at, end - at, number, strlen(number));
}

/* From the line that holds a place: its begin and its length with the newline. */
static size_t find_line(const bytes *all, size_t place, size_t *length_p)
{
    size_t begin = place;
    while (begin > 0 && all->data[begin - 1] != '\n')
        begin--;
    size_t end = place;
    while (end < all->size && all->data[end] != '\n')
        end++;
    *length_p = (end < all->size ? end + 1 : end) - begin;
    return begin;
}

/* One line takes the place of another, or stands there twice. */
static void move_line(bytes *all, uint64_t *state)
{
    static uint8_t line[SEED_MAX_BYTES];
    size_t length = 0;
    size_t begin = find_line(all, pick(state, all->size), &length);
    memcpy(line, all->data + begin, length);
    size_t old_length = 0;
    size_t old = find_line(all, pick(state, all->size), &old_length);
    splice(all, old, pick(state, 2) ? old_length : 0, line, length);
}

static void nest(bytes *all, uint64_t *state)
{
    static char brackets[NESTING];
    size_t depth = pick(state, 2) ? 1 + pick(state, 4096) : 1 + pick(state, NESTING);
    memset(brackets, pick(state, 2) ? '[' : '{', depth);
    splice(all, pick(state, all->size), 0, brackets, depth);
}

static void change(bytes *all, uint64_t *state)
{
    static void (*const changes[])(bytes * all, uint64_t * state) = {
        flip_bits, put_bytes, replace_number, replace_number, move_line};
    size_t which = pick(state, 96);
    if (which == 0)
        nest(all, state);
    else
        changes[which % (sizeof(changes) / sizeof(changes[0]))](all, state);
}

/* ---- a seed ---- */

static bool read_seed(const char *path, bytes *seed)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return false;
    }
    seed->size = fread(seed->data, 1, SEED_MAX_BYTES, file);
    bool is_good = !ferror(file) && feof(file) && seed->size > 0;
    fclose(file);
    if (!is_good)
        fprintf(stderr, "%s: empty, too large or not to be read\n", path);
    return is_good;
}

static void feed_mutations(const bytes *seed, bytes *room)
{
    feed(seed->data, seed->size);
    /* At every byte, or of a large seed at every so many. */
    size_t stride = 1 + seed->size / (1 + EFFORT_BYTES / seed->size);
    for (size_t cut = 0; cut < seed->size; cut += stride)
        feed(seed->data, cut);
    for (uint64_t i = 1; i <= 1 + EFFORT_BYTES / seed->size; i++) {
        uint64_t state = i * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(room->data, seed->data, seed->size);
        room->size = seed->size;
        for (size_t count = 1 + pick(&state, 3); count > 0 && room->size <= SEED_MAX_BYTES; count--)
            change(room, &state);
        feed(room->data, room->size);
    }
}

int main(int argc, char **argv)
{
    bytes seed = {.data = malloc(SEED_MAX_BYTES)};
    bytes room = {.data = malloc(2 * SEED_MAX_BYTES + NESTING)};
    int status = seed.data && room.data && argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    for (int i = 1; i < argc && status == EXIT_SUCCESS; i++) {
        if (read_seed(argv[i], &seed))
            feed_mutations(&seed, &room);
        else
            status = EXIT_FAILURE;
    }
    free(seed.data);
    free(room.data);
    printf("driver: %zu inputs\n", fed_count);
    return status;
}
