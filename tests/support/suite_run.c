/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of Criterion's tests; why there is one stands in suite.h.
 *
 *     SUITE [-j JOBS] [-l] [-d] [PATTERN...]
 *
 * runs the tests whose names (suite/test) match one of the shell patterns, or all; as many at a
 * time as there are processors, or JOBS. -l lists them. -d runs one in this very process, for a
 * debugger. Exit status: 0 some passed and none failed, 77 all were skipped, else 1. */
#include "tests/support/suite.h"

#include "tests/support/patience.h"
#include "tests/support/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIP_STATUS 77
#define JOBS_MAX 64

#define TIMEOUT_S 60.0 /* of tests that name none */

/* Criterion's macros put pointers into sections, whose bounds the linker names. */
extern struct criterion_test *__start_cr_tst[];
extern struct criterion_test *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

typedef struct job {
    pid_t pid; /* 0: free */
    const suite_case *running;
    suite_note *note;
    struct timespec begun;
    bool is_late; /* was killed for it */
} job;

typedef struct counts {
    unsigned passed, failed, skipped;
} counts;

static suite_case *cases;
static size_t case_count;
static job jobs[JOBS_MAX];
static long job_count;
static counts counted;

/* ---- which tests there are ---- */

static const struct criterion_suite *suite_of(const struct criterion_test *test)
{
    for (struct criterion_suite **at = __start_cr_sts; at < __stop_cr_sts; at++) {
        if (*at && strcmp((*at)->name, test->category) == 0)
            return *at;
    }
    return NULL;
}

static void add_case(const struct criterion_test *test, void *parameter, size_t index)
{
    cases = reallocarray(cases, case_count + 1, sizeof(*cases));
    if (!cases)
        abort();
    suite_case *added = &cases[case_count++];
    *added = (suite_case){.test = test, .suite = suite_of(test), .parameter = parameter};
    int size = snprintf(added->name, sizeof(added->name), "%s/%s", test->category, test->name);
    if (parameter)
        (void)snprintf(added->name + size, sizeof(added->name) - (size_t)size, "[%zu]", index);
    added->timeout_s = TIMEOUT_S;
    if (added->suite && added->suite->data && added->suite->data->timeout > 0)
        added->timeout_s = added->suite->data->timeout;
    if (test->data->timeout > 0)
        added->timeout_s = test->data->timeout;
    /* Not used by any test, so not done here; a test that asks for it must not pass by it. */
    if (test->data->signal || test->data->exit_code || test->data->disabled) {
        fprintf(stderr, "%s: the runner knows no .signal, .exit_code and .disabled\n", added->name);
        exit(EXIT_FAILURE);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const suite_case *)a)->name, ((const suite_case *)b)->name);
}

static void find_cases(void)
{
    for (struct criterion_test **at = __start_cr_tst; at < __stop_cr_tst; at++) {
        const struct criterion_test *test = *at;
        if (!test)
            continue;
        if (!test->data->param_) {
            add_case(test, NULL, 0);
            continue;
        }
        /* The memory is never given back: tests' processes read it. */
        struct criterion_test_params parameters = test->data->param_();
        for (size_t i = 0; i < parameters.length; i++)
            add_case(test, (char *)parameters.params + i * parameters.size, i);
    }
    qsort(cases, case_count, sizeof(*cases), by_name);
}

static void choose_cases(char **patterns, int count)
{
    size_t kept = 0;
    for (size_t i = 0; i < case_count; i++) {
        bool is_chosen = count == 0;
        for (int k = 0; k < count; k++) {
            const char *slash = strchr(cases[i].name, '/');
            is_chosen |=
                fnmatch(patterns[k], cases[i].name, 0) == 0 || strcmp(patterns[k], slash + 1) == 0;
        }
        if (is_chosen)
            cases[kept++] = cases[i];
    }
    case_count = kept;
}

/* ---- which of them can't be run where they are ---- */

/* Leaves out cases whose name fits `line`, "PATTERN: why"; a line that begins with # is a comment.
 */
static void leave_out(char *line)
{
    char *why = strstr(line, ": ");
    if (line[0] == '#' || !why)
        return;
    *why = '\0';
    size_t kept = 0;
    for (size_t i = 0; i < case_count; i++) {
        if (fnmatch(line, cases[i].name, 0) != 0) {
            cases[kept++] = cases[i];
            continue;
        }
        counted.skipped++;
        printf("skipped %s: %s", cases[i].name, why + 2);
    }
    case_count = kept;
}

/* FERRY_TESTS_LEFT_OUT names a file of such lines. */
static void leave_cases_out(void)
{
    const char *path = getenv("FERRY_TESTS_LEFT_OUT");
    if (!path)
        return;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "FERRY_TESTS_LEFT_OUT: can't read %s\n", path);
        exit(EXIT_FAILURE);
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0)
        leave_out(line);
    free(line);
    (void)fclose(file);
}

/* ---- a test's process ---- */

