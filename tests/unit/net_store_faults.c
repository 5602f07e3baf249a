/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder may do to a file: store: full, read-only, gone, strange, torn, locked. */
#include "net/store/disk.h"
#include "net/store/disk_lease.h"
#include "net/store/disk_open.h"
#include "tests/support/own_mounts.h"
#include "tests/support/store_suite.h"
#include "tests/support/temporary_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define CHECK STORE_CHECK

static char folder[TEMPORARY_FOLDER_BYTES], uri[TEMPORARY_FOLDER_BYTES + 8];
static const store_place place = {.uri = uri, .is_stepped = true};
static store_rig rig;
static store_seen seen;

static void make_folder(void)
{
    temporary_folder_make(folder);
    (void)snprintf(uri, sizeof uri, "file:%s", folder);
}

TestSuite(net_store_faults, .init = make_folder, .timeout = 60);

/* Keys stand under their own names, which the tests spoil. */
static void open_rig(size_t count)
{
    store_rig_open(&rig, &place, count);
    rig.prefix[0] = '\0';
}

static const char *path_of(const char *name)
{
    static char path[TEMPORARY_FOLDER_BYTES + 300];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t count)
{
    const int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    (void)close(fd);
}

static size_t count_files(const char *name)
{
    DIR *open_folder = opendir(path_of(name));
    size_t count = 0;

    CHECK(open_folder != NULL);
    for (const struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(open_folder);
    return count;
}

/* --- Opening --- */

static ferry_status try_to_open(const char *what, char message[FRY_ERROR_MESSAGE_BYTES])
{
    fry_memory memory;
    fry_log log;
    fry_clock clock;
    fry_reactor reactor;
    fry_store *store = NULL;
    fry_error *error = NULL;

    fry_memory_init(&memory, NULL);
    fry_log_init(&log, NULL, NULL);
    fry_clock_init(&clock, NULL);
    CHECK(driven_reactor_open(&reactor, &memory, &log, &clock) == FERRY_OK);
    const ferry_status status = fry_store_open(&reactor, what, NULL, &store, &error);
    CHECK((status == FERRY_OK) == (error == NULL) && (status == FERRY_OK) == (store != NULL));
    if (message != NULL)
        (void)strcpy(message, error != NULL ? error->public_.message : "");
    CHECK(error == NULL || error->public_.status == status);
    fry_error_release(error);
    fry_store_close(store);
    driven_reactor_close(&reactor);
    return status;
}

Test(net_store_faults, what_cannot_be_opened_says_why)
{
    char message[FRY_ERROR_MESSAGE_BYTES], name[400];

    cr_assert_eq(try_to_open("file:", message), FERRY_E_INVALID);
    (void)snprintf(name, sizeof name, "%s/nothing/here", uri);
    cr_assert_eq(try_to_open(name, message), FERRY_E_STORE);
    cr_assert(strstr(message, "No such file") != NULL, "%s", message);
    write_file("file", "x", 1);
    (void)snprintf(name, sizeof name, "%s/file", uri);
    cr_assert_eq(try_to_open(name, message), FERRY_E_STORE);
    cr_assert(strstr(message, "Not a directory") != NULL, "%s", message);
    (void)snprintf(name, sizeof name, "%s/made", uri); /* by it, for it */
    cr_assert_eq(try_to_open(name, message), FERRY_OK);
    cr_assert_eq(try_to_open(name, message), FERRY_OK);
    struct stat about;
    cr_assert(stat(path_of("made"), &about) == 0 && (about.st_mode & 0777) == 0700);
    cr_assert_eq(try_to_open("file:/proc/self", message), FERRY_E_STORE);
}

Test(net_store_faults, a_folder_of_something_else_is_refused)
{
    char message[FRY_ERROR_MESSAGE_BYTES];

    write_file("state", "something", 9);
    cr_assert_eq(try_to_open(uri, message), FERRY_E_STORE);
    cr_assert(strstr(message, "is not a store's") != NULL, "%s", message);
    cr_assert_eq(unlink(path_of("state")), 0);
    cr_assert_eq(symlink("/etc/passwd", path_of("state")), 0);
    cr_assert_eq(try_to_open(uri, message), FERRY_E_STORE);
    cr_assert_eq(unlink(path_of("state")), 0);
    cr_assert_eq(try_to_open(uri, message), FERRY_OK);
    const int fd = open(path_of("state"), O_WRONLY | O_CLOEXEC);
    const uint32_t format = 77;
    cr_assert_eq(pwrite(fd, &format, sizeof format, offsetof(fry_disk_state, format)),
                 sizeof format);
    (void)close(fd);
    cr_assert_eq(try_to_open(uri, message), FERRY_E_STORE);
    cr_assert(strstr(message, "another version") != NULL, "%s", message);
}

Test(net_store_faults, a_planted_link_for_a_part_is_refused)
{
    cr_assert_eq(symlink("/tmp", path_of("keys")), 0);
    cr_assert_eq(try_to_open(uri, NULL), FERRY_E_STORE);
}

Test(net_store_faults, network_file_systems_are_known)
{
    static const uint64_t remote[] = {0x6969,     0xff534d42, 0xfe534d42, 0x65735546,
                                      0x01021997, 0x0bd00bd0, 0x47504653, 0x00c36400};
    static const uint64_t local[] = {0xef53,     0x01021994, 0x58465342, 0x9123683e,
                                     0x794c7630, 0x2fc12fc1, 0xf2f52010, 0x858458f6};

    for (size_t i = 0; i < 8; i++) {
        cr_assert(fry_disk_is_remote(remote[i]));
        /* As a machine with 32 bits has it in its signed word. */
        cr_assert(fry_disk_is_remote((uint64_t)(int64_t)(int32_t)(uint32_t)remote[i]));
        cr_assert_not(fry_disk_is_remote(local[i]));
    }
}

/* Those who may use the folder may use what is in it, whatever their umask. */
Test(net_store_faults, files_have_the_rights_of_the_folder)
{
    struct stat about;

    cr_assert_eq(chmod(folder, 0770), 0);
    (void)umask(0077);
    open_rig(1);
    (void)store_put(&rig.clients[0], "a", "value", NULL);
    cr_assert(stat(path_of("keys"), &about) == 0 && (about.st_mode & 0777) == 0770);
    cr_assert(stat(path_of("state"), &about) == 0 && (about.st_mode & 0777) == 0660);
    cr_assert(stat(path_of("keys/a"), &about) == 0 && (about.st_mode & 0777) == 0660);
    store_rig_close(&rig);
}

/* --- No room, no rights --- */

/* A small file system of our own over the folder; false: it can't be had, and why was said. */
static bool mount_small(void)
{
    if (own_mounts() != 0 || mount("small", folder, "tmpfs", 0, "size=512k") != 0) {
        cr_skip_test("no small file system: %s", strerror(errno));
        return false;
    }
    return true;
}

Test(net_store_faults, a_full_disk_loses_nothing)
{
    static char value[100000];
    size_t count = 0;
    char key[32];
    store_ask ask;

    if (!mount_small())
        return;
    memset(value, 'v', sizeof value);
    open_rig(2);
    store_held held;
    store_held_open(&held, &rig.clients[0]);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    ferry_status status = FERRY_OK;
    for (; status == FERRY_OK; count++) {
        (void)snprintf(key, sizeof key, "k%zu", count);
        status = store_put_bytes(&rig.clients[0], key, value, sizeof value);
    }
    CHECK(status == FERRY_E_STORE && count > 2 && count < 8);
    store_ask_init(&ask, &rig.clients[0], FRY_STORE_CREATE, "another");
    ask.request.value = value;
    ask.request.value_bytes = sizeof value;
    CHECK(store_ask_run(&rig.clients[0], &ask) == FERRY_E_STORE && ask.count == 0);
    CHECK(store_put_bytes(&rig.clients[0], "k0", value, sizeof value) == FERRY_E_STORE);
    CHECK(count_files("temporary") == 0);
    for (size_t i = 0; i + 1 < count; i++) {
        (void)snprintf(key, sizeof key, "k%zu", i);
        CHECK(store_get(&rig.clients[1], key, &ask) == FERRY_OK);
        CHECK(ask.entry.value_bytes == sizeof value &&
              memcmp(ask.entry.value, value, sizeof value) == 0);
        store_ask_free(&ask);
    }
    /* Who is alive stays so, and there is room again. */
    store_rig_pass(&rig, 2 * STORE_TTL_NS);
    CHECK(!held.is_over && !seen.is_lost && seen.lost == 0 && seen.deletes == 0);
    CHECK(store_delete(&rig.clients[1], "k0") == FERRY_OK);
    CHECK(store_put_bytes(&rig.clients[0], "again", value, sizeof value) == FERRY_OK);
    store_held_close(&held);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

static void is_refused(fry_store_lease *lease, fry_lease_event event, const char *why)
{
    CHECK(event == FRY_LEASE_REFUSED && strstr(why, "No space") != NULL);
    *(bool *)lease->arg = true;
}

Test(net_store_faults, a_full_disk_refuses_a_lease)
{
    bool is_told = false;
    fry_store_lease lease = {.ttl_ns = STORE_TTL_NS, .fn = is_refused, .arg = &is_told};

    if (!mount_small())
        return;
    open_rig(1);
    const int fd = open(path_of("filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char page[4096] = "";
    while (write(fd, page, sizeof page) > 0)
        continue;
    (void)close(fd);
    fry_store_lease_open(rig.clients[0].store, &lease);
    store_rig_until(&rig, &is_told);
    CHECK(count_files("leases") == 0 && count_files("temporary") == 0);
    store_rig_close(&rig);
}

Test(net_store_faults, a_folder_that_may_only_be_read)
{
    char message[FRY_ERROR_MESSAGE_BYTES];
    store_ask ask;

    if (geteuid() != 0)
        cr_skip_test("only root can become one who may not");
    cr_assert_eq(chmod(folder, 0755), 0);
    open_rig(1);
    (void)store_put(&rig.clients[0], "a", "value", NULL);
    cr_assert_eq(seteuid(65534), 0);
    CHECK(store_put_bytes(&rig.clients[0], "a", "new", 3) == FERRY_E_STORE);
    CHECK(store_put_bytes(&rig.clients[0], "b", "new", 3) == FERRY_E_STORE);
    CHECK(store_get(&rig.clients[0], "a", &ask) == FERRY_OK);
    CHECK(store_has_value(&ask, "value"));
    store_ask_free(&ask);
    CHECK(store_delete(&rig.clients[0], "a") == FERRY_E_STORE);
    CHECK(try_to_open(uri, message) == FERRY_E_STORE);
    CHECK(strstr(message, "Permission denied") != NULL);
    cr_assert_eq(seteuid(0), 0);
    CHECK(store_put_bytes(&rig.clients[0], "a", "new", 3) == FERRY_OK);
    store_rig_close(&rig);
}

Test(net_store_faults, a_file_system_that_can_only_be_read)
{
    char message[FRY_ERROR_MESSAGE_BYTES];

    if (!mount_small())
        return;
    CHECK(try_to_open(uri, message) == FERRY_OK);
    cr_assert_eq(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    CHECK(try_to_open(uri, message) == FERRY_E_STORE);
    CHECK(strstr(message, "Read-only") != NULL);
}

Test(net_store_faults, a_limit_of_file_sizes)
{
    static char value[4000];
    const struct rlimit limit = {.rlim_cur = 2000, .rlim_max = RLIM_INFINITY};
    store_ask ask;

    open_rig(1);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)store_put(&rig.clients[0], "a", "old", NULL);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(store_put_bytes(&rig.clients[0], "a", value, sizeof value) == FERRY_E_STORE);
    CHECK(store_put_bytes(&rig.clients[0], "b", value, sizeof value) == FERRY_E_STORE);
    CHECK(store_get(&rig.clients[0], "a", &ask) == FERRY_OK && store_has_value(&ask, "old"));
    CHECK(count_files("temporary") == 0);
    store_ask_free(&ask);
    store_rig_close(&rig);
}

/* --- A folder that others change --- */

Test(net_store_faults, what_is_not_the_stores_is_left_alone)
{
    static const char *const names[] = {"garbage", "link", "pipe", "folder", "short"};
    store_ask ask;

    open_rig(2);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    write_file("keys/garbage",
               "This is no key, but it is long enough to be taken for one by a "
               "careless reader, who looks at sizes alone.",
               104);
    write_file("keys/short", "x", 1);
    write_file("leases/0123456789abcdef", "x", 1);
    write_file("leases/nonsense", "x", 1);
    write_file("temporary/young", "x", 1);
    CHECK(symlink("/etc/passwd", path_of("keys/link")) == 0);
    CHECK(mkfifo(path_of("keys/pipe"), 0600) == 0);
    CHECK(mkdir(path_of("keys/folder"), 0700) == 0);
    const uint64_t version = store_put(&rig.clients[0], "a", "value", NULL);
    /* Another's file under this name: not what a reader asks for. */
    CHECK(link(path_of("keys/a"), "/dev/null") != 0);
    char from[TEMPORARY_FOLDER_BYTES + 300];
    (void)strcpy(from, path_of("keys/a"));
    CHECK(link(from, path_of("keys/b")) == 0);
    store_seen_until(&seen, "a", version);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(store_get(&rig.clients[0], names[i], NULL) == FERRY_E_STORE);
        CHECK(store_put_bytes(&rig.clients[0], names[i], "x", 1) == FERRY_E_STORE);
        CHECK(store_try(&rig.clients[0], FRY_STORE_CREATE, names[i], "x", 0) == FERRY_E_STORE);
        CHECK(store_delete(&rig.clients[0], names[i]) == FERRY_E_STORE);
    }
    CHECK(store_get(&rig.clients[0], "b", NULL) == FERRY_E_STORE);
    CHECK(store_ask_with(&rig.clients[0], FRY_STORE_LIST, NULL, NULL, 0, &ask) == FERRY_OK);
    CHECK(ask.count == 1 && strcmp(ask.keys, "a ") == 0);
    store_ask_free(&ask);
    CHECK(seen.puts == 1 && seen.deletes == 0 && seen.lost == 0);
    store_seen_free(&seen);
    store_rig_leave(&rig);
    open_rig(1); /* whoever opens it tidies up nothing of that */
    CHECK(count_files("keys") == 7 && count_files("leases") == 2 && count_files("temporary") == 1);
    store_rig_leave(&rig);
}

/* Flips each bit of a file, in its place, and looks each time. */
static void flip_each_bit(const char *name, void (*look)(void))
{
    const int fd = open(path_of(name), O_RDWR | O_CLOEXEC);
    struct stat about;

    CHECK(fd >= 0 && fstat(fd, &about) == 0);
    for (off_t at = 0; at < about.st_size; at++) {
        unsigned char byte;

        CHECK(pread(fd, &byte, 1, at) == 1);
        for (int bit = 0; bit < 8; bit++) {
            const unsigned char wrong = (unsigned char)(byte ^ (1U << bit));

            CHECK(pwrite(fd, &wrong, 1, at) == 1);
            look();
        }
        CHECK(pwrite(fd, &byte, 1, at) == 1);
    }
    (void)close(fd);
}

static void look_at_wrong_key(void)
{
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_STORE);
}

/* A lease that can't be read is none. */
static void look_at_wrong_lease(void)
{
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
}

static void look_at_wrong_state(void)
{
    const ferry_status status = store_put_bytes(&rig.clients[0], "b", "x", 1);

    CHECK(status == FERRY_OK || status == FERRY_E_STORE); /* a version may be the last */
    (void)store_delete(&rig.clients[0], "b");
}

Test(net_store_faults, any_bit_of_a_file_may_be_wrong)
{
    store_held held;
    char name[64];

    open_rig(2);
    store_held_open(&held, &rig.clients[1]);
    (void)store_put(&rig.clients[1], "a", "value", &held.lease);
    flip_each_bit("keys/a", look_at_wrong_key);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_OK);
    (void)snprintf(name, sizeof name, "leases/%016llx", (unsigned long long)held.lease.id);
    flip_each_bit(name, look_at_wrong_lease);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_OK);
    flip_each_bit("state", look_at_wrong_state);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_OK);
    store_held_close(&held);
    store_rig_close(&rig);
}

