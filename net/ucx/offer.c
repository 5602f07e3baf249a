/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers: how large messages cross between processes of one host.
 *
 *     sender                                        receiver
 *     post     OFFER: header, where the data is ─►  is told of the message
 *                                                   pull: reads the data, and the sender's mark
 *     done  ◄─────────────────────────── TAKEN      the pull is done
 *
 * The receiver reads by itself, some 512 KiB at a time. It needs nothing of the sender meanwhile,
 * which may be stopped. What it has read counts only if the sender's mark stood after it;
 * net/ucx/mark.h says why it is then what was offered. An offer is over, and its memory quiet, when
 * the receiver has said TAKEN, which it does once for each offer, after it has read or dropped the
 * data; or when the sender has destroyed the channel, which wipes the mark first. So at no moment
 * is memory quiet while a read of it can still succeed.
 *
 * If the memory can't be read, in general (seccomp, ptrace's rules) or this once (pages that only
 * the sender can read, such as a device's), the receiver says ASKED, and the sender sends the data
 * by UCX. The sender's progress copies the data, and the receiver's progress copies it again:
 * nobody's memory is read, and the copying ends with either end's worker. The answer names the
 * offer.
 *
 * Reads (fry_channel_ops.read) are the same without an offer: nothing is said before or after.
 * Their memory is quiet at the other end by what the peers say to each other, or by the mark. If it
 * is mapped here (base/shared.h), they are copied by this thread, and its own mark counts.
 *
 * An offer's number is its parcel's index and how often the parcel was used. So a word that comes
 * late, or that the other end makes up, ends no other offer. Memory: one parcel for each offer, at
 * either end.
 */
#include "net/ucx/offer.h"

#include "base/lf.h"
#include "net/transport.h"
#include "net/ucx/channel.h"
#include "net/ucx/library.h"
#include "net/ucx/mark.h"

#include <errno.h>
#include <string.h>

/* How much is read at a time: the baton's holder does nothing else meanwhile. */
#define READ_BYTES ((size_t)512 << 10)
#define WORD_BYTES sizeof(uint64_t) /* TAKEN, ASKED, ANSWER: the offer's number */

_Static_assert(FRY_UCX_OFFER_BYTES == 3 * sizeof(uint64_t), "number, address, size");

/* ---- headers ---- */

static void set_leaving(fry_ucx_parcel *parcel, bool is_leaving)
{
    parcel->is_leaving = is_leaving;
    parcel->channel->public_.leaving += is_leaving ? 1U : UINT32_MAX;
}

static void header_left(void *request, ucs_status_t status, void *arg)
{
    fry_ucx_parcel *parcel = arg;
    fry_ucx_channel *channel = parcel->channel;
    fry_ucp.ucp_request_free(request);
    if (channel->state == FRY_UCX_CHANNEL_ENDED)
        return;
    set_leaving(parcel, false);
    if (parcel->state == FRY_UCX_PARCEL_LEAVES)
        fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    if (status != UCS_OK)
        fry_ucx_channel_fail(channel, status, "an offer");
}

/* False: it could not leave at once. */
static bool leaves_at_once(fry_ucx_channel *channel, fry_ucx_id id, const void *header,
                           size_t header_bytes)
{
    static const ucp_request_param_t at_once = {.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    fry_carried();
    if (header_bytes > FRY_UCX_SHORT_BYTES)
        return false;
    ucs_status_ptr_t request =
        fry_ucp.ucp_am_send_nbx(channel->endpoint, id, header, header_bytes, NULL, 0, &at_once);
    if (request != NULL && UCS_PTR_STATUS(request) != UCS_ERR_NO_RESOURCE)
        fry_ucx_channel_fail(channel, UCS_PTR_STATUS(request), "an offer");
    return request == NULL;
}

/* Sends the parcel's header. The parcel keeps it until it has left. */
static void send_header(fry_ucx_parcel *parcel, fry_ucx_id id, size_t header_bytes)
{
    fry_ucx_channel *channel = parcel->channel;
    if (leaves_at_once(channel, id, parcel->header, header_bytes) ||
        channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return;
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = header_left,
        .user_data = parcel,
    };
    set_leaving(parcel, true);
    ucs_status_ptr_t request = fry_ucp.ucp_am_send_nbx(channel->endpoint, id, parcel->header,
                                                       header_bytes, NULL, 0, &param);
    if (UCS_PTR_IS_PTR(request))
        return;
    set_leaving(parcel, false);
    if (request != NULL)
        fry_ucx_channel_fail(channel, UCS_PTR_STATUS(request), "an offer");
}

/* Sends a word about the other end's offer. */
static void say(fry_ucx_channel *channel, fry_ucx_id id, uint64_t number)
{
    if (channel->state != FRY_UCX_CHANNEL_CONNECTED ||
        leaves_at_once(channel, id, &number, WORD_BYTES) ||
        channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return;
    fry_ucx_parcel *parcel = fry_ucx_parcel_take(channel, FRY_UCX_PARCEL_LEAVES);
    if (parcel == NULL) {
        fry_ucx_channel_fail(channel, UCS_ERR_NO_MEMORY, "an offer");
        return;
    }
    memcpy(parcel->header, &number, WORD_BYTES);
    send_header(parcel, id, WORD_BYTES);
    if (!parcel->is_leaving)
        fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
}

/* ---- the sender ---- */

static uint64_t number_of(const fry_ucx_parcel *parcel)
{
    return (uint64_t)parcel->uses << 32 | parcel->index;
}

fry_post_result fry_ucx_offers_post(fry_ucx_channel *channel, fry_post *post)
{
    fry_ucx_parcel *parcel = fry_ucx_parcel_take(channel, FRY_UCX_PARCEL_OFFERED);
    if (parcel == NULL) {
        fry_ucx_channel_fail(channel, UCS_ERR_NO_MEMORY, "an offer");
        return FRY_POST_FAILED;
    }
    const uint64_t offer[] = {number_of(parcel), (uintptr_t)post->data, post->size_bytes};
    parcel->post = post;
    memcpy(parcel->header, post->header, post->header_bytes);
    memcpy(parcel->header + post->header_bytes, offer, sizeof offer);
    send_header(parcel, FRY_UCX_OFFER, post->header_bytes + sizeof offer);
    return channel->state == FRY_UCX_CHANNEL_CONNECTED ? FRY_POST_BEGUN : FRY_POST_FAILED;
}

/* Returns the offer that a word names; NULL: there is none, and the channel fails. */
static fry_ucx_parcel *find_offer(fry_ucx_channel *channel, const void *header, size_t header_bytes)
{
    uint64_t number = 0;
    if (header_bytes == WORD_BYTES)
        memcpy(&number, header, WORD_BYTES);
    const uint32_t index = (uint32_t)number;
    for (fry_ucx_parcels *chunk = channel->chunks; chunk != NULL; chunk = chunk->next) {
        if (index < chunk->first || index - chunk->first >= chunk->count)
            continue;
        fry_ucx_parcel *parcel = &chunk->parcels[index - chunk->first];
        if (header_bytes == WORD_BYTES && number_of(parcel) == number &&
            parcel->state == FRY_UCX_PARCEL_OFFERED)
            return parcel;
        break;
    }
    fry_ucx_channel_fail(channel, UCS_ERR_INVALID_PARAM, "an answer to no offer");
    return NULL;
}

static ucs_status_t hear_taken(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t size_bytes, const ucp_am_recv_param_t *param)
{
    (void)data, (void)size_bytes, (void)param;
    fry_ucx_channel *channel = arg;
    fry_carried();
    if (channel->state >= FRY_UCX_CHANNEL_FAILED)
        return UCS_OK;
    fry_ucx_parcel *parcel = find_offer(channel, header, header_bytes);
    if (parcel == NULL)
        return UCS_OK;
    fry_post *post = parcel->post;
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    post->done(post, FERRY_OK, NULL);
    return UCS_OK;
}

/* A failed answer ends with the channel, after what else has arrived. */
static void end_answer(fry_ucx_parcel *parcel, ucs_status_t status)
{
    fry_post *post = parcel->post;
    if (status != UCS_OK) {
        fry_ucx_channel_fail(parcel->channel, status, "a send");
        return;
    }
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    post->done(post, FERRY_OK, NULL);
}

static void answered(void *request, ucs_status_t status, void *arg)
{
    fry_ucx_parcel *parcel = arg;
    fry_ucp.ucp_request_free(request);
    if (parcel->channel->state != FRY_UCX_CHANNEL_ENDED)
        end_answer(parcel, status);
}

static ucs_status_t hear_asked(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t size_bytes, const ucp_am_recv_param_t *param)
{
    (void)data, (void)size_bytes, (void)param;
    fry_ucx_channel *channel = arg;
    fry_carried();
    if (channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return UCS_OK;
    fry_ucx_parcel *parcel = find_offer(channel, header, header_bytes);
    if (parcel == NULL)
        return UCS_OK;
    const ucp_request_param_t answer = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_RNDV, /* so that it goes straight into place */
        .cb.send = answered,
        .user_data = parcel,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    parcel->id = number_of(parcel);
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_ANSWERED);
    ucs_status_ptr_t request =
        fry_ucp.ucp_am_send_nbx(channel->endpoint, FRY_UCX_ANSWER, &parcel->id, WORD_BYTES,
                                parcel->post->data, parcel->post->size_bytes, &answer);
    if (!UCS_PTR_IS_PTR(request))
        end_answer(parcel, UCS_PTR_STATUS(request));
    return UCS_OK;
}

/* ---- the receiver ---- */

static ucs_status_t hear_offer(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t size_bytes, const ucp_am_recv_param_t *param)
{
    (void)data, (void)param;
    fry_ucx_channel *channel = arg;
    uint64_t offer[3] = {0};
    fry_carried();
    if (channel->state >= FRY_UCX_CHANNEL_FAILED)
        return UCS_OK;
    if (header_bytes >= sizeof offer)
        memcpy(offer, (const char *)header + header_bytes - sizeof offer, sizeof offer);
    if (offer[2] == 0 || offer[2] > PTRDIFF_MAX || size_bytes > 0) {
        fry_ucx_channel_fail(channel, UCS_ERR_INVALID_PARAM, "an empty offer");
        return UCS_OK;
    }
    fry_ucx_parcel *parcel = fry_ucx_parcel_take(channel, FRY_UCX_PARCEL_FOUND);
    if (parcel == NULL) {
        fry_ucx_channel_fail(channel, UCS_ERR_NO_MEMORY, "an offer");
        return UCS_OK;
    }
    parcel->id = offer[0];
    parcel->address = offer[1];
    parcel->size_bytes = offer[2];
    const fry_arrival arrival = {
        .header = header,
        .header_bytes = header_bytes - sizeof offer,
        .size_bytes = parcel->size_bytes,
        .token = parcel,
    };
    channel->public_.events->arrived(channel->public_.events_arg, &arrival);
    return UCS_OK;
}

void fry_ucx_offers_drop(fry_ucx_channel *channel, void *token)
{
    fry_ucx_parcel *parcel = token;
    say(channel, FRY_UCX_TAKEN, parcel->id);
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
}

static void append(fry_ucx_parcel **first, fry_ucx_parcel **last, fry_ucx_parcel *parcel)
{
    parcel->next = NULL;
    if (*first == NULL)
        *first = parcel;
    else
        (*last)->next = parcel;
    *last = parcel;
}

static void ask(fry_ucx_channel *channel, fry_ucx_parcel *parcel)
{
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_AWAITED);
    append(&channel->awaited, &channel->last_awaited, parcel);
    say(channel, FRY_UCX_ASKED, parcel->id);
}

/* The first read has ended, well or badly. */
static void end_reading(fry_ucx_channel *channel, fry_ucx_mark_result result)
{
    fry_ucx_parcel *parcel = channel->to_read;
    fry_pull *pull = parcel->pull;
    channel->to_read = parcel->next;
    if (result == FRY_UCX_MARK_UNKNOWN) {
        if (errno == EPERM)
            channel->reads_other = false;
        if (parcel->is_offered) {
            ask(channel, parcel);
            return;
        }
        fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
        pull->done(pull, FERRY_E_UNSUPPORTED, NULL);
        return;
    }
    if (result == FRY_UCX_MARK_IS_GONE) {
        /* The pull is never done, and ends with the channel, after what else has arrived. */
        fry_ucx_channel_fail(channel, UCS_ERR_CANCELED, "data that its sender had given up");
        return;
    }
    if (parcel->is_offered)
        say(channel, FRY_UCX_TAKEN, parcel->id);
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    pull->done(pull, FERRY_OK, NULL);
}

static bool is_mapped(const fry_ucx_parcel *parcel)
{
    return !parcel->is_offered && parcel->pull->map != NULL;
}

/* The next parts to read, of as many parcels; the last may be read in part. */
static size_t next_parts(const fry_ucx_channel *channel,
                         fry_ucx_mark_part parts[FRY_UCX_MARK_PARTS])
{
    size_t count = 0, room = READ_BYTES;
    for (const fry_ucx_parcel *parcel = channel->to_read;
         parcel != NULL && !is_mapped(parcel) && count < FRY_UCX_MARK_PARTS && room > 0;
         parcel = parcel->next) {
        uint64_t rest = parcel->size_bytes - parcel->offset_bytes;
        size_t part = rest < room ? (size_t)rest : room;
        parts[count++] = (fry_ucx_mark_part){(char *)parcel->pull->memory + parcel->offset_bytes,
                                             parcel->address + parcel->offset_bytes, part};
        room -= part;
    }
    return count;
}

/* The next part of the first parcel, which is mapped. */
static fry_ucx_mark_result copy_mapped(const fry_ucx_parcel *parcel, fry_ucx_mark_part *part)
{
    const fry_pull *pull = parcel->pull;
    uint64_t rest = parcel->size_bytes - parcel->offset_bytes;
    *part = (fry_ucx_mark_part){.to = (char *)pull->memory + parcel->offset_bytes,
                                .size_bytes = rest < READ_BYTES ? (size_t)rest : READ_BYTES};
    return fry_shared_read(pull->map, part->to, pull->map_offset + parcel->offset_bytes,
                           part->size_bytes)
               ? FRY_UCX_MARK_STANDS
               : FRY_UCX_MARK_IS_GONE;
}

/* Reads the next parts, or, if they can't all be read, the first. Returns how many. */
static size_t read_parts(const fry_ucx_channel *channel,
                         fry_ucx_mark_part parts[FRY_UCX_MARK_PARTS], fry_ucx_mark_result *result_p)
{
    if (is_mapped(channel->to_read)) {
        *result_p = copy_mapped(channel->to_read, parts);
        return 1;
    }
    size_t count = next_parts(channel, parts);
    *result_p = fry_ucx_mark_read_parts(&channel->other, parts, count);
    if (*result_p != FRY_UCX_MARK_UNKNOWN || count == 1)
        return count;
    *result_p = fry_ucx_mark_read_parts(&channel->other, parts, 1);
    return 1;
}

/* The first part is read, well or badly. */
static void end_part(fry_ucx_channel *channel, const fry_ucx_mark_part *part,
                     fry_ucx_mark_result result)
{
    fry_ucx_parcel *parcel = channel->to_read;
    parcel->offset_bytes += part->size_bytes;
    channel->may_read_bytes -=
        part->size_bytes < channel->may_read_bytes ? part->size_bytes : channel->may_read_bytes;
    if (result != FRY_UCX_MARK_STANDS || parcel->offset_bytes == parcel->size_bytes)
        end_reading(channel, result);
}

/*
 * Reads within bounds, because pulls come faster than reads. A pull's done may pull again, which
 * goes to the end of the list.
 */
static size_t read_on(fry_ucx_channel *channel)
{
    fry_ucx_mark_part parts[FRY_UCX_MARK_PARTS];
    size_t done = 0;
    if (channel->is_reading)
        return 0;
    channel->is_reading = true;
    while (channel->to_read != NULL && channel->may_read_bytes > 0 &&
           channel->state == FRY_UCX_CHANNEL_CONNECTED) {
        fry_ucx_mark_result result;
        size_t count = read_parts(channel, parts, &result);
        for (size_t i = 0; i < count && channel->state == FRY_UCX_CHANNEL_CONNECTED; i++)
            end_part(channel, &parts[i], result);
        done += count;
    }
    channel->is_reading = false;
    return done;
}

static void read_from_now(fry_ucx_channel *channel, fry_ucx_parcel *parcel, fry_pull *pull)
{
    parcel->pull = pull;
    parcel->offset_bytes = 0;
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_READ);
    append(&channel->to_read, &channel->last_to_read, parcel);
    if (!pull->may_wait)
        (void)read_on(channel);
}

void fry_ucx_offers_pull(fry_ucx_channel *channel, fry_pull *pull)
{
    fry_ucx_parcel *parcel = pull->token;
    parcel->is_offered = true;
    if (channel->reads_other) {
        read_from_now(channel, parcel, pull);
        return;
    }
    parcel->pull = pull;
    ask(channel, parcel);
}

bool fry_ucx_offers_read(fry_ucx_channel *channel, fry_pull *pull)
{
    if ((!channel->reads_other && pull->map == NULL) || channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return false;
    fry_ucx_parcel *parcel = fry_ucx_parcel_take(channel, FRY_UCX_PARCEL_READ);
    if (parcel == NULL)
        return false;
    parcel->is_offered = false;
    parcel->address = pull->address;
    parcel->size_bytes = pull->size_bytes;
    read_from_now(channel, parcel, pull);
    return true;
}

size_t fry_ucx_offers_progress(fry_ucx_channel *channel)
{
    channel->may_read_bytes = READ_BYTES;
    return channel->to_read != NULL ? read_on(channel) : 0;
}

static void end_awaited(fry_ucx_parcel *parcel, ucs_status_t status)
{
    fry_pull *pull = parcel->pull;
    if (status != UCS_OK) {
        fry_ucx_channel_fail(parcel->channel, status, "a pull");
        return;
    }
    fry_ucx_parcel_set_state(parcel, FRY_UCX_PARCEL_FREE);
    pull->done(pull, FERRY_OK, NULL);
}

static void answer_came(void *request, ucs_status_t status, size_t size_bytes, void *arg)
{
    (void)size_bytes;
    fry_ucx_parcel *parcel = arg;
    fry_ucp.ucp_request_free(request);
    if (parcel->channel->state != FRY_UCX_CHANNEL_ENDED)
        end_awaited(parcel, status);
}

/* Takes an offer out of those asked for; NULL: it is not there. Usually it is the first. */
static fry_ucx_parcel *take_awaited(fry_ucx_channel *channel, uint64_t id)
{
    fry_ucx_parcel *before = NULL;
    fry_ucx_parcel *parcel = channel->awaited;
    while (parcel != NULL && parcel->id != id) {
        before = parcel;
        parcel = parcel->next;
    }
    if (parcel == NULL)
        return NULL;
    if (before == NULL)
        channel->awaited = parcel->next;
    else
        before->next = parcel->next;
    if (channel->last_awaited == parcel)
        channel->last_awaited = before;
    return parcel;
}

static ucs_status_t hear_answer(void *arg, const void *header, size_t header_bytes, void *data,
                                size_t size_bytes, const ucp_am_recv_param_t *param)
{
    fry_ucx_channel *channel = arg;
    uint64_t id = 0;
    fry_carried();
    if (channel->state != FRY_UCX_CHANNEL_CONNECTED)
        return UCS_OK;
    if (header_bytes == WORD_BYTES)
        memcpy(&id, header, WORD_BYTES);
    const bool is_announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    fry_ucx_parcel *parcel =
        header_bytes == WORD_BYTES && is_announced ? take_awaited(channel, id) : NULL;
    if (parcel == NULL || size_bytes != parcel->size_bytes) {
        fry_ucx_channel_fail(channel, UCS_ERR_INVALID_PARAM, "an answer that nobody asked for");
        return UCS_OK;
    }
    const ucp_request_param_t receive = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = answer_came,
        .user_data = parcel,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    fry_pull *pull = parcel->pull;
    ucs_status_ptr_t request = fry_ucp.ucp_am_recv_data_nbx(channel->worker, data, pull->memory,
                                                            pull->size_bytes, &receive);
    if (!UCS_PTR_IS_PTR(request))
        end_awaited(parcel, UCS_PTR_STATUS(request));
    return UCS_INPROGRESS;
}

/* ---- opening ---- */

ucs_status_t fry_ucx_offers_open(fry_ucx_channel *channel, fry_ucx_mark_place *place)
{
    static const ucp_am_recv_callback_t hear[FRY_UCX_IDS] = {
        [FRY_UCX_OFFER] = hear_offer,
        [FRY_UCX_TAKEN] = hear_taken,
        [FRY_UCX_ASKED] = hear_asked,
        [FRY_UCX_ANSWER] = hear_answer,
    };
    if (fry_ucx_mark_set(&channel->mark, place) != FERRY_OK)
        return UCS_ERR_NO_MEMORY;
    for (int id = FRY_UCX_OFFER; id < FRY_UCX_IDS; id++) {
        ucs_status_t status = fry_ucx_channel_listen(channel, (fry_ucx_id)id, hear[id]);
        if (status != UCS_OK)
            return status;
    }
    return UCS_OK;
}

void fry_ucx_offers_connect(fry_ucx_channel *channel, const fry_ucx_mark_place *other)
{
    channel->other = *other;
    channel->reads_other = fry_ucx_mark_read(other, NULL, 0, 0) == FRY_UCX_MARK_STANDS;
}