static _Noreturn void become_case(const job *job, pid_t runner, const sigset_t *mask)
{
    /* The runner may have died before this. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != runner)
        _exit(EXIT_FAILURE);
    (void)setsid();
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (empty >= 0)
        (void)dup2(empty, STDIN_FILENO);
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    suite_case_run(job->running, job->note);
}

static void start_case(job *job, const suite_case *chosen, const sigset_t *mask)
{
    const pid_t runner = getpid();
    memset(job->note, 0, sizeof(*job->note));
    job->running = chosen;
    job->is_late = false;
    (void)clock_gettime(CLOCK_MONOTONIC, &job->begun);
    (void)fflush(NULL);
    job->pid = fork();
    if (job->pid < 0) {
        perror("a test's process");
        exit(EXIT_FAILURE);
    }
    if (job->pid == 0)
        become_case(job, runner, mask);
}

static double age_s(const job *job)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - job->begun.tv_sec) +
           (double)(now.tv_nsec - job->begun.tv_nsec) / 1e9;
}

/* What is wrong with a test that has ended; NULL if nothing is. */
static const char *fault_of(const job *job, int status, char *text, size_t text_bytes)
{
    const uint32_t failed = atomic_load(&job->note->failed_asserts);
    if (job->is_late)
        return "took too long, and was killed";
    if (WIFSIGNALED(status)) {
        (void)snprintf(text, text_bytes, "was ended by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
        return text;
    }
    if (failed > 0) {
        (void)snprintf(text, text_bytes, "failed (%u assertions)", (unsigned)failed);
        return text;
    }
    if (WEXITSTATUS(status) != 0) {
        (void)snprintf(text, text_bytes, "ended with status %d", WEXITSTATUS(status));
        return text;
    }
    return atomic_load(&job->note->stage) == SUITE_BEGUN ? "ended before its last line" : NULL;
}

static void end_case(job *job, int status)
{
    char text[128];
    const char *fault = fault_of(job, status, text, sizeof(text));
    const char *name = job->running->name;
    if (fault) {
        counted.failed++;
        fprintf(stderr, "FAILED %s: it %s, after %.1f s\n", name, fault, age_s(job));
    } else if (atomic_load(&job->note->stage) == SUITE_SKIPPED) {
        counted.skipped++;
        printf("skipped %s: %s\n", name, job->note->reason);
    } else {
        counted.passed++;
    }
    job->pid = 0;
}

static void end_if_late(job *job)
{
    if (job->pid == 0 || job->is_late || age_s(job) < job->running->timeout_s * PATIENCE)
        return;
    fprintf(stderr, "%s hangs: nothing for %.0f s. Its threads:\n", job->running->name, age_s(job));
    stacks_show(job->pid);
    job->is_late = true;
    (void)kill(job->pid, SIGKILL);
}

/* ---- all of them ---- */

static job *find_job(pid_t pid)
{
    for (long i = 0; i < job_count; i++) {
        if (jobs[i].pid == pid)
            return &jobs[i];
    }
    return NULL;
}

/* Waits for the next end, at most a second. The signal stays blocked, so none is lost. */
static void await_ends(const sigset_t *child_ends)
{
    const struct timespec second = {.tv_sec = 1};
    siginfo_t end = {0};
    (void)sigtimedwait(child_ends, NULL, &second);
    while (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid > 0) {
        int status = 0;
        /* What a test has left in its group, whose number is its own until it is waited for. */
        (void)kill(-end.si_pid, SIGKILL);
        (void)waitpid(end.si_pid, &status, 0);
        job *ended = find_job(end.si_pid);
        if (ended)
            end_case(ended, status);
        end.si_pid = 0;
    }
    for (long i = 0; i < job_count; i++)
        end_if_late(&jobs[i]);
}

static void run_cases(void)
{
    sigset_t child_ends, before;
    (void)sigemptyset(&child_ends);
    (void)sigaddset(&child_ends, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child_ends, &before);
    for (size_t next = 0, running = 1; next < case_count || running > 0;) {
        for (job *free_job; next < case_count && (free_job = find_job(0));)
            start_case(free_job, &cases[next++], &before);
        await_ends(&child_ends);
        running = 0;
        for (long i = 0; i < job_count; i++)
            running += jobs[i].pid != 0;
    }
}

static suite_note *make_notes(size_t count)
{
    void *memory = mmap(NULL, count * sizeof(suite_note), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static _Noreturn void list_cases(void)
{
    for (size_t i = 0; i < case_count; i++)
        puts(cases[i].name);
    exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    bool has_debugger = false;
    bool is_list = false;
    job_count = sysconf(_SC_NPROCESSORS_ONLN);
    for (int option; (option = getopt(argc, argv, "j:ld")) != -1;) {
        if (option == 'j')
            job_count = strtol(optarg, NULL, 10);
        else if (option == 'l')
            is_list = true;
        else if (option == 'd')
            has_debugger = true;
        else
            return EXIT_FAILURE;
    }
    if (job_count < 1)
        job_count = 1;
    if (job_count > JOBS_MAX)
        job_count = JOBS_MAX;
    find_cases();
    choose_cases(argv + optind, argc - optind);
    if (is_list)
        list_cases();
    if (case_count == 0) {
        fprintf(stderr, "%s: no such test\n", program_invocation_short_name);
        return EXIT_FAILURE;
    }
    leave_cases_out();
    suite_note *notes = make_notes(JOBS_MAX);
    if (has_debugger)
        suite_case_run(&cases[0], notes);
    for (long i = 0; i < job_count; i++)
        jobs[i].note = &notes[i];
    run_cases();
    printf("%s: %u passed, %u failed, %u skipped\n", program_invocation_short_name, counted.passed,
           counted.failed, counted.skipped);
    free(cases);
    return counted.failed > 0 ? EXIT_FAILURE : counted.passed > 0 ? EXIT_SUCCESS : SKIP_STATUS;
}
