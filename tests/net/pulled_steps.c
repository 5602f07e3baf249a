/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message that its receiver pulls out of the sender's memory, and a sender that gives up
 * meanwhile: the receiver is stopped before, in, or after its read; the sender's send fails and is
 * quiet, and its memory is overwritten; the receiver goes on. It must not say that all is well and
 * have other bytes than were sent. Likewise where the sender dies, where another process has its
 * number by then, or other memory at the same place, and over the ways that read no memory.
 *
 * The receiver stops itself: this program has a process_vm_readv of its own, which whoever wants to
 * read another process's memory calls, ferry or UCX.
 */
#include "tests/support/net_hosts.h"
#include "tests/support/net_self.h"
#include "tests/support/no_reading.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define SMALL_BYTES 66000 /* one read takes it */
#define LARGE_BYTES ((size_t)3 << 20)
#define READ_BYTES_MIN 16384 /* less is not data that is pulled */
#define OTHER_BYTE 0xee
#define TAG 7

/* ---- the step at which who reads stops ---- */

typedef enum step { NOWHERE, BEFORE, WITHIN, AFTER, STEPS } step;

static const char *const step_names[STEPS] = {"nowhere", "before", "within", "after"};

static step stops_at;                         /* atomic; the next read of data */
static int reads_to_pass;                     /* before that one */
static sem_t *reader_stands, *reader_goes_on; /* NULL: the process is stopped instead */

static void stop_here(void)
{
    if (!reader_stands) {
        (void)raise(SIGSTOP); /* to this very thread, which so does not run on for a moment */
        return;
    }
    (void)sem_post(reader_stands);
    while (sem_wait(reader_goes_on) != 0)
        continue;
}

static ssize_t really_read(pid_t pid, const struct iovec *local, unsigned long local_count,
                           const struct iovec *remote, unsigned long remote_count)
{
    return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, 0UL);
}

/* The first half, then, once it goes on, the rest. */
static ssize_t read_in_two(pid_t pid, const struct iovec *local, unsigned long local_count,
                           const struct iovec *remote, unsigned long remote_count)
{
    struct iovec to[8];
    struct iovec from[8];
    NET_SELF_CHECK(local_count <= 8 && remote_count <= 8, "more pieces than were thought of");
    memcpy(to, local, local_count * sizeof(*to));
    memcpy(from, remote, remote_count * sizeof(*from));
    size_t half = remote[0].iov_len / 2;
    to[0].iov_len = from[0].iov_len = half;
    ssize_t first = really_read(pid, to, 1, from, 1);
    stop_here();
    if (first != (ssize_t)half)
        return first;
    to[0] = (struct iovec){(char *)local[0].iov_base + half, local[0].iov_len - half};
    from[0] = (struct iovec){(char *)remote[0].iov_base + half, remote[0].iov_len - half};
    ssize_t second = really_read(pid, to, local_count, from, remote_count);
    return second < 0 ? first : first + second;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    (void)flags;
    step here = NOWHERE;
    if (remote_count > 0 && remote[0].iov_len >= READ_BYTES_MIN && stops_at != NOWHERE &&
        reads_to_pass-- == 0)
        here = __atomic_exchange_n(&stops_at, NOWHERE, __ATOMIC_SEQ_CST);
    if (here == WITHIN)
        return read_in_two(pid, local, local_count, remote, remote_count);
    if (here == BEFORE)
        stop_here();
    ssize_t got = really_read(pid, local, local_count, remote, remote_count);
    int error = errno;
    if (here == AFTER)
        stop_here();
    errno = error;
    return got;
}

/* ---- members ---- */

typedef struct memory {
    unsigned char *bytes;
    size_t size_bytes;
    ferry_buffer *buffer;
} memory;

static void fill(unsigned char *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = (unsigned char)(1 + (i * 7 + (i >> 11)) % 200); /* never OTHER_BYTE */
}

static bool is_filled(const unsigned char *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != (unsigned char)(1 + (i * 7 + (i >> 11)) % 200))
            return false;
    }
    return true;
}

static void memory_open(memory *memory, net_self *self, size_t size_bytes)
{
    memory->size_bytes = size_bytes;
    memory->bytes =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NET_SELF_CHECK(memory->bytes != MAP_FAILED, "no memory");
    NET_SELF_CHECK(ferry_buffer_wrap(ferry_device_at(self->engine, 0), memory->bytes, size_bytes,
                                     NULL, NULL, &memory->buffer) == FERRY_OK,
                   "no buffer");
}

