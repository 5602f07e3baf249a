/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/net_test.h"

#include "tests/support/net_hosts.h"
#include "tests/support/patience.h"
#include "tests/support/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define ARGUMENTS_MAX 32
#define BEAT_NS 5000000
#define FROM_TEST_FD NET_WORDS_FD /* in a member */
#define TO_TEST_FD 4

struct net_member {
    pid_t pid; /* 0: has ended */
    int to_fd, from_fd;
    char name[64];
    char input[LINE_BYTES]; /* heard, and not yet given as a line */
    size_t input_bytes;
    char line[LINE_BYTES];
    char told[128]; /* last, for the watchdog */
};

static const char *program_name;
static const char *case_name = "";
static net_member members[NET_MEMBERS_MAX];
static size_t member_count;
static char folder[64];
static int reaper_fd = -1;            /* closed by the kernel if the test is killed */
static _Atomic(const char *) waiting; /* what for */
static _Atomic int64_t limit_ns;
static _Atomic int64_t late_ns;

int64_t net_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- ends ---- */

static void kill_members(void)
{
    for (size_t i = 0; i < member_count; i++) {
        if (members[i].pid > 0)
            (void)kill(members[i].pid, SIGKILL);
    }
}

static _Noreturn void end_case(int status)
{
    kill_members();
    (void)fflush(stdout);
    (void)fflush(stderr);
    /* Other threads are still about; the folder goes by its reaper. */
    _exit(status);
}

_Noreturn void net_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s %s: ", program_name, case_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    end_case(1);
}

_Noreturn void net_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s %s: skipped: ", program_name, case_name);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    end_case(NET_SKIP_STATUS);
}

/* ---- the folder ---- */

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static _Noreturn void reap_folder(int fd)
{
    char byte;
    (void)setsid();
    (void)dup2(fd, 0);
    closefrom(1);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    /* Members that were killed with the test may write their last. */
    const struct timespec rest = {.tv_nsec = 50000000};
    for (int i = 0; i < 100 && nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0; i++)
        (void)nanosleep(&rest, NULL);
    _exit(0);
}

const char *net_folder(void)
{
    if (folder[0])
        return folder;
    int ends[2];
    (void)snprintf(folder, sizeof(folder), "/tmp/ferry-net-XXXXXX");
    if (!mkdtemp(folder) || pipe2(ends, O_CLOEXEC) != 0)
        net_fail("cannot make a folder: %s", strerror(errno));
    pid_t reaper = fork();
    if (reaper == 0) {
        (void)close(ends[1]);
        reap_folder(ends[0]);
    }
    (void)close(ends[0]);
    reaper_fd = ends[1];
    return folder;
}

/* ---- the watchdog, and how late the machine is ---- */

void net_show(const net_member *member)
{
    fprintf(stderr, "  %s, process %d, last told \"%s\"\n", member->name, (int)member->pid,
            member->told);
    stacks_show(member->pid);
}

static void bark(void)
{
    const char *what = atomic_load(&waiting);
    fprintf(stderr, "%s %s: nothing for too long; waiting for %s\n", program_name, case_name,
            what ? what : "nobody");
    for (size_t i = 0; i < member_count; i++) {
        if (members[i].pid > 0)
            net_show(&members[i]);
    }
    end_case(1);
}

static void *watch(void *arg)
{
    (void)arg;
    const struct timespec rest = {.tv_nsec = BEAT_NS};
    for (;;) {
        int64_t begin_ns = net_now_ns();
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
        int64_t end_ns = net_now_ns();
        atomic_fetch_add(&late_ns, end_ns - begin_ns - BEAT_NS);
        if (end_ns > atomic_load(&limit_ns))
            bark();
    }
    return NULL;
}

int64_t net_late_ns(void)
{
    return atomic_load(&late_ns);
}

/* How long a thread of the process was ready to run and did not; 0: it is gone. */
static int64_t kept_from_cpu_ns(int threads_fd, const char *thread)
{
    char text[128];
    (void)snprintf(text, sizeof text, "%.32s/schedstat", thread);
    int fd = openat(threads_fd, text, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    long long ran_ns, kept_ns = 0;
    text[count > 0 ? count : 0] = '\0';
    if (sscanf(text, "%lld %lld", &ran_ns, &kept_ns) != 2)
        kept_ns = 0;
    if (fd >= 0)
        (void)close(fd);
    return kept_ns;
}

/* Its threads. */
static void note_threads(net_stopwatch *watch, pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    const struct dirent *entry;
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] == '.' || watch->thread_count == NET_THREADS_MAX)
            continue;
        watch->threads[watch->thread_count].id = atoi(entry->d_name);
        watch->threads[watch->thread_count++].kept_ns =
            kept_from_cpu_ns(dirfd(threads), entry->d_name);
    }
    if (threads != NULL)
        (void)closedir(threads);
}

