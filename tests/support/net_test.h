/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whose members are processes. The test program starts itself again for each member, with the
 * name of a role; the two talk in lines over pipes. The test itself has no engine: it tells members
 * what to do, kills and stops them, and hears what they saw.
 *
 * Whatever the test waits for, a watchdog waits too: past the limit it says what was waited for and
 * where each member stands, and fails. All members die with the test. One thread.
 */
#ifndef FERRY_TESTS_NET_TEST_H
#define FERRY_TESTS_NET_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NET_SKIP_STATUS 77
#define NET_MEMBERS_MAX 80 /* at once */
#define NET_HERE (-1)      /* no host of its own: the test's namespace */

/* What a member does; its exit status. argv[0] is the role's name. */
typedef struct net_role {
    const char *name;
    int (*run)(int argc, char **argv);
} net_role;

typedef struct net_case {
    const char *name;
    void (*run)(void);
    int limit_s; /* for all of it, on a machine with nothing else to do */
} net_case;

/* main() of a test: all cases one after the other, each in a process of its own, or those named. */
int net_test_main(int argc, char **argv, const net_role *roles, size_t role_count,
                  const net_case *cases, size_t case_count);

/* ---- in the test ---- */

_Noreturn void net_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void net_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define NET_CHECK(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            net_fail(__VA_ARGS__);                                                                 \
    } while (0)

/* CLOCK_MONOTONIC, which all processes of the machine share. */
int64_t net_now_ns(void);

/* A folder for stores and files; it goes with the test. The test's. */
const char *net_folder(void);

typedef struct net_member net_member;

/* Starts a member: a role and up to 31 arguments, then NULL. The test's. */
net_member *net_start(int host, const char *role, ...) __attribute__((sentinel));

/* Sends a line. */
void net_tell(net_member *member, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Waits for the member's next line, which must begin with a word; the rest of it, valid until the
 * next call. Fails if the member ends or says something else.
 */
const char *net_hear(net_member *member, const char *word);

/*
 * What comes first of any of these (NULL ones are passed over): a line, which is valid until the
 * next call for that member, or its end, which net_end_status says more of.
 */
typedef enum net_news { NET_NOTHING, NET_LINE, NET_ENDED } net_news;
net_news net_listen(net_member *const *from, size_t count, int64_t timeout_ns, size_t *which_p,
                    const char **line_p);

/* A number in what was heard: after "name=". Fails if there is none. */
int64_t net_number(const char *text, const char *name);

/* Lets so much time go by. */
void net_rest(int64_t duration_ns);

/* ---- two members ---- */

/*
 * Starts members of ranks 0 and 1, each on a host of its own or both here, that meet at a store in
 * the test's folder. More arguments are for both, up to a NULL. Returns when they have joined.
 */
void net_pair_start(net_member *pair[2], bool has_hosts, const char *role, ...)
    __attribute__((sentinel));
void net_pair_tell(net_member *const pair[2], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void net_pair_hear(net_member *const pair[2], const char *word);
void net_pair_end(net_member *const pair[2]);

/* After SIGSTOP it stands still when this returns: on a busy machine threads go on for a while. */
void net_signal(net_member *member, int number);

/* Waits for its end, which must be by exit status 0, or by the signal. */
void net_end(net_member *member);
void net_end_by(net_member *member, int number);

/* The same, and whatever it is: as waitpid tells it. The handle is another member's after this. */
int net_end_status(net_member *member);

/* Says on stderr where the member's threads stand: what the kernel says, and a debugger if there is
 * one. */
void net_show(const net_member *member);

pid_t net_pid(const net_member *member);

/*
 * How much later than asked for the machine has woken a thread that sleeps all the time, summed up
 * since the test began: bounds on time that are promised are lengthened by what it was late.
 */
int64_t net_late_ns(void);

#define NET_THREADS_MAX 256 /* of all members together; of more a stopwatch does not know */

/*
 * Fails if more than bound_ns have passed since, but for what the machine was late meanwhile, and
 * for how long members were kept from a CPU: where many programs want one, the kernel lets a single
 * thread wait for seconds, while another of the same program runs all the time.
 */
typedef struct net_stopwatch {
    int64_t begin_ns, late_ns;
    size_t thread_count;
    struct {
        int id;
        int64_t kept_ns; /* from a CPU, when it was started */
    } threads[NET_THREADS_MAX];
} net_stopwatch;

net_stopwatch net_stopwatch_start(void);
void net_stopwatch_check(const net_stopwatch *watch, int64_t end_ns, int64_t bound_ns,
                         const char *what);

/* ---- in a member ---- */

/* Says a line to the test. */
void net_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define NET_WORDS_FD 3 /* readable when there is a line of the test's */

/* Waits for the test's next line, which must begin with a word; the rest of it. */
const char *net_await(const char *word);

/* Whether there is one; or the test is gone, which net_await ends the process for. */
bool net_is_told(void);

/* "name=value" among a role's arguments: the value, or NULL. */
const char *net_argument(int argc, char **argv, const char *name);
int64_t net_argument_number(int argc, char **argv, const char *name, int64_t otherwise);

#endif