static void be_other_memory(void *address, size_t size_bytes)
{
    void *bytes = mmap(address, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (bytes != address)
        _exit(1);
    memset(bytes, OTHER_BYTE, size_bytes);
}

static ferry_future *submit(net_self *self, const memory *memory, bool is_send, int64_t deadline_ns)
{
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = deadline_ns;
    ferry_span span = {memory->buffer, 0, memory->size_bytes};
    return (is_send ? ferry_send : ferry_recv)(self->group, self->rank == 0, TAG, span, &options);
}

static void await_quiet(ferry_future *future)
{
    ferry_future *quiet = ferry_future_quiet(future);
    NET_SELF_CHECK(ferry_future_wait(quiet, -1) == FERRY_OK, "quiet failed");
    ferry_future_release(quiet);
}

/* Without waiting. */
static bool is_quiet(ferry_future *future)
{
    ferry_future *quiet = ferry_future_quiet(future);
    ferry_status status = ferry_future_wait(quiet, 0);
    ferry_future_release(quiet);
    return status == FERRY_OK;
}

/* Warms the connection up, so that what is stopped is the message that is meant. */
static void exchange_one(net_self *self)
{
    memory memory;
    memory_open(&memory, self, 8);
    ferry_future *future = submit(self, &memory, self->rank == 0, 0);
    NET_SELF_CHECK(ferry_future_wait(future, -1) == FERRY_OK, "the first message");
    ferry_future_release(future);
    ferry_buffer_release(memory.buffer);
}

static void leave_now(net_self *self)
{
    ferry_future *left = ferry_group_leave(self->group);
    NET_SELF_CHECK(ferry_future_wait(left, -1) == FERRY_OK, "leaving failed");
    ferry_future_release(left);
}

/* Gives up the send as it is told, until its memory is quiet. */
static void give_up(net_self *self, ferry_future *send, const char *how)
{
    if (strcmp(how, "leave") == 0) {
        leave_now(self);
    } else if (strcmp(how, "shutdown") == 0) {
        NET_SELF_CHECK(ferry_engine_shutdown(self->engine, -1) == FERRY_OK, "the shutdown failed");
    } else if (strcmp(how, "release") == 0) {
        ferry_group_release(self->group);
        self->group = NULL;
    } else if (strcmp(how, "cancel") == 0) {
        (void)ferry_future_cancel(send);
    }
    (void)ferry_future_wait(send, -1);
    bool is_early = strcmp(how, "shutdown") != 0 && is_quiet(send);
    net_say("resolved %s early=%d", ferry_status_name(ferry_future_poll(send)), is_early);
    if (strcmp(how, "shutdown") != 0) /* after it there is nothing to ask for, and all is quiet */
        await_quiet(send);
}

static int giver(int argc, char **argv)
{
    net_self self;
    memory memory;
    if (net_argument(argc, argv, "forbid"))
        NET_SELF_CHECK(forbid_reading(), "no seccomp");
    net_self_join(&self, argc, argv);
    exchange_one(&self);
    net_say("warm"); /* its answer has come */
    memory_open(&memory, &self, (size_t)net_argument_number(argc, argv, "bytes", SMALL_BYTES));
    fill(memory.bytes, memory.size_bytes);
    (void)net_await("give");
    bool has_deadline = net_argument(argc, argv, "deadline") != NULL;
    ferry_future *send =
        submit(&self, &memory, true, has_deadline ? net_self_deadline(SECOND_NS / 5) : 0);
    net_say("under way address=%lld", (long long)(intptr_t)memory.bytes);
    const char *how = net_await("give up");
    if (strcmp(how, "exec") == 0) {
        char address[64], bytes[64];
        (void)snprintf(address, sizeof(address), "address=%lld", (long long)(intptr_t)memory.bytes);
        (void)snprintf(bytes, sizeof(bytes), "bytes=%zu", memory.size_bytes);
        (void)execl("/proc/self/exe", argv[0], "--role", "other", address, bytes, NULL);
        return 1;
    }
    give_up(&self, send, how);
    memset(memory.bytes, OTHER_BYTE, memory.size_bytes);
    net_say("overwritten");
    (void)net_await("end");
    ferry_future_release(send);
    ferry_buffer_release(memory.buffer);
    net_self_end(&self);
    return 0;
}

/* What the giver becomes by exec: the same process, and its memory is another's. */
static int other(int argc, char **argv)
{
    be_other_memory((void *)(intptr_t)net_argument_number(argc, argv, "address", 0),
                    (size_t)net_argument_number(argc, argv, "bytes", 0));
    net_say("overwritten");
    (void)net_await("end");
    return 0;
}

static const char *judge(const ferry_future *receive, const memory *memory)
{
    if (ferry_future_poll((ferry_future *)(uintptr_t)receive) != FERRY_OK)
        return "failed";
    return is_filled(memory->bytes, memory->size_bytes) ? "right" : "wrong";
}

static int taker(int argc, char **argv)
{
    net_self self;
    memory memory;
    if (net_argument(argc, argv, "forbid"))
        NET_SELF_CHECK(forbid_reading(), "no seccomp");
    net_self_join(&self, argc, argv);
    exchange_one(&self);
    memory_open(&memory, &self, (size_t)net_argument_number(argc, argv, "bytes", SMALL_BYTES));
    memset(memory.bytes, 0xa5, memory.size_bytes);
    (void)net_await("take");
    reads_to_pass = (int)net_argument_number(argc, argv, "pass", 0);
    stops_at = (step)net_argument_number(argc, argv, "step", NOWHERE);
    ferry_future *receive = submit(&self, &memory, false, 0);
    net_say("taking");
    ferry_status status = ferry_future_wait(receive, -1);
    const ferry_error *error = ferry_future_error(receive);
    net_say("took %s %s: %s", judge(receive, &memory), ferry_status_name(status),
            error ? error->message : "");
    await_quiet(receive);
    (void)net_await("end");
    ferry_future_release(receive);
    ferry_buffer_release(memory.buffer);
    net_self_end(&self);
    return 0;
}

/* ---- the test ---- */

typedef struct plan {
    const char *how; /* the giver gives up, or dies */
    step step;
    size_t bytes;
    int reads_to_pass;
    bool is_forbidden; /* to read the other's memory */
    bool has_hosts;
} plan;

static net_member *start(const char *role, int rank, const plan *plan)
{
    char store[128], number[16], bytes[32], step[16], pass[16];
    (void)snprintf(store, sizeof(store), "store=file:%s/store-%s-%d-%zu", net_folder(), plan->how,
                   plan->step, plan->bytes);
    (void)snprintf(number, sizeof(number), "rank=%d", rank);
    (void)snprintf(bytes, sizeof(bytes), "bytes=%zu", plan->bytes);
    (void)snprintf(step, sizeof(step), "step=%d", (int)plan->step);
    (void)snprintf(pass, sizeof(pass), "pass=%d", plan->reads_to_pass);
    bool lets_die = strcmp(plan->how, "lease") == 0;
    return net_start(plan->has_hosts ? rank : NET_HERE, role, store, number, bytes, step, pass,
                     lets_die ? "lease_ms=2000" : "lease_ms=60000", "linger_ms=1",
                     plan->has_hosts ? "network=eth0" : "network=lo",
                     strcmp(plan->how, "deadline") == 0 ? "deadline=1" : "patient=1",
                     plan->is_forbidden ? "forbid=1" : "allow=1", NULL);
}

static void await_stop(const net_member *member)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)net_pid(member), &info, WSTOPPED | WEXITED | WNOWAIT) != 0)
        NET_CHECK(errno == EINTR, "the taker can't be waited for");
    NET_CHECK(info.si_code == CLD_STOPPED, "the taker ended in place of stopping");
}