/* --- inotify --- */

/* How many events inotify's queue holds. */
static long queue_length(void)
{
    long most = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");

    if (file == NULL || fscanf(file, "%ld", &most) != 1 || most > 100000)
        cr_skip_test("inotify's queue is not known, or too long to fill");
    (void)fclose(file);
    return most;
}

static void make_noise(long count)
{
    for (long i = 0; i < count; i++) {
        write_file("keys/.noise", "", 0);
        CHECK(unlink(path_of("keys/.noise")) == 0);
    }
}

Test(net_store_faults, a_queue_that_runs_over_is_made_up_for)
{
    const long most = queue_length();

    open_rig(2);
    (void)store_put(&rig.clients[0], "goes", "x", NULL);
    (void)store_put(&rig.clients[0], "changes", "old", NULL);
    store_held held;
    store_held_open(&held, &rig.clients[0]);
    const uint64_t leased = store_put(&rig.clients[0], "leased", "x", &held.lease);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    CHECK(seen.puts == 3 && store_seen_of(&seen, "leased")->version == leased);
    rig.clients[1].is_stopped = true;
    make_noise(most);
    CHECK(store_delete(&rig.clients[0], "goes") == FERRY_OK);
    const uint64_t changed = store_put(&rig.clients[0], "changes", "new", NULL);
    const uint64_t comes = store_put(&rig.clients[0], "comes", "x", NULL);
    store_held_close(&held);
    rig.clients[1].is_stopped = false;
    store_seen_until(&seen, "changes", changed);
    store_seen_until(&seen, "comes", comes);
    store_seen_until(&seen, "goes", 0);
    store_seen_until(&seen, "leased", 0);
    CHECK(seen.deletes == 2 && seen.puts == 5 && seen.lost == 0);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

static void forbid_inotify(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_inotify_init1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

Test(net_store_faults, without_inotify_it_looks_now_and_then)
{
    open_rig(2);
    forbid_inotify();
    const uint64_t a = store_put(&rig.clients[0], "a", "value", NULL);
    store_seen_start(&seen, &rig.clients[1], "");
    store_rig_until(&rig, &seen.is_listed);
    CHECK(store_seen_of(&seen, "a")->version == a);
    CHECK(store_delete(&rig.clients[0], "a") == FERRY_OK);
    const uint64_t b = store_put(&rig.clients[0], "b", "value", NULL);
    store_rig_pass(&rig, SECOND_NS);
    CHECK(store_seen_of(&seen, "a") == NULL && store_seen_of(&seen, "b")->version == b);
    CHECK(seen.lost == 0);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

Test(net_store_faults, who_only_watches_sleeps)
{
    open_rig(2);
    store_client *watcher = &rig.clients[1];
    store_seen_start(&seen, watcher, "");
    store_rig_until(&rig, &seen.is_listed);
    CHECK(fry_reactor_next_ns(&watcher->reactor) == INT64_MAX);
    store_held held;
    store_held_open(&held, &rig.clients[0]);
    store_rig_settle(&rig);
    /* With a lease in sight it wakes up in its time, not when it is kept alive. */
    size_t wakes = 0;
    for (int64_t ns = 0; ns < 10 * STORE_TTL_NS; ns += SECOND_NS / 20) {
        stepped_clock_step(&rig.stepped, SECOND_NS / 20);
        (void)driven_reactor_run(&rig.clients[0].reactor, 0);
        wakes += driven_reactor_run(&watcher->reactor, 0);
    }
    CHECK(wakes >= 9 && wakes <= 20 && !held.is_over);
    store_held_close(&held);
    store_rig_settle(&rig);
    CHECK(fry_reactor_next_ns(&watcher->reactor) == INT64_MAX);
    store_seen_free(&seen);
    store_rig_close(&rig);
}

/* --- Locks, boots, clocks --- */

static void lock_groups(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = FRY_DISK_GROUPS};

    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
}

/* As by a process that is stopped in the midst of a write. */
Test(net_store_faults, a_lock_that_is_held_holds_up_writers_alone)
{
    store_ask late, waits;

    open_rig(2);
    store_client *client = &rig.clients[0];
    (void)store_put(client, "a", "value", NULL);
    const int fd = open(path_of("state"), O_RDWR | O_CLOEXEC);
    lock_groups(fd, F_WRLCK);
    store_ask_init(&late, client, FRY_STORE_PUT, "a");
    late.request.deadline_ns = fry_reactor_now_ns(&client->reactor) + SECOND_NS;
    fry_store_submit(client->store, &late.request);
    store_ask_init(&waits, client, FRY_STORE_DELETE, "a");
    fry_store_submit(client->store, &waits.request);
    CHECK(store_get(&rig.clients[1], "a", NULL) == FERRY_OK);
    store_held held;
    store_held_open(&held, &rig.clients[1]); /* needs none of them */
    store_rig_pass(&rig, 2 * STORE_TTL_NS);
    CHECK(late.is_done && late.status == FERRY_E_DEADLINE && !waits.is_done && !held.is_over);
    lock_groups(fd, F_UNLCK);
    store_rig_pass(&rig, SECOND_NS);
    CHECK(waits.is_done && waits.status == FERRY_OK);
    /* One that is cancelled while it waits leaves the way to those that come later. */
    lock_groups(fd, F_WRLCK);
    store_ask_init(&late, client, FRY_STORE_PUT, "a");
    fry_store_submit(client->store, &late.request);
    store_rig_settle(&rig);
    fry_store_cancel(&late.request);
    store_rig_pass(&rig, SECOND_NS);
    CHECK(!late.is_done && store_get(client, "a", NULL) == FERRY_E_NOT_FOUND);
    lock_groups(fd, F_UNLCK);
    CHECK(store_put_bytes(client, "a", "x", 1) == FERRY_OK);
    store_held_close(&held);
    (void)close(fd);
    store_rig_close(&rig);
}

static bool is_over_by_file(void *arg, uint64_t lease)
{
    return !fry_disk_lease_exists(arg, lease);
}

/* A key with a lease, by the hand of a disk that the test has changed. */
static int put_by_hand(fry_disk *disk, const char *key, int64_t ends_ns)
{
    fry_disk_key found;
    fry_store_request request = {
        .verb = FRY_STORE_PUT, .key = key, .value = "by hand", .value_bytes = 7};
    fry_disk_change change = {
        .request = &request, .lease_left_ns = 1, .is_over = is_over_by_file, .arg = disk};

    CHECK(fry_disk_lease_make(disk, STORE_TTL_NS, ends_ns, &request.lease_id, &change.lease_fd) ==
          FERRY_OK);
    CHECK(fry_disk_change_key(disk, &change, &found) == FERRY_OK);
    return change.lease_fd;
}

/* The kernel's word that its holder has died is lost: the queue was full. */
Test(net_store_faults, a_death_is_seen_though_its_event_was_lost)
{
    const long most = queue_length();
    fry_memory memory;
    fry_disk disk;

    fry_memory_init(&memory, NULL);
    open_rig(1);
    CHECK(fry_disk_open(&disk, &memory, folder, false, true) == FERRY_OK);
    const int fd = put_by_hand(&disk, "a", INT64_MAX / 2);
    store_seen_start(&seen, &rig.clients[0], "");
    store_rig_until(&rig, &seen.is_listed);
    CHECK(seen.puts == 1 && seen.deletes == 0);
    make_noise(most);
    (void)close(fd);
    store_seen_until(&seen, "a", 0);
    CHECK(count_files("keys") == 0 && count_files("leases") == 0);
    store_seen_free(&seen);
    fry_disk_close(&disk);
    store_rig_close(&rig);
}

Test(net_store_faults, leases_of_before_a_boot_are_over)
{
    fry_memory memory;
    fry_disk disk;

    fry_memory_init(&memory, NULL);
    CHECK(fry_disk_open(&disk, &memory, folder, false, true) == FERRY_OK);
    (void)strcpy(disk.boot, "the boot before");
    const int fd = put_by_hand(&disk, "a", INT64_MAX / 2);
    open_rig(1);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    CHECK(count_files("keys") == 0 && count_files("leases") == 0);
    (void)close(fd);
    fry_disk_close(&disk);
    store_rig_close(&rig);
}

Test(net_store_faults, what_a_power_cut_tears_goes_at_the_next_boot)
{
    char zeros[300] = "";

    open_rig(1);
    const uint64_t version = store_put(&rig.clients[0], "whole", "value", NULL);
    (void)store_put(&rig.clients[0], "cut", "a longer value", NULL);
    CHECK(truncate(path_of("keys/cut"), 60) == 0);
    (void)store_put(&rig.clients[0], "block", "a block that never came", NULL);
    const int block = open(path_of("keys/block"), O_WRONLY | O_CLOEXEC);
    CHECK(pwrite(block, zeros, 8, 70) == 8);
    (void)close(block);
    CHECK(store_get(&rig.clients[0], "block", NULL) == FERRY_E_STORE);
    write_file("keys/empty", "", 0);
    write_file("keys/zeros", zeros, sizeof zeros);
    write_file("keys/foreign", "not the store's", 15);
    CHECK(store_get(&rig.clients[0], "cut", NULL) == FERRY_E_STORE);
    store_rig_leave(&rig);
    open_rig(1); /* in the same boot nobody but a stranger tears files */
    CHECK(count_files("keys") == 6);
    store_rig_leave(&rig);
    const int fd = open(path_of("state"), O_RDWR | O_CLOEXEC);
    const uint64_t versions[FRY_DISK_GROUPS] = {0};
    CHECK(pwrite(fd, "before", 7, offsetof(fry_disk_state, boot)) == 7);
    CHECK(pwrite(fd, versions, sizeof versions, offsetof(fry_disk_state, versions)) ==
          sizeof versions); /* lost, too */
    (void)close(fd);
    open_rig(1);
    CHECK(count_files("keys") == 2);
    CHECK(store_get(&rig.clients[0], "cut", NULL) == FERRY_E_NOT_FOUND);
    CHECK(store_get(&rig.clients[0], "foreign", NULL) == FERRY_E_STORE);
    CHECK(store_put(&rig.clients[0], "whole", "new", NULL) > version);
    store_rig_leave(&rig);
}

/* As of a container with a time namespace: its numbers say nothing, only that they change. */
Test(net_store_faults, a_lease_of_another_clock_must_stand_still)
{
    fry_memory memory;
    fry_disk disk;

    fry_memory_init(&memory, NULL);
    CHECK(fry_disk_open(&disk, &memory, folder, false, true) == FERRY_OK);
    disk.clock = 12345;
    open_rig(2);
    store_seen_start(&seen, &rig.clients[1], "");
    const int fd = put_by_hand(&disk, "a", 5);
    store_rig_settle(&rig);
    for (int i = 0; i < 6; i++) {
        CHECK(fry_disk_lease_extend(&disk, fd, 6 + i) == FERRY_OK);
        store_rig_pass(&rig, STORE_TTL_NS / 2);
        CHECK(store_seen_of(&seen, "a") != NULL);
        CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_OK);
    }
    store_rig_pass(&rig, STORE_TTL_NS + SECOND_NS);
    CHECK(store_seen_of(&seen, "a") == NULL);
    CHECK(store_get(&rig.clients[0], "a", NULL) == FERRY_E_NOT_FOUND);
    CHECK(fry_disk_lease_extend(&disk, fd, 100) == FERRY_E_NOT_FOUND);
    (void)close(fd);
    fry_disk_close(&disk);
    store_seen_free(&seen);
    store_rig_close(&rig);
}
