/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/member.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1e9
#define LEAVE_NS INT64_C(5000000000)
#define SECRET_LEAST_BYTES 16
#define SECRET_MOST_BYTES 1024
#define PASSWORD_BYTES 256

int member_fail(const member *member, const char *doing, const char *why)
{
    fprintf(stderr, "ferry: rank %d: %s: %s\n", member->rank, doing, why);
    return EXIT_FAILURE;
}

int member_fail_error(const member *member, const char *doing, ferry_status status,
                      const ferry_error *error)
{
    fprintf(stderr, "ferry: rank %d: %s: %s (%s)\n", member->rank, doing,
            error ? error->message : ferry_status_text(status), ferry_status_name(status));
    if (error && error->cause)
        fprintf(stderr, "ferry: because of: %s (%s)\n", error->cause->message,
                ferry_status_name(error->cause->status));
    return EXIT_FAILURE;
}

/* ---- interrupts ---- */

/* Fails all operations under way, so that the thread that waits for them returns. */
static void *watch_signals(void *arg)
{
    member *member = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2); /* the end itself stops this thread */
    for (;;) {
        int number = 0;
        if (sigwait(&set, &number) != 0 || number == SIGUSR2)
            return NULL;
        pthread_mutex_lock(&member->mutex);
        member->interrupt = number;
        if (member->joining)
            (void)ferry_future_cancel(member->joining);
        else if (member->group)
            ferry_future_release(ferry_group_leave(member->group));
        pthread_mutex_unlock(&member->mutex);
    }
}

static int start_signals(member *member)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int error = pthread_create(&member->signals, NULL, watch_signals, member);
    if (error)
        return member_fail(member, "starting a thread", strerror(error));
    member->has_signals = true;
    return 0;
}

int member_interrupt(member *member)
{
    pthread_mutex_lock(&member->mutex);
    int number = member->interrupt;
    pthread_mutex_unlock(&member->mutex);
    return number;
}

/* ---- waiting ---- */

int member_fail_future(member *member, ferry_future *future, const char *doing)
{
    ferry_status status = ferry_future_poll(future);
    int number = member_interrupt(member);
    if (number) {
        fprintf(stderr, "ferry: rank %d: interrupted\n", member->rank);
        return 128 + number;
    }
    const ferry_error *error = ferry_future_error(future);
    ferry_rank rank = error && error->rank != FERRY_RANK_NONE ? error->rank : member->other;
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    if ((status == FERRY_E_DEAD || status == FERRY_E_PEER) && member->group &&
        ferry_group_member(member->group, rank, &info) == FERRY_OK)
        fprintf(stderr, "ferry: rank %d: the other end, rank %u (process %lld on %s), %s\n",
                member->rank, (unsigned)rank, (long long)info.pid, info.host,
                status == FERRY_E_DEAD ? "has died or left" : "can't be reached any more");
    return member_fail_error(member, doing, status, error);
}

int member_finish(member *member, ferry_future *future, const char *doing)
{
    ferry_status status = ferry_future_poll(future);
    if (status == FERRY_PENDING)
        status = ferry_future_wait(future, -1);
    int result = status == FERRY_OK ? 0 : member_fail_future(member, future, doing);
    ferry_future_release(future);
    return result;
}

/* ---- opening ---- */

static int read_secret(member *member, unsigned char *secret, size_t *size_p)
{
    const char *path = member->options->secret_path;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return member_fail(member, path, strerror(errno));
    *size_p = fread(secret, 1, SECRET_MOST_BYTES + 1, file);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return member_fail(member, path, strerror(error));
    if (*size_p < SECRET_LEAST_BYTES || *size_p > SECRET_MOST_BYTES)
        return member_fail(member, path, "a secret is 16 to 1024 bytes");
    return 0;
}

