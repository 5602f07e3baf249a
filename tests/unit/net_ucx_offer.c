/* SPDX-License-Identifier: Apache-2.0 */
/* Offers and marks: memory that is read by another process, that can't be, and that is given up. */
#include "net/ucx/channel.h"
#include "net/ucx/library.h"
#include "net/ucx/ucx.h"
#include "tests/support/owned.h"
#include "tests/unit/ucx_pair.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

TestSuite(net_ucx_offer, .timeout = 50);

#define SIZE_BYTES ((size_t)2 << 20) /* four reads */
#define PAGE_BYTES 4096

/* ---- what becomes of the reads of this process ---- */

typedef enum fate {
    READ_ALL,
    READ_SHORT, /* half of what was asked for, as where a page can't be read */
    READ_BUT_MARK,
    READ_NOTHING, /* `read_errno` */
} fate;

static fate read_fate;
static int reads_before; /* that go well */
static int read_errno;
static int reads; /* of data */

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    struct iovec to[2] = {0};
    struct iovec from[2] = {0};
    EXPECT(local_count <= 2 && remote_count <= 2);
    memcpy(to, local, local_count * sizeof *to);
    memcpy(from, remote, remote_count * sizeof *from);
    if (from[0].iov_len > PAGE_BYTES && reads++ >= reads_before && read_fate != READ_ALL) {
        if (read_fate == READ_NOTHING) {
            errno = read_errno;
            return -1;
        }
        to[0].iov_len = from[0].iov_len /= read_fate == READ_SHORT ? 2 : 1;
        local_count = remote_count = 1;
    }
    return syscall(SYS_process_vm_readv, pid, to, local_count, from, remote_count, flags);
}

/* In a process of its own: one whose parent has used UCX can't. */
static void apart(void (*run)(const void *arg), const void *arg)
{
    int status = -1;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(arg);
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the reads of one run come to: so many go well, then one does not. */
typedef struct trial {
    fate fate;
    int error;
    int before;
} trial;

static void use(const trial *trial)
{
    read_fate = trial->fate;
    read_errno = trial->error;
    reads_before = trial->before;
    reads = 0;
}

#define TRY_ALL(run, ...)                                                                          \
    do {                                                                                           \
        static const trial trials[] = {__VA_ARGS__};                                               \
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)                                \
            apart(run, &trials[i]);                                                                \
    } while (0)

/* ---- marks ---- */

static void *make_pages(int count)
{
    void *pages = mmap(NULL, (size_t)count * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    return pages;
}

Test(net_ucx_offer, a_mark_stands_until_it_is_wiped)
{
    fry_ucx_mark mark = {0};
    fry_ucx_mark_place place;
    cr_assert_eq(fry_ucx_mark_set(&mark, &place), FERRY_OK);
    char from[100] = "offered";
    char to[100] = "";
    const uint64_t address = (uintptr_t)from;
    cr_assert_eq(fry_ucx_mark_read(&place, to, address, sizeof to), FRY_UCX_MARK_STANDS);
    cr_assert_str_eq(to, from);
    cr_assert_eq(fry_ucx_mark_read(&place, NULL, 0, 0), FRY_UCX_MARK_STANDS);

    fry_ucx_mark_place wrong = place;
    wrong.words[1] ^= 1;
    cr_assert_eq(fry_ucx_mark_read(&wrong, to, address, sizeof to), FRY_UCX_MARK_IS_GONE);

    fry_ucx_mark_wipe(&mark);
    cr_assert_eq(fry_ucx_mark_read(&place, to, address, sizeof to), FRY_UCX_MARK_IS_GONE);
    cr_assert_neq(fry_ucx_mark_read(&place, NULL, 0, 0), FRY_UCX_MARK_STANDS);
    fry_ucx_mark_wipe(&mark);

    /* Another has the page, and another mark. */
    fry_ucx_mark next = {0};
    fry_ucx_mark_place next_place;
    cr_assert_eq(fry_ucx_mark_set(&next, &next_place), FERRY_OK);
    wrong = next_place;
    memcpy(wrong.words, place.words, sizeof wrong.words);
    cr_assert_eq(fry_ucx_mark_read(&wrong, to, address, sizeof to), FRY_UCX_MARK_IS_GONE);
    cr_assert_eq(fry_ucx_mark_read(&next_place, to, address, sizeof to), FRY_UCX_MARK_STANDS);
    fry_ucx_mark_wipe(&next);
}

Test(net_ucx_offer, a_mark_is_not_a_childs)
{
    fry_ucx_mark mark = {0};
    fry_ucx_mark_place place;
    char from[100] = "offered";
    char to[100];
    cr_assert_eq(fry_ucx_mark_set(&mark, &place), FERRY_OK);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0)
        for (;;)
            (void)pause();
    fry_ucx_mark_place child = place;
    child.pid = pid;
    cr_assert_eq(fry_ucx_mark_read(&child, to, (uintptr_t)from, sizeof to), FRY_UCX_MARK_IS_GONE);
    cr_assert_str_eq(to, from, "it has all but the mark");
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_assert_eq(fry_ucx_mark_read(&child, to, (uintptr_t)from, sizeof to), FRY_UCX_MARK_IS_GONE);
    cr_assert_eq(fry_ucx_mark_read(&place, to, (uintptr_t)from, sizeof to), FRY_UCX_MARK_STANDS);
    fry_ucx_mark_wipe(&mark);
}