/* A process with that number, and other bytes at that place. 0: it can't be made here. */
static pid_t take_number(pid_t number, void *address, size_t size_bytes)
{
    pid_t wanted = number;
    struct clone_args arguments = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&wanted, .set_tid_size = 1};
    long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
    if (pid < 0)
        return 0;
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_other_memory(address, size_bytes);
        (void)raise(SIGSTOP); /* it is ready; and is so as long as it is looked at */
        for (;;)
            (void)pause();
    }
    int status;
    NET_CHECK(waitpid((pid_t)pid, &status, WUNTRACED) == pid && WIFSTOPPED(status),
              "who took the number has ended");
    return (pid_t)pid;
}

static void end_all(net_member *giver, net_member *taker)
{
    if (giver) {
        net_tell(giver, "end");
        net_end(giver);
    }
    net_tell(taker, "end");
    net_end(taker);
}

static void check(const plan *plan, const char *took)
{
    printf("%s, stopped %s, %zu bytes: %s\n", plan->how, step_names[plan->step], plan->bytes, took);
    NET_CHECK(strncmp(took, "wrong", 5) != 0, "other bytes than were sent, and all is said to be "
                                              "well");
}

/* Both have begun, and the taker is stopped. Returns where the giver's memory is. */
static void *begin(const plan *plan, net_member **giver_p, net_member **taker_p)
{
    *giver_p = start("giver", 0, plan);
    *taker_p = start("taker", 1, plan);
    (void)net_hear(*giver_p, "joined");
    (void)net_hear(*taker_p, "joined");
    net_tell(*taker_p, "take");
    (void)net_hear(*taker_p, "taking");
    (void)net_hear(*giver_p, "warm");
    if (plan->step == NOWHERE)
        net_signal(*taker_p, SIGSTOP);
    net_tell(*giver_p, "give");
    const char *said = net_hear(*giver_p, "under way");
    void *address = (void *)(intptr_t)net_number(said, "address");
    await_stop(*taker_p);
    return address;
}