/* The members' and the test's own, as one waits for the other. */
net_stopwatch net_stopwatch_start(void)
{
    net_stopwatch watch = {.begin_ns = net_now_ns(), .late_ns = net_late_ns()};
    note_threads(&watch, getpid());
    for (size_t i = 0; i < member_count; i++) {
        if (members[i].pid > 0)
            note_threads(&watch, members[i].pid);
    }
    return watch;
}

/*
 * Since then, all threads together: any may be the one that the others wait for, and a process has
 * threads that were kept for longer before.
 */
static int64_t kept_since_ns(const net_stopwatch *watch)
{
    net_stopwatch now = net_stopwatch_start();
    int64_t sum_ns = 0;
    for (size_t i = 0; i < now.thread_count; i++) {
        int64_t kept_ns = now.threads[i].kept_ns;
        for (size_t k = 0; k < watch->thread_count; k++) {
            if (watch->threads[k].id == now.threads[i].id)
                kept_ns -= watch->threads[k].kept_ns;
        }
        sum_ns += kept_ns > 0 ? kept_ns : 0;
    }
    return sum_ns;
}

void net_stopwatch_check(const net_stopwatch *watch, int64_t end_ns, int64_t bound_ns,
                         const char *what)
{
    int64_t took_ns = end_ns - watch->begin_ns;
    /* Each late waking may stand for several on the way, in several processes. */
    int64_t allowed_ns = bound_ns + 4 * (net_late_ns() - watch->late_ns);
    if (took_ns > allowed_ns)
        allowed_ns += kept_since_ns(watch);
    if (took_ns > allowed_ns)
        net_fail("%s took %.3f s; it may take %.3f s, with what the machine was late %.3f s", what,
                 (double)took_ns / 1e9, (double)bound_ns / 1e9, (double)allowed_ns / 1e9);
    printf("%s %s: %s took %.3f s (bound %.3f s)\n", program_name, case_name, what,
           (double)took_ns / 1e9, (double)bound_ns / 1e9);
}

/* ---- members ---- */

