/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel at work.
 *
 * Order. UCX's active messages may overtake one another (a short one passes a queue of longer
 * ones). So a channel promises no order; the peers number what they launch.
 *
 * Quiet. Between hosts a pull is UCX's rendezvous: the sender's worker sends the bytes, and the
 * receiver's puts them where they belong. Within a host the receiver reads the sender's memory
 * (net/ucx/offer.c). Nobody writes another process's memory. Any access of the channel to this
 * process's memory ends with the worker, which has no thread that touches user memory, and whose
 * end asks the peer nothing. The peer may still read, and finds that it must not use what it read
 * (net/ucx/mark.h).
 */
#include "net/ucx/channel.h"

#include "base/lf.h"
#include "net/transport.h"
#include "net/ucx/library.h"
#include "net/ucx/mark.h"
#include "net/ucx/offer.h"
#include "net/ucx/watch.h"

#include <string.h>
#include <unistd.h>

#define PARCELS_FIRST 32
#define FRUITLESS_MAX 500
#define BROKEN_ROUNDS_MAX 4096 /* of progress, for what a member that has gone sent before */

void fry_ucx_channel_set_state(fry_ucx_channel *channel, fry_ucx_channel_state state)
{
    if (state > channel->state)
        channel->state = state;
}

static void tell_failed(fry_ucx_channel *channel, ucs_status_t status, const char *call)
{
    fry_ucx_channel_set_state(channel, FRY_UCX_CHANNEL_FAILED);
    fry_fault fault;
    (void)fry_ucx_tell(&fault, FERRY_E_PEER, status, call);
    channel->public_.events->failed(channel->public_.events_arg, &fault);
}

/*
 * On one host what the other end has sent is in this process's memory, and stays there when that
 * end has gone. A send to an end that has gone is refused, but what it had sent is heard first.
 */
void fry_ucx_channel_fail(fry_ucx_channel *channel, ucs_status_t status, const char *call)
{
    if (channel->state >= FRY_UCX_CHANNEL_BROKEN)
        return;
    if (channel->public_.path == FRY_PATH_NET) {
        tell_failed(channel, status, call);
        return;
    }
    fry_ucx_channel_set_state(channel, FRY_UCX_CHANNEL_BROKEN);
    channel->broken_status = status;
    channel->broken_call = call;
}

void fry_ucx_channel_broken(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    fry_ucx_channel_fail(arg, status, "the endpoint");
}

/* ---- parcels ---- */

static void give_parcel(fry_ucx_channel *channel, fry_ucx_parcel *parcel)
{
    parcel->next = channel->free_parcels;
    channel->free_parcels = parcel;
}

bool fry_ucx_channel_add_parcels(fry_ucx_channel *channel)
{
    const fry_ucx_parcels *last = channel->chunks;
    uint32_t count = last != NULL ? last->count * 2 : PARCELS_FIRST;
    fry_ucx_parcels *chunk =
        fry_alloc_raw(channel->ucx->memory, sizeof *chunk + count * sizeof *chunk->parcels,
                      _Alignof(fry_ucx_parcels));
    if (chunk == NULL)
        return false;
    chunk->first = last != NULL ? last->first + last->count : 0;
    chunk->count = count;
    chunk->next = channel->chunks;
    channel->chunks = chunk;
    for (uint32_t i = 0; i < count; i++) {
        fry_ucx_parcel *parcel = &chunk->parcels[i];
        parcel->channel = channel;
        parcel->index = chunk->first + i;
        parcel->uses = 0;
        parcel->state = FRY_UCX_PARCEL_FREE;
        parcel->is_leaving = false;
        give_parcel(channel, parcel);
    }
    return true;
}

fry_ucx_parcel *fry_ucx_parcel_take(fry_ucx_channel *channel, fry_ucx_parcel_state state)
{
    if (channel->free_parcels == NULL && !fry_ucx_channel_add_parcels(channel))
        return NULL;
    fry_ucx_parcel *parcel = channel->free_parcels;
    channel->free_parcels = parcel->next;
    parcel->next = NULL;
    parcel->state = (uint8_t)state;
    return parcel;
}

void fry_ucx_parcel_set_state(fry_ucx_parcel *parcel, fry_ucx_parcel_state state)
{
    if (state == FRY_UCX_PARCEL_FREE) {
        parcel->uses++;
        if (parcel->is_leaving)
            state = FRY_UCX_PARCEL_LEAVES; /* and is free once it has left */
        else
            give_parcel(parcel->channel, parcel);
    }
    parcel->state = (uint8_t)state;
}

/* ---- sending ---- */

static void sent(void *request, ucs_status_t status, void *arg)
{
    fry_post *post = arg;
    fry_ucx_parcel *parcel = post->private_;
    fry_ucx_channel *channel = parcel->channel;
    fry_ucp.ucp_request_free(request);
    if (channel->state == FRY_UCX_CHANNEL_ENDED)
        return;
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    if (status == UCS_OK) {
        post->done(post, FERRY_OK, NULL);
        return;
    }
    fry_ucx_channel_fail(channel, status, "a send");
    if (channel->public_.path != FRY_PATH_NET)
        return; /* the channel's end ends it too, after what else has arrived */
    fry_fault fault;
    post->done(post, fry_ucx_tell(&fault, FERRY_E_PEER, status, "a send"), &fault);
}