/* A giver that gives up and lives on. */
typedef struct pair {
    plan plan;
    net_member *giver, *taker;
} pair;

static pair begin_to_give_up(const plan *plan)
{
    pair pair = {.plan = *plan};
    (void)begin(plan, &pair.giver, &pair.taker);
    net_tell(pair.giver, "give up %s", plan->how);
    return pair;
}

static void end_giving_up(const pair *pair)
{
    const plan *plan = &pair->plan;
    bool is_exec = strcmp(plan->how, "exec") == 0;
    bool is_asking = strcmp(plan->how, "cancel") == 0 || strcmp(plan->how, "deadline") == 0;
    const char *resolved = is_exec ? "" : net_hear(pair->giver, "resolved");
    if (is_asking) /* nobody can call the reader back: the memory is not quiet before it was */
        NET_CHECK(net_number(resolved, "early") == 0, "quiet while its receiver is at it");
    else
        (void)net_hear(pair->giver, "overwritten");
    net_signal(pair->taker, SIGCONT);
    check(plan, net_hear(pair->taker, "took"));
    if (is_asking)
        (void)net_hear(pair->giver, "overwritten");
    end_all(pair->giver, pair->taker);
}

static void give_up_and_overwrite(const plan *plan)
{
    pair pair = begin_to_give_up(plan);
    end_giving_up(&pair);
}

static void die(const plan *plan)
{
    net_member *giver, *taker;
    bool takes_number = strcmp(plan->how, "number") == 0;
    void *address = begin(plan, &giver, &taker);
    pid_t number = net_pid(giver);
    net_signal(giver, SIGKILL);
    net_end_by(giver, SIGKILL);
    pid_t usurper = takes_number ? take_number(number, address, plan->bytes) : 0;
    if (takes_number && usurper == 0)
        net_skip("a process's number can't be chosen here: %s", strerror(errno));
    net_signal(taker, SIGCONT);
    check(plan, net_hear(taker, "took"));
    if (usurper != 0) {
        (void)kill(usurper, SIGKILL);
        (void)waitpid(usurper, NULL, 0);
    }
    end_all(NULL, taker);
}

/* At each step of one read, and in the midst of a message that takes several. */
static void at_each_step(const char *how, void (*run)(const plan *))
{
    for (step step = BEFORE; step < STEPS; step++) {
        run(&(plan){.how = how, .step = step, .bytes = SMALL_BYTES});
        run(&(plan){.how = how, .step = step, .bytes = LARGE_BYTES, .reads_to_pass = 2});
    }
}

/* Leases run out, so all at once. */
static pair waiting[16];
static size_t waiting_count;

static void give_up_later(const plan *plan)
{
    waiting[waiting_count++] = begin_to_give_up(plan);
}

static void await_all(void)
{
    for (size_t i = 0; i < waiting_count; i++)
        end_giving_up(&waiting[i]);
}

static void by_lease(void)
{
    at_each_step("lease", give_up_later);
    await_all();
}

static void by_leaving(void)
{
    at_each_step("leave", give_up_and_overwrite);
}

static void by_shutdown(void)
{
    at_each_step("shutdown", give_up_and_overwrite);
}

static void by_release(void)
{
    at_each_step("release", give_up_and_overwrite);
}

static void by_cancel(void)
{
    at_each_step("cancel", give_up_and_overwrite);
}

static void by_deadline(void)
{
    at_each_step("deadline", give_up_and_overwrite);
}

static void by_exec(void)
{
    at_each_step("exec", give_up_and_overwrite);
}

static void by_kill(void)
{
    at_each_step("kill", die);
}

static void by_kill_and_number(void)
{
    at_each_step("number", die);
}

/* Ways that read nobody's memory: stopped before all of it is there. */
static void not_read(const plan *plan)
{
    static const char *const hows[] = {"lease", "leave", "shutdown", "release"};
    for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++) {
        struct plan one = *plan;
        one.how = hows[i];
        give_up_later(&one);
    }
}

static void copied(void)
{
    not_read(&(plan){.step = NOWHERE, .bytes = LARGE_BYTES, .is_forbidden = true});
    not_read(&(plan){.step = NOWHERE, .bytes = SMALL_BYTES, .is_forbidden = true});
    await_all();
}