Test(net_ucx_offer, memory_that_can_not_be_read_is_told)
{
    fry_ucx_mark mark = {0};
    fry_ucx_mark_place place;
    cr_assert_eq(fry_ucx_mark_set(&mark, &place), FERRY_OK);
    char *pages = make_pages(3);
    static char to[3 * PAGE_BYTES];
    cr_assert_eq(fry_ucx_mark_read(&place, to, (uintptr_t)pages, sizeof to), FRY_UCX_MARK_STANDS);
    for (size_t i = 3; i-- > 0;) {
        cr_assert_eq(mprotect(pages + i * PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
        cr_assert_eq(fry_ucx_mark_read(&place, to, (uintptr_t)pages, sizeof to),
                     FRY_UCX_MARK_UNKNOWN, "page %zu", i);
    }
    fry_ucx_mark_wipe(&mark);
    (void)munmap(pages, sizeof to);
}

/* ---- what can't be read is sent ---- */

static void offer_one(end *end, void *arg)
{
    (void)arg;
    end_open(end, NULL);
    end_connect(end, FRY_PATH_SHARED);
    unsigned char *data = make_data(SIZE_BYTES, 4);
    for (uint64_t i = 0; i < 2; i++) {
        note note = {i, 4, SIZE_BYTES};
        EXPECT(end_post(end, &note, data, true) == FRY_POST_BEGUN);
        WAIT_UNTIL(end, end->done == i + 1);
    }
    meet(end);
    end_close(end);
    free(data);
}

/* Of two messages the first can't be read, after so many reads that went well. */
static void get_what_is_offered(const void *arg)
{
    const trial *trial = arg;
    end end;
    split(&end, offer_one, NULL);
    end_open(&end, NULL);
    end_connect(&end, FRY_PATH_SHARED);
    unsigned char *data = make_data(SIZE_BYTES, 9);
    use(trial);
    for (uint64_t i = 0; i < 2; i++) {
        reads = 0;
        memset(data, 0xa5, SIZE_BYTES);
        WAIT_UNTIL(&end, end.held_count == i + 1);
        end_pull(&end, end.held[i].token, data, SIZE_BYTES);
        WAIT_UNTIL(&end, end.pulled == i + 1);
        EXPECT(is_painted(data, SIZE_BYTES, 4));
        read_fate = READ_ALL;
        const bool is_for_good = trial->error == EPERM; /* it is not tried again */
        EXPECT(reads == (i == 0 ? trial->before + 1 : is_for_good ? 0 : 4));
    }
    meet(&end);
    EXPECT(end.pulled_badly == 0);
    end_close(&end);
    EXPECT(join(&end));
    free(data);
}

Test(net_ucx_offer, what_is_read_short_is_sent)
{
    TRY_ALL(get_what_is_offered, {READ_SHORT, 0, 0}, {READ_SHORT, 0, 3});
}

Test(net_ucx_offer, what_can_not_be_read_is_sent)
{
    TRY_ALL(get_what_is_offered, {READ_NOTHING, EFAULT, 0}, {READ_NOTHING, EFAULT, 2},
            {READ_NOTHING, ENOMEM, 1}, {READ_NOTHING, EPERM, 0}, {READ_NOTHING, EPERM, 3});
}

/* ---- what is gone ---- */

static void offer_for_ever(end *end, void *arg)
{
    (void)arg;
    end_open(end, NULL);
    end_connect(end, FRY_PATH_SHARED);
    unsigned char *data = make_data(SIZE_BYTES, 4);
    note note = {0, 4, SIZE_BYTES};
    EXPECT(end_post(end, &note, data, true) == FRY_POST_BEGUN);
    meet(end);
    end_destroy(end); /* with the offer on its way */
    memset(data, 0xee, SIZE_BYTES);
    meet(end);
    char word;
    (void)recv(end->socket, &word, 1, 0);
}

static void find_it_gone(const void *arg)
{
    const trial *trial = arg;
    end end;
    split(&end, offer_for_ever, NULL);
    end_open(&end, NULL);
    end_connect(&end, FRY_PATH_SHARED);
    unsigned char *data = make_data(SIZE_BYTES, 9);
    WAIT_UNTIL(&end, end.held_count == 1);
    use(trial);
    if (trial->fate == READ_ALL) {
        meet(&end);
        meet(&end); /* it is destroyed, and overwritten */
    }
    end_pull(&end, end.held[0].token, data, SIZE_BYTES);
    while (end.failed == 0 && end.pulled == 0)
        (void)end_turn(&end, 0);
    EXPECT(end.pulled == 0);
    EXPECT(end.failed == 1);
    EXPECT(strstr(end.fault.message, "given up") != NULL);
    end_close(&end);
    kill_other(&end);
    (void)close(end.socket);
    free(data);
}

Test(net_ucx_offer, what_was_given_up_is_not_taken)
{
    TRY_ALL(find_it_gone, {READ_ALL, 0, 0}, {READ_BUT_MARK, 0, 0}, {READ_BUT_MARK, 0, 3},
            {READ_NOTHING, ESRCH, 0}, {READ_NOTHING, ESRCH, 3});
}

/* ---- many at once ---- */

#define MANY 400 /* more than a queue of UCX's takes at once */

static void drop_many(end *end, void *arg)
{
    (void)arg;
    end_open(end, NULL);
    end_connect(end, FRY_PATH_SHARED);
    end->drops = true;
    meet(end);
    WAIT_UNTIL(end, end->arrived == MANY);
    meet_at_work(end); /* not all that it has said need have left */
    end->drops = false;
    end->pulls = true;
    end->into = make_data(SIZE_BYTES, 1);
    WAIT_UNTIL(end, end->pulled == MANY);
    free(end->into);
    meet_at_work(end);
    end_close(end);
}

/* Offers that wait for room in the queue, words that do, and parcels that are used again. */
Test(net_ucx_offer, many_are_dropped_and_taken)
{
    end end;
    split(&end, drop_many, NULL);
    end_open(&end, NULL);
    end_connect(&end, FRY_PATH_SHARED);
    unsigned char *data = make_data(20000, 4);
    note note = {0, 4, 20000};
    for (uint64_t i = 0; i < MANY; i++)
        cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    meet(&end);
    WAIT_UNTIL(&end, end.done == MANY);
    meet(&end);
    for (uint64_t i = 0; i < MANY; i++)
        cr_assert_eq(end_post(&end, &note, data, true), FRY_POST_BEGUN);
    WAIT_UNTIL(&end, end.done == 2 * MANY);
    meet(&end);
    end_close(&end);
    cr_assert(join(&end));
    free(data);
}

/* ---- words that can't be ---- */

typedef struct word {
    fry_ucx_id id;
    size_t bytes;
    uint64_t words[3];
} word;

static void say_it(end *end, void *arg)
{
    const word *word = arg;
    end_open(end, NULL);
    end_connect(end, FRY_PATH_SHARED);
    WAIT_UNTIL(end, end->arrived == 1);
    fry_ucx_channel *channel = (fry_ucx_channel *)end->channel;
    ucp_request_param_t param = {0};
    ucs_status_ptr_t request = fry_ucp.ucp_am_send_nbx(channel->endpoint, word->id, word->words,
                                                       word->bytes, NULL, 0, &param);
    EXPECT(request == NULL);
    meet(end);
    end_destroy(end);
}

static void hear_it(const void *arg)
{
    static unsigned char data[20000];
    end end;
    split(&end, say_it, (void *)(uintptr_t)arg);
    end_open(&end, NULL);
    end_connect(&end, FRY_PATH_SHARED);
    paint(data, sizeof data, 1);
    note note = {0, 1, sizeof data};
    EXPECT(end_post(&end, &note, data, true) == FRY_POST_BEGUN);
    meet_at_work(&end);
    while (end.failed == 0)
        (void)end_turn(&end, -1);
    EXPECT(end.done == 0 && end.failed == 1);
    end_close(&end);
    EXPECT(join(&end));
}

Test(net_ucx_offer, words_about_nothing_end_the_channel)
{
    static const word words[] = {
        {FRY_UCX_TAKEN, 8, {UINT64_C(7) << 32}}, /* of another use */
        {FRY_UCX_TAKEN, 8, {5}},                 /* of none that is offered */
        {FRY_UCX_TAKEN, 8, {UINT32_MAX}},        /* of none there is */
        {FRY_UCX_TAKEN, 4, {0}},                 /* too short */
        {FRY_UCX_TAKEN, 16, {0}},                /* too long */
        {FRY_UCX_ASKED, 8, {6}},
        {FRY_UCX_ASKED, 1, {0}},
        {FRY_UCX_ANSWER, 8, {0}},       /* to nothing */
        {FRY_UCX_OFFER, 23, {0, 0, 0}}, /* too short */
        {FRY_UCX_OFFER, 24, {1, 4096, 0}},
        {FRY_UCX_OFFER, 24, {1, 4096, UINT64_MAX}},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        apart(hear_it, &words[i]);
}

/* An address without the mark's place, or with half of it. */
Test(net_ucx_offer, addresses_that_are_cut)
{
    OWNED(end_close) end end;
    memset(&end, 0, sizeof end);
    end_open(&end, NULL);
    char address[FRY_ADDRESS_BYTES_MAX];
    size_t address_bytes;
    fry_fault fault;
    cr_assert_eq(fry_ucx_channel_open(end.ucx, FRY_PATH_SHARED, &end_events, &end, &end.channel,
                                      address, &address_bytes, &fault),
                 FERRY_OK);
    for (size_t bytes = 0; bytes <= sizeof(fry_ucx_mark_place); bytes++)
        cr_assert_eq(fry_ucx_channel_connect(end.channel, address, bytes, &fault), FERRY_E_PEER);
    cr_assert_eq(fry_ucx_channel_connect(end.channel, address, address_bytes, &fault), FERRY_OK);
}