/* Posts a message that can't leave at once, or is to be pulled. */
static fry_post_result post_later(fry_ucx_channel *channel, fry_post *post)
{
    fry_ucx_parcel *parcel = fry_ucx_parcel_take(channel, FRY_UCX_PARCEL_LEAVES);
    if (parcel == NULL) {
        fry_ucx_channel_fail(channel, UCS_ERR_NO_MEMORY, "a send");
        return FRY_POST_FAILED;
    }
    memcpy(parcel->header, post->header, post->header_bytes);
    post->private_ = parcel;
    bool is_pulled = post->is_pulled && post->size_bytes > 0;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = is_pulled ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
        .cb.send = sent,
        .user_data = post,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t request =
        fry_ucp.ucp_am_send_nbx(channel->endpoint, FRY_UCX_MESSAGE, parcel->header,
                                post->header_bytes, post->data, post->size_bytes, &param);
    if (UCS_PTR_IS_PTR(request))
        return FRY_POST_BEGUN;
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    if (request == NULL)
        return FRY_POST_DONE;
    fry_ucx_channel_fail(channel, UCS_PTR_STATUS(request), "a send");
    return FRY_POST_FAILED;
}

static fry_post_result channel_post(fry_channel *public_, fry_post *post)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    fry_carried();
    if (channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return FRY_POST_FAILED;
    fry_ucx_watch_sent(&channel->watch);
    if (post->is_pulled && post->size_bytes > 0 && channel->public_.path != FRY_PATH_NET)
        return fry_ucx_offers_post(channel, post);
    if (post->header_bytes + post->size_bytes > FRY_UCX_SHORT_BYTES || post->is_pulled)
        return post_later(channel, post);

    /* Goes straight into the peer's queue, or not at all. */
    static const ucp_request_param_t at_once = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    ucs_status_ptr_t request =
        fry_ucp.ucp_am_send_nbx(channel->endpoint, FRY_UCX_MESSAGE, post->header,
                                post->header_bytes, post->data, post->size_bytes, &at_once);
    if (request == NULL)
        return FRY_POST_DONE;
    if (UCS_PTR_STATUS(request) == UCS_ERR_NO_RESOURCE)
        return post_later(channel, post);
    fry_ucx_channel_fail(channel, UCS_PTR_STATUS(request), "a send");
    return FRY_POST_FAILED;
}

/* ---- receiving ---- */

ucs_status_t fry_ucx_channel_listen(fry_ucx_channel *channel, fry_ucx_id id,
                                    ucp_am_recv_callback_t heard)
{
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = heard,
        .arg = channel,
    };
    return fry_ucp.ucp_worker_set_am_recv_handler(channel->worker, &handler);
}

ucs_status_t fry_ucx_channel_receive(void *arg, const void *header, size_t header_bytes, void *data,
                                     size_t size_bytes, const ucp_am_recv_param_t *param)
{
    fry_ucx_channel *channel = arg;
    fry_carried();
    if (channel->state >= FRY_UCX_CHANNEL_FAILED)
        return UCS_OK;
    bool is_pulled = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    fry_arrival arrival = {
        .header = header,
        .header_bytes = header_bytes,
        .data = is_pulled || size_bytes == 0 ? NULL : data,
        .size_bytes = size_bytes,
        .token = is_pulled ? data : NULL,
    };
    channel->arriving = arrival.token;
    channel->arriving_is_dropped = false;
    channel->public_.events->arrived(channel->public_.events_arg, &arrival);
    channel->arriving = NULL;
    /* In progress: UCX keeps the token, also if a pull has begun. */
    return is_pulled && !channel->arriving_is_dropped ? UCS_INPROGRESS : UCS_OK;
}

static void end_pull(fry_ucx_channel *channel, fry_pull *pull, ucs_status_t status)
{
    if (status == UCS_OK) {
        pull->done(pull, FERRY_OK, NULL);
        return;
    }
    fry_ucx_channel_fail(channel, status, "a pull");
    fry_fault fault;
    pull->done(pull, fry_ucx_tell(&fault, FERRY_E_PEER, status, "a pull"), &fault);
}

static void pulled(void *request, ucs_status_t status, size_t size_bytes, void *arg)
{
    (void)size_bytes;
    fry_pull *pull = arg;
    fry_ucx_channel *channel = pull->private_;
    fry_ucp.ucp_request_free(request);
    if (channel->state != FRY_UCX_CHANNEL_ENDED)
        end_pull(channel, pull, status);
}

