/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/kv_end.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_NS INT64_C(1000000000) /* nothing is under way when all ends well */

int64_t kv_end_now_ns(const kv_end *end)
{
    return ferry_engine_deadline_in(end->member.engine, 0);
}

/* On the loop. Wakes the thread that waits for notices, of which a member that is gone has none. */
static void on_member(void *arg, ferry_group *group, const ferry_member_info *info)
{
    kv_end *end = arg;
    (void)group;
    if (info->state != FERRY_MEMBER_LEFT && info->state != FERRY_MEMBER_DEAD)
        return;
    pthread_mutex_lock(&end->mutex);
    end->has_news = true;
    if (end->next)
        (void)ferry_future_cancel(end->next);
    pthread_mutex_unlock(&end->mutex);
}

int kv_end_open(kv_end *end, const kv_options *options, int rank, const char *folder)
{
    ferry_engine_options engine = FERRY_ENGINE_OPTIONS_INIT;
    engine.host_devices = 1;
    engine.host_workers = 1;
    ferry_group_options group = FERRY_GROUP_OPTIONS_INIT;
    group.linger_ns = LINGER_NS;
    group.on_member = on_member;
    group.on_member_arg = end;
    *end = (kv_end){.options = options, .folder = folder};
    pthread_mutex_init(&end->mutex, NULL);
    ferry_rank other = rank == KV_PREFILL ? FERRY_RANK_NONE : KV_PREFILL;
    int result = member_begin(&end->member, &options->meeting, rank, other, &engine);
    return result ? result : member_join(&end->member, &group);
}

int kv_end_close(kv_end *end, int result)
{
    member_leave(&end->member);
    ferry_future_release(end->next);
    result = member_end(&end->member, result);
    pthread_mutex_destroy(&end->mutex);
    return result;
}

/* ---- hearing ---- */

/* Takes the future back, whether it is over or not. */
static ferry_future *take_next(kv_end *end)
{
    pthread_mutex_lock(&end->mutex);
    ferry_future *next = end->next;
    end->next = NULL;
    pthread_mutex_unlock(&end->mutex);
    return next;
}

/* What others say is looked at before it is used: here its size and version. */
static int read_notice(kv_end *end, ferry_future *next)
{
    ferry_message_info info = FERRY_MESSAGE_INFO_INIT;
    ferry_value value = FERRY_VALUE_INIT;
    kv_heard *heard = &end->heard;
    if (ferry_message_describe(next, &info) != FERRY_OK ||
        ferry_future_value(next, &value) != FERRY_OK)
        return member_fail(&end->member, "a notice", "it can't be read");
    heard->rank = info.rank;
    bool is_right = value.size_bytes >= sizeof(heard->notice) &&
                    value.size_bytes - sizeof(heard->notice) <= sizeof(heard->body);
    if (is_right) {
        memcpy(&heard->notice, value.data, sizeof(heard->notice));
        heard->body_bytes = value.size_bytes - sizeof(heard->notice);
        memcpy(heard->body, (const char *)value.data + sizeof(heard->notice), heard->body_bytes);
        is_right = heard->notice.version == KV_VERSION;
    }
    return is_right
               ? 0
               : member_fail(&end->member, "a notice",
                             "it is none of this command's; is there another version of ferry?");
}

int kv_end_hear(kv_end *end, int64_t deadline_ns)
{
    pthread_mutex_lock(&end->mutex);
    if (!end->next)
        end->next = ferry_notice_next(end->member.group, 0);
    ferry_future *next = end->next; /* this thread alone takes it away */
    bool has_news = end->has_news;
    pthread_mutex_unlock(&end->mutex);

    int64_t left_ns = deadline_ns > 0 ? deadline_ns - kv_end_now_ns(end) : -1;
    if (has_news || (deadline_ns > 0 && left_ns < 0))
        left_ns = 0;
    ferry_status status = ferry_future_wait(next, left_ns);

    pthread_mutex_lock(&end->mutex);
    has_news = end->has_news;
    if (status != FERRY_OK)
        end->has_news = false; /* a notice that came before the news is heard first */
    pthread_mutex_unlock(&end->mutex);
    if (status == FERRY_PENDING)
        return has_news ? KV_HEARD_NEWS : KV_HEARD_NOTHING;
    next = take_next(end);
    int result = 0;
    if (status == FERRY_OK)
        result = read_notice(end, next);
    else if (status == FERRY_E_CANCELLED && has_news && !member_interrupt(&end->member))
        result = KV_HEARD_NEWS;
    else
        result = member_fail_future(&end->member, next, "waiting for a notice");
    ferry_future_release(next);
    return result;
}

