/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/probe_peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MARK 0xfe44ab1eU
#define GONE_NS INT64_C(3000000000)

probe_child probe_peer_start(const char *name)
{
    return probe_child_start(probe_case_find(name), true, true);
}

/* A pipe takes and gives one as a whole: it is smaller than PIPE_BUF. */
void probe_tell(const probe_child *peer, const probe_message *message)
{
    probe_message sent = *message;
    sent.mark = MARK;
    if (write(peer->in, &sent, sizeof sent) != (ssize_t)sizeof sent)
        probe_fail("the other process takes no order");
}

/* What it wrote is a row that says why it ended. */
static _Noreturn void pass_on(const probe_child *peer, const void *begun, size_t begun_bytes)
{
    char text[512];
    ssize_t got = (ssize_t)begun_bytes;
    memcpy(text, begun, begun_bytes);
    do {
        (void)fwrite(text, 1, (size_t)got, stdout);
    } while ((got = read(peer->out, text, sizeof text)) > 0);
    probe_fail("the other process ended");
}

bool probe_hear(const probe_child *peer, probe_message *answer, int64_t limit_ns)
{
    struct pollfd look = {.fd = peer->out, .events = POLLIN};
    if (poll(&look, 1, (int)(limit_ns / 1000000)) != 1)
        return false;
    ssize_t got = read(peer->out, answer, sizeof *answer);
    if (got != (ssize_t)sizeof *answer || answer->mark != MARK)
        pass_on(peer, answer, got > 0 ? (size_t)got : 0);
    return true;
}

probe_message probe_ask(const probe_child *peer, const probe_message *message, const char *what)
{
    probe_message answer;
    probe_tell(peer, message);
    if (!probe_hear(peer, &answer, PROBE_ANSWER_NS))
        probe_fail("%s: no answer of the other process", what);
    return answer;
}

int64_t probe_peer_kill(probe_child *peer)
{
    struct pollfd look = {.fd = peer->pidfd, .events = POLLIN};
    int64_t begin_ns = bench_now_ns();
    (void)kill(peer->pid, SIGKILL);
    if (poll(&look, 1, (int)(GONE_NS / 1000000)) != 1)
        return INT64_MAX;
    return bench_now_ns() - begin_ns;
}

bool probe_listen(probe_message *message)
{
    return read(STDIN_FILENO, message, sizeof *message) == (ssize_t)sizeof *message &&
           message->mark == MARK;
}

void probe_reply(probe_message *message)
{
    message->mark = MARK;
    if (write(STDOUT_FILENO, message, sizeof *message) != (ssize_t)sizeof *message)
        bench_fail("nobody takes an answer");
}