static void channel_pull(fry_channel *public_, fry_pull *pull)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    fry_ucx_watch_sent(&channel->watch);
    if (public_->path != FRY_PATH_NET) {
        fry_ucx_offers_pull(channel, pull);
        return;
    }
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = pulled,
        .user_data = pull,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    pull->private_ = channel;
    ucs_status_ptr_t request = fry_ucp.ucp_am_recv_data_nbx(channel->worker, pull->token,
                                                            pull->memory, pull->size_bytes, &param);
    if (!UCS_PTR_IS_PTR(request))
        end_pull(channel, pull, UCS_PTR_STATUS(request));
}

static bool channel_read(fry_channel *public_, fry_pull *pull)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    return public_->path != FRY_PATH_NET && fry_ucx_offers_read(channel, pull);
}

static void channel_drop(fry_channel *public_, void *token)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    if (public_->path != FRY_PATH_NET)
        fry_ucx_offers_drop(channel, token);
    else if (token == channel->arriving)
        channel->arriving_is_dropped = true; /* UCX drops it when it learns that we keep nothing */
    else if (channel->state == FRY_UCX_CHANNEL_CONNECTED)
        fry_ucp.ucp_am_data_release(channel->worker, token);
}

/* ---- time ---- */

static size_t channel_progress(fry_channel *public_)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    if (channel->arm_status != UCS_OK) {
        fry_ucx_channel_fail(channel, channel->arm_status, "ucp_worker_arm");
        channel->arm_status = UCS_OK;
    }
    size_t count = fry_ucp.ucp_worker_progress(channel->worker);
    if (count > 0) {
        channel->watch.has_sent = true; /* UCX answers by itself */
        channel->watch.is_armed = false;
        channel->fruitless = 0;
    }
    if (!fry_ucx_watch_is_well(&channel->watch))
        fry_ucx_channel_fail(channel, UCS_ERR_ENDPOINT_TIMEOUT, "the network");
    if (channel->state == FRY_UCX_CHANNEL_BROKEN &&
        (count == 0 || ++channel->broken_rounds >= BROKEN_ROUNDS_MAX)) {
        tell_failed(channel, channel->broken_status, channel->broken_call);
        return count + 1;
    }
    return count + fry_ucx_offers_progress(channel);
}

static fry_arming channel_arm(fry_channel *public_)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    if (channel->state == FRY_UCX_CHANNEL_BROKEN ||
        (channel->to_read != NULL && channel->state == FRY_UCX_CHANNEL_CONNECTED))
        return FRY_ARMING_BUSY;
    ucs_status_t status = fry_ucp.ucp_worker_arm(channel->worker);
    if (status == UCS_OK) {
        fry_ucx_watch_arm(&channel->watch);
        return FRY_ARMING_ARMED;
    }
    if (status == UCS_ERR_BUSY) {
        /*
         * UCX is also busy while the peer takes nothing and its queue is full. A peer that is
         * stopped, or computes, must not cost a core here.
         */
        if (++channel->fruitless < FRUITLESS_MAX)
            return FRY_ARMING_BUSY;
        fry_ucx_watch_set_look(&channel->watch);
        return FRY_ARMING_STUCK;
    }
    /* The worker can't be slept on any more. Progress is due, to report it, once. */
    if (channel->state >= FRY_UCX_CHANNEL_FAILED)
        return FRY_ARMING_ARMED;
    channel->arm_status = status;
    return FRY_ARMING_BUSY;
}

static void channel_destroy(fry_channel *public_)
{
    fry_ucx_channel *channel = (fry_ucx_channel *)public_;
    /* In a child after fork: the descriptors and the memory are the parent's. */
    if (getpid() != channel->ucx->pid)
        return;
    fry_ucx_channel_set_state(channel, FRY_UCX_CHANNEL_ENDED);
    fry_ucx_mark_wipe(&channel->mark); /* before offered memory can be taken for quiet */
    if (channel->endpoint != NULL && channel->public_.path == FRY_PATH_NET) {
        /*
         * Ends here and now what is under way. On one host UCX refuses this, and the worker's end
         * does it.
         */
        ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_EP_CLOSE_FLAG_FORCE};
        ucs_status_ptr_t request = fry_ucp.ucp_ep_close_nbx(channel->endpoint, &param);
        if (UCS_PTR_IS_PTR(request))
            fry_ucp.ucp_request_free(request);
    }
    if (channel->worker != NULL)
        fry_ucp.ucp_worker_destroy(channel->worker);
    if (channel->own_context != NULL)
        fry_ucp.ucp_cleanup(channel->own_context);

    const fry_memory *memory = channel->ucx->memory;
    for (fry_ucx_parcels *chunk = channel->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        fry_free(memory, chunk, sizeof *chunk + chunk->count * sizeof *chunk->parcels);
    }
    fry_free(memory, channel, sizeof *channel);
}

const fry_channel_ops fry_ucx_channel_ops = {
    .post = channel_post,
    .pull = channel_pull,
    .read = channel_read,
    .drop = channel_drop,
    .progress = channel_progress,
    .arm = channel_arm,
    .destroy = channel_destroy,
};