static void other_hosts(void)
{
    net_hosts_open(2, NET_CABLE_VETH);
    not_read(&(plan){.step = NOWHERE, .bytes = LARGE_BYTES, .has_hosts = true});
    not_read(&(plan){.step = NOWHERE, .bytes = SMALL_BYTES, .has_hosts = true});
    await_all();
}

/* ---- two engines of one process ---- */

typedef struct joining {
    net_self *self;
    int argc;
    char **argv;
} joining;

static void *join_in_thread(void *arg)
{
    joining *joining = arg;
    ferry_future *future = net_self_begin(joining->self, joining->argc, joining->argv);
    NET_SELF_CHECK(ferry_future_wait(future, -1) == FERRY_OK, "joining failed");
    ferry_future_release(future);
    joining->self->rank = (uint32_t)ferry_group_rank(joining->self->group);
    return NULL;
}

static void twins_round(net_self twins[2], step step)
{
    memory memories[2];
    for (size_t i = 0; i < 2; i++)
        memory_open(&memories[i], &twins[i], SMALL_BYTES);
    fill(memories[0].bytes, SMALL_BYTES);
    stops_at = step;
    ferry_future *receive = submit(&twins[1], &memories[1], false, 0);
    ferry_future *send = submit(&twins[0], &memories[0], true, 0);
    while (sem_wait(reader_stands) != 0)
        continue;
    leave_now(&twins[0]);
    (void)ferry_future_wait(send, -1);
    await_quiet(send);
    memset(memories[0].bytes, OTHER_BYTE, SMALL_BYTES);
    (void)sem_post(reader_goes_on);
    (void)ferry_future_wait(receive, -1);
    net_say("took %s", judge(receive, &memories[1]));
    ferry_future_release(send);
    ferry_future_release(receive);
    for (size_t i = 0; i < 2; i++)
        ferry_buffer_release(memories[i].buffer);
}

static int twin_member(int argc, char **argv)
{
    sem_t stands, goes_on;
    (void)sem_init(&stands, 0, 0);
    (void)sem_init(&goes_on, 0, 0);
    reader_stands = &stands;
    reader_goes_on = &goes_on;
    net_self twins[2];
    joining joinings[2] = {{&twins[0], argc, argv}, {&twins[1], argc, argv}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        NET_SELF_CHECK(pthread_create(&threads[i], NULL, join_in_thread, &joinings[i]) == 0,
                       "no thread");
    for (size_t i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    if (twins[0].rank != 0) {
        ferry_group *group = twins[0].group;
        ferry_engine *engine = twins[0].engine;
        twins[0].group = twins[1].group;
        twins[0].engine = twins[1].engine;
        twins[1].group = group;
        twins[1].engine = engine;
        twins[0].rank = 0;
        twins[1].rank = 1;
    }
    twins_round(twins, (step)net_argument_number(argc, argv, "step", BEFORE));
    for (size_t i = 0; i < 2; i++)
        net_self_end(&twins[i]);
    return 0;
}

static void twins(void)
{
    for (step step = BEFORE; step < STEPS; step++) {
        char store[64], number[16];
        (void)snprintf(store, sizeof(store), "store=mem:pulled-%d", (int)step);
        (void)snprintf(number, sizeof(number), "step=%d", (int)step);
        net_member *member =
            net_start(NET_HERE, "twins", store, number, "lease_ms=60000", "linger_ms=1", NULL);
        check(&(plan){.how = "twins", .step = step, .bytes = SMALL_BYTES},
              net_hear(member, "took"));
        net_end(member);
    }
}

int main(int argc, char **argv)
{
    static const net_role roles[] = {
        {"giver", giver}, {"taker", taker}, {"other", other}, {"twins", twin_member}};
    static const net_case cases[] = {{"by_lease", by_lease, 120},
                                     {"by_leaving", by_leaving, 60},
                                     {"by_shutdown", by_shutdown, 60},
                                     {"by_release", by_release, 60},
                                     {"by_cancel", by_cancel, 60},
                                     {"by_deadline", by_deadline, 60},
                                     {"by_exec", by_exec, 60},
                                     {"by_kill", by_kill, 60},
                                     {"by_number", by_kill_and_number, 60},
                                     {"copied", copied, 120},
                                     {"other_hosts", other_hosts, 120},
                                     {"twins", twins, 60}};
    return net_test_main(argc, argv, roles, sizeof(roles) / sizeof(*roles), cases,
                         sizeof(cases) / sizeof(*cases));
}