/* Reads the first line of the file. */
static int read_password(member *member, char password[PASSWORD_BYTES])
{
    const char *path = member->options->password_path;
    FILE *file = fopen(path, "re");
    if (!file)
        return member_fail(member, path, strerror(errno));
    password[0] = '\0';
    bool is_read = fgets(password, PASSWORD_BYTES, file) != NULL;
    int error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error)
        return member_fail(member, path, strerror(error));
    size_t length = strcspn(password, "\r\n");
    if (!is_read || length == 0 || length == PASSWORD_BYTES - 1)
        return member_fail(member, path, "a password is a line of 1 to 254 bytes");
    password[length] = '\0';
    return 0;
}

/* Sets what the store's URI must not hold: everybody can read a command line. */
static int set_store(member *member, ferry_group_options *group, char password[PASSWORD_BYTES])
{
    const member_options *options = member->options;
    group->store = options->store;
    group->store_user = options->user;
    group->store_ca_path = options->ca_path;
    group->store_certificate_path = options->certificate_path;
    group->store_key_path = options->key_path;
    if (!options->password_path)
        return 0;
    group->store_password = password;
    return read_password(member, password);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int member_begin(member *member, const member_options *options, int rank, ferry_rank other,
                 const ferry_engine_options *engine)
{
    *member = (struct member){.options = options, .rank = rank, .other = other};
    pthread_mutex_init(&member->mutex, NULL);
    int result = start_signals(member);
    if (result)
        return result;
    ferry_error *error = NULL;
    ferry_status status = ferry_engine_create(engine, &member->engine, &error);
    if (status != FERRY_OK)
        result = member_fail_error(member, "creating an engine", status, error);
    else
        member->device = ferry_device_at(member->engine, 0);
    ferry_error_release(error);
    return result;
}

int member_join(member *member, const ferry_group_options *more)
{
    const member_options *options = member->options;
    unsigned char secret[SECRET_MOST_BYTES + 1];
    char password[PASSWORD_BYTES];
    ferry_group_options group = *more;
    int result = set_store(member, &group, password);
    if (result)
        return result;
    group.job = options->job;
    group.size = options->size;
    group.rank = (ferry_rank)member->rank;
    group.has_rank = true;
    group.device_count = 1;
    group.network = options->network;
    group.lease_ns = (int64_t)(options->lease_s * SECOND_NS);
    group.deadline_ns = now_ns() + (int64_t)(options->join_s * SECOND_NS);
    if (options->secret_path) {
        result = read_secret(member, secret, &group.secret_bytes);
        if (result)
            return result;
        group.secret = secret;
    }
    ferry_group *joined = NULL;
    ferry_future *future = ferry_group_join(member->engine, &group, &joined);
    explicit_bzero(password, sizeof(password)); /* ferry has its own copy */
    explicit_bzero(secret, sizeof(secret));
    pthread_mutex_lock(&member->mutex);
    member->joining = future;
    bool is_late = member->interrupt != 0;
    pthread_mutex_unlock(&member->mutex);
    if (is_late)
        (void)ferry_future_cancel(future);
    (void)ferry_future_wait(future, -1);
    pthread_mutex_lock(&member->mutex);
    member->joining = NULL;
    member->group = joined;
    pthread_mutex_unlock(&member->mutex);
    return member_finish(member, future, "joining");
}

void member_leave(member *member)
{
    if (member->has_signals) {
        pthread_kill(member->signals, SIGUSR2);
        pthread_join(member->signals, NULL);
        member->has_signals = false;
    }
    if (!member->group)
        return;
    ferry_future *left = ferry_group_leave(member->group);
    (void)ferry_future_wait(left, LEAVE_NS);
    ferry_future_release(left);
    ferry_group_release(member->group);
    member->group = NULL;
}

int member_end(member *member, int result)
{
    if (member->engine) {
        ferry_status status = ferry_engine_shutdown(member->engine, LEAVE_NS);
        if (status != FERRY_OK && !result)
            result = member_fail_error(member, "shutting down", status, NULL);
    }
    ferry_engine_release(member->engine);
    pthread_mutex_destroy(&member->mutex);
    return result;
}
