/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liar SOCKET FILE: answers whoever connects with what the file holds at that moment, whatever was
 * asked; with nothing if there is no file. Says "ready" first, and ends with its input.
 */
#include "tests/support/check.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void answer(int fd, const char *path)
{
    char line[64], piece[4096];
    FILE *file = fopen(path, "rb");
    size_t size = 0;
    CHECK(recv(fd, line, sizeof line, 0) > 0);
    while (file != NULL && (size = fread(piece, 1, sizeof piece, file)) > 0) {
        if (send(fd, piece, size, MSG_NOSIGNAL) != (ssize_t)size)
            break;
    }
    if (file != NULL)
        (void)fclose(file);
    (void)close(fd);
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(argc == 3 && strlen(argv[1]) < sizeof address.sun_path);
    memcpy(address.sun_path, argv[1], strlen(argv[1]) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    OK(bind(fd, (struct sockaddr *)&address, sizeof address));
    OK(listen(fd, 8));
    CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
    for (;;) {
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                {.fd = fd, .events = POLLIN}};
        CHECK(poll(fds, 2, -1) > 0);
        if (fds[0].revents != 0)
            return 0;
        int client = accept(fd, NULL, NULL);
        CHECK(client >= 0);
        answer(client, argv[2]);
    }
}
