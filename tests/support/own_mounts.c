/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/own_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#define PATH_STEPS_MAX 64

/* Whether mounts are passed on to other namespaces is said of a whole tree by its root. */
int own_mounts(void)
{
    if (unshare(CLONE_NEWNS) != 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        return 0;
    /* The root of a chroot is no mount: then the way leads over the root of the namespace. */
    int root = errno == EINVAL ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (root < 0)
        return -1;
    /* A process whose root is below its folder is above it, and may go up. */
    int result = chroot("/sys") != 0 || fchdir(root) != 0 ? -1 : 0;
    for (int i = 0; i < PATH_STEPS_MAX && result == 0; i++)
        result = chdir("..");
    if (result == 0)
        result = chroot(".") != 0 ? -1 : mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
    if (fchdir(root) != 0 || chroot(".") != 0)
        result = -1;
    (void)close(root);
    return result;
}