static _Noreturn void become_member(int host, const int *ends, char **arguments)
{
    /* The parent may have died before this. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() == 1)
        _exit(1);
    if (host != NET_HERE && net_host_enter((unsigned)host) != 0) {
        perror("entering a host");
        _exit(1);
    }
    /* Out of the way of the numbers that are their places. */
    int from = fcntl(ends[0], F_DUPFD, 10);
    int to = fcntl(ends[1], F_DUPFD, 10);
    if (dup2(from, FROM_TEST_FD) < 0 || dup2(to, TO_TEST_FD) < 0)
        _exit(1);
    closefrom(TO_TEST_FD + 1);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

/* One of a member that has ended, or one more. */
static net_member *find_place(void)
{
    size_t i = 0;
    while (i < member_count && members[i].pid != 0)
        i++;
    NET_CHECK(i < NET_MEMBERS_MAX, "too many members");
    member_count += i == member_count;
    return &members[i];
}

/* Its arguments are `arguments` and, of role and those before it, three that it fills in. */
static net_member *start(int host, const char *role, char *arguments[])
{
    static size_t starts;
    net_member *member = find_place();
    arguments[0] = (char *)program_name;
    arguments[1] = "--role";
    arguments[2] = (char *)role;
    (void)snprintf(member->name, sizeof(member->name), "member %zu (%s)", starts++, role);
    int to[2];
    int from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        net_fail("cannot make pipes: %s", strerror(errno));
    (void)fflush(stdout);
    member->pid = fork();
    if (member->pid < 0)
        net_fail("cannot start a member: %s", strerror(errno));
    if (member->pid == 0)
        become_member(host, (const int[]){to[0], from[1]}, arguments);
    (void)close(to[0]);
    (void)close(from[1]);
    member->to_fd = to[1];
    member->from_fd = from[0];
    member->input_bytes = 0;
    return member;
}

/* Those of the list go behind the first `count`. */
static void add_arguments(char *arguments[ARGUMENTS_MAX + 3], size_t count, va_list list)
{
    for (char *argument; (argument = va_arg(list, char *));) {
        NET_CHECK(count < ARGUMENTS_MAX + 2, "too many arguments");
        arguments[count++] = argument;
    }
}

net_member *net_start(int host, const char *role, ...)
{
    char *arguments[ARGUMENTS_MAX + 3] = {NULL};
    va_list list;
    va_start(list, role);
    add_arguments(arguments, 3, list);
    va_end(list);
    return start(host, role, arguments);
}

void net_rest(int64_t duration_ns)
{
    struct timespec rest = {duration_ns / 1000000000, duration_ns % 1000000000};
    while (nanosleep(&rest, &rest) != 0)
        continue;
}

void net_pair_start(net_member *pair[2], bool has_hosts, const char *role, ...)
{
    char *arguments[ARGUMENTS_MAX + 3] = {NULL}, store[512];
    (void)snprintf(store, sizeof(store), "store=file:%s/store", net_folder());
    arguments[3] = store;
    arguments[4] = has_hosts ? "network=eth0" : "network=lo";
    va_list list;
    va_start(list, role);
    add_arguments(arguments, 6, list);
    va_end(list);
    for (int i = 0; i < 2; i++) {
        arguments[5] = i == 0 ? "rank=0" : "rank=1";
        pair[i] = start(has_hosts ? i : NET_HERE, role, arguments);
    }
    net_pair_hear(pair, "joined");
}

void net_pair_tell(net_member *const pair[2], const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    for (int i = 0; i < 2; i++)
        net_tell(pair[i], "%s", line);
}

void net_pair_hear(net_member *const pair[2], const char *word)
{
    for (int i = 0; i < 2; i++)
        (void)net_hear(pair[i], word);
}

void net_pair_end(net_member *const pair[2])
{
    for (int i = 0; i < 2; i++)
        net_end(pair[i]);
}

void net_tell(net_member *member, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    NET_CHECK(size >= 0 && size < (int)sizeof(line) - 1, "a line too long");
    (void)snprintf(member->told, sizeof(member->told), "%.100s", line);
    line[size++] = '\n';
    if (write(member->to_fd, line, (size_t)size) != size)
        net_fail("%s does not listen when told %s", member->name, member->told);
}

static void say_end(net_member *member, char *text, size_t text_bytes)
{
    int status = net_end_status(member);
    if (WIFSIGNALED(status))
        (void)snprintf(text, text_bytes, "was ended by signal %d", WTERMSIG(status));
    else
        (void)snprintf(text, text_bytes, "ended with status %d", WEXITSTATUS(status));
}

/* A whole line of what has come, without its end; NULL: there is none. */
static const char *take_line(net_member *member)
{
    const char *end = memchr(member->input, '\n', member->input_bytes);
    if (!end && member->input_bytes < sizeof(member->input))
        return NULL;
    size_t length = end ? (size_t)(end - member->input) : member->input_bytes - 1;
    memcpy(member->line, member->input, length);
    member->line[length] = '\0';
    member->input_bytes -= length + 1;
    memmove(member->input, member->input + length + 1, member->input_bytes);
    return member->line;
}

/* Waits until something comes. False: its end. */
static bool read_more(net_member *member)
{
    ssize_t got;
    do
        got = read(member->from_fd, member->input + member->input_bytes,
                   sizeof(member->input) - member->input_bytes);
    while (got < 0 && errno == EINTR);
    member->input_bytes += got > 0 ? (size_t)got : 0;
    return got > 0;
}

net_news net_listen(net_member *const *from, size_t count, int64_t timeout_ns, size_t *which_p,
                    const char **line_p)
{
    struct pollfd polls[NET_MEMBERS_MAX];
    NET_CHECK(count <= NET_MEMBERS_MAX, "too many members");
    for (size_t i = 0; i < count; i++) {
        polls[i] = (struct pollfd){.fd = from[i] ? from[i]->from_fd : -1, .events = POLLIN};
        *which_p = i;
        if (from[i] && (*line_p = take_line(from[i])))
            return NET_LINE;
    }
    const struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    if (ppoll(polls, count, &timeout, NULL) <= 0)
        return NET_NOTHING;
    for (size_t i = 0; i < count; i++) {
        if (polls[i].revents == 0)
            continue;
        *which_p = i;
        if (!read_more(from[i]))
            return NET_ENDED;
        if ((*line_p = take_line(from[i])))
            return NET_LINE;
    }
    return NET_NOTHING;
}

const char *net_hear(net_member *member, const char *word)
{
    char what[160];
    const char *line;
    (void)snprintf(what, sizeof(what), "\"%.60s\" of %s", word, member->name);
    atomic_store(&waiting, what);
    bool is_there = true;
    while (!(line = take_line(member)) && is_there)
        is_there = read_more(member);
    atomic_store(&waiting, NULL);
    if (!line) {
        char end[64];
        say_end(member, end, sizeof(end));
        net_fail("%s %s; \"%s\" was expected", member->name, end, word);
    }
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] != ' ' && line[length] != '\0'))
        net_fail("%s says \"%s\"; \"%s\" was expected", member->name, line, word);
    return line + length + (line[length] == ' ');
}

int64_t net_number(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        if ((at == text || at[-1] == ' ') && at[length] == '=')
            return strtoll(at + length + 1, NULL, 10);
    }
    net_fail("no %s= in \"%s\"", name, text);
}

