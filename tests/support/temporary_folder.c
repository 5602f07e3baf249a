/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDERS_OPEN_MAX 16

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)where;
    if (type == FTW_DNR) /* a test has taken its rights away */
        (void)chmod(path, 0700);
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

static int give_rights(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)where;
    return type == FTW_D || type == FTW_DNR ? chmod(path, 0700) * 0 : 0;
}

void temporary_folder_remove(const char *path)
{
    (void)nftw(path, give_rights, FOLDERS_OPEN_MAX, FTW_PHYS);
    (void)nftw(path, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
}

/* A shell, as the test may have threads by now, and then its child must not allocate. */
static void guard(int end, const char *path)
{
    static const char then[] = "read -r byte; chmod -R u+rwX -- \"$0\"; exec rm -rf -- \"$0\"";

    /* Apart from the test's group, which may be killed as a whole. */
    (void)setsid();
    (void)signal(SIGTERM, SIG_IGN);
    (void)dup2(end, 0);
    (void)close_range(1, ~0U, 0);
    (void)execl("/bin/sh", "sh", "-c", then, path, (char *)NULL);
    _exit(127);
}

void temporary_folder_make(char path[TEMPORARY_FOLDER_BYTES])
{
    int ends[2];

    (void)snprintf(path, TEMPORARY_FOLDER_BYTES, "/tmp/ferry-test.XXXXXX");
    if (mkdtemp(path) == NULL || pipe2(ends, O_CLOEXEC) != 0)
        abort();
    const pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0)
        guard(ends[0], path);
    (void)close(ends[0]);
    /* The other end stays open until the last of us is gone. */
}