bool kv_end_is_gone(kv_end *end, ferry_rank rank, const char *name)
{
    ferry_member_info info = FERRY_MEMBER_INFO_INIT;
    if (ferry_group_member(end->member.group, rank, &info) != FERRY_OK ||
        (info.state != FERRY_MEMBER_LEFT && info.state != FERRY_MEMBER_DEAD))
        return false;
    fprintf(stderr, "ferry: rank %d: the %s process, rank %u (process %lld on %s), %s\n",
            end->member.rank, name, (unsigned)rank, (long long)info.pid, info.host,
            info.state == FERRY_MEMBER_DEAD ? "has died" : "has left before the end");
    return true;
}

/* ---- telling ---- */

void kv_label_layer(char label[KV_LABEL_BYTES], const char *what, uint32_t layer)
{
    (void)snprintf(label, KV_LABEL_BYTES, "%s layer %u", what, (unsigned)layer);
}

ferry_future *kv_end_tell(kv_end *end, ferry_rank rank, const kv_notice *notice, const void *body,
                          size_t body_bytes, ferry_future *after, int64_t within_ns)
{
    static const char *const names[] = {
        [KV_SHAPE] = "shape", [KV_READY] = "ready", [KV_BEGIN] = "begin",     [KV_ASK] = "ask",
        [KV_FREE] = "free",   [KV_DONE] = "done",   [KV_RAW] = "raw",         [KV_DRAW] = "draw",
        [KV_END] = "end",     [KV_LAYER] = "",      [KV_FIGURES] = "figures",
    };
    unsigned char bytes[FERRY_NOTICE_BYTES_MAX];
    char label[KV_LABEL_BYTES];
    kv_notice head = *notice;
    head.version = KV_VERSION;
    memcpy(bytes, &head, sizeof(head));
    if (body_bytes > 0)
        memcpy(bytes + sizeof(head), body, body_bytes);
    ferry_op_options options = FERRY_OP_OPTIONS_INIT;
    options.deadline_ns = ferry_engine_deadline_in(end->member.engine, within_ns);
    options.label = names[notice->kind];
    if (notice->kind == KV_LAYER) {
        kv_label_layer(label, "tell of", notice->layer);
        options.label = label;
        options.flags = FERRY_OP_LABEL_COPIED;
    }
    options.after = after ? &after : NULL;
    options.after_count = after != NULL;
    return ferry_notice_send(end->member.group, rank, bytes, sizeof(head) + body_bytes, &options);
}

/* ---- traces ---- */

void kv_end_trace_path(char *path, size_t size_bytes, const char *folder, int rank)
{
    (void)snprintf(path, size_bytes, "%s/trace-%d.json", folder, rank);
}

static int trace_result(const kv_end *end, ferry_status status)
{
    return status == FERRY_OK ? 0 : member_fail_error(&end->member, "the trace", status, NULL);
}

int kv_end_trace_open(kv_end *end)
{
    char path[PATH_MAX];
    if (!end->folder)
        return member_fail(&end->member, "the trace", "only processes of --local make one");
    kv_end_trace_path(path, sizeof(path), end->folder, end->member.rank);
    return trace_result(end, ferry_trace_open(path));
}

int kv_end_trace_close(kv_end *end)
{
    return trace_result(end, ferry_trace_close());
}