void net_signal(net_member *member, int number)
{
    siginfo_t info;
    NET_CHECK(kill(member->pid, number) == 0, "%s can't be signalled", member->name);
    while (number == SIGSTOP &&
           waitid(P_PID, (id_t)member->pid, &info, WSTOPPED | WEXITED | WNOWAIT) != 0)
        NET_CHECK(errno == EINTR, "%s can't be waited for", member->name);
}

int net_end_status(net_member *member)
{
    char what[100];
    int status = 0;
    (void)snprintf(what, sizeof(what), "the end of %s", member->name);
    atomic_store(&waiting, what);
    while (waitpid(member->pid, &status, 0) < 0)
        NET_CHECK(errno == EINTR, "%s can't be waited for", member->name);
    atomic_store(&waiting, NULL);
    member->pid = 0;
    (void)close(member->to_fd);
    (void)close(member->from_fd);
    return status;
}

void net_end(net_member *member)
{
    int status = net_end_status(member);
    if (WIFSIGNALED(status))
        net_fail("%s was ended by signal %d", member->name, WTERMSIG(status));
    NET_CHECK(WEXITSTATUS(status) == 0, "%s ended with status %d", member->name,
              WEXITSTATUS(status));
}

void net_end_by(net_member *member, int number)
{
    int status = net_end_status(member);
    NET_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number,
              "%s ended with %d, not by signal %d", member->name, status, number);
}

pid_t net_pid(const net_member *member)
{
    return member->pid;
}

/* ---- in a member ---- */

void net_say(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (size < 0)
        size = 0;
    if (size > (int)sizeof(line) - 2)
        size = (int)sizeof(line) - 2;
    for (int i = 0; i < size; i++) {
        if (line[i] == '\n')
            line[i] = ' ';
    }
    line[size++] = '\n';
    if (write(TO_TEST_FD, line, (size_t)size) != size)
        _exit(1); /* the test is gone */
}

const char *net_await(const char *word)
{
    static char line[LINE_BYTES];
    size_t size = 0;
    /* Byte by byte: nothing of the next line is taken. */
    while (size < sizeof(line) - 1) {
        ssize_t got = read(FROM_TEST_FD, line + size, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            _exit(1);
        if (line[size] == '\n')
            break;
        size++;
    }
    line[size] = '\0';
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] != ' ' && line[length] != '\0')) {
        fprintf(stderr, "a member is told \"%s\"; \"%s\" was expected\n", line, word);
        _exit(1);
    }
    return line + length + (line[length] == ' ');
}

bool net_is_told(void)
{
    struct pollfd from = {.fd = FROM_TEST_FD, .events = POLLIN};
    return poll(&from, 1, 0) > 0;
}

const char *net_argument(int argc, char **argv, const char *name)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    }
    return NULL;
}

int64_t net_argument_number(int argc, char **argv, const char *name, int64_t otherwise)
{
    const char *text = net_argument(argc, argv, name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* ---- main ---- */

static _Noreturn void run_case(const net_case *chosen)
{
    pthread_t watchdog;
    case_name = chosen->name;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    atomic_store(&limit_ns, net_now_ns() + (int64_t)chosen->limit_s * PATIENCE * 1000000000);
    (void)net_folder(); /* its reaper is made while there is one thread */
    if (pthread_create(&watchdog, NULL, watch, NULL) != 0)
        net_fail("cannot start the watchdog");
    chosen->run();
    end_case(0);
}

/* A case has namespaces, members and a folder of its own, so it has a process of its own. */
static int fork_case(const net_case *chosen)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_case(chosen);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    int result = child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    printf("%s %s: %s\n", program_name, chosen->name,
           result == 0                 ? "passed"
           : result == NET_SKIP_STATUS ? "skipped"
                                       : "FAILED");
    return result;
}

static int run_role(int argc, char **argv, const net_role *roles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(roles[i].name, argv[0]) == 0)
            return roles[i].run(argc, argv);
    }
    fprintf(stderr, "no role %s\n", argv[0]);
    return 1;
}

int net_test_main(int argc, char **argv, const net_role *roles, size_t role_count,
                  const net_case *cases, size_t case_count)
{
    program_name = program_invocation_short_name;
    if (argc > 2 && strcmp(argv[1], "--role") == 0)
        return run_role(argc - 2, argv + 2, roles, role_count);
    int failed = 0;
    int passed = 0;
    for (size_t i = 0; i < case_count; i++) {
        bool is_chosen = argc < 2;
        for (int k = 1; k < argc; k++)
            is_chosen |= strcmp(argv[k], cases[i].name) == 0;
        if (!is_chosen)
            continue;
        int result = fork_case(&cases[i]);
        passed += result == 0;
        failed += result != 0 && result != NET_SKIP_STATUS;
    }
    return failed > 0 ? 1 : passed > 0 ? 0 : NET_SKIP_STATUS;
}
