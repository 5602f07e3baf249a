/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/messages/pairing_open.h"

#include "engine/messages/launch.h"
#include "engine/messages/pairing_state.h"

#include <stdio.h>

/* ---- devices ---- */

static bool make_current(void *arg)
{
    fry_device *device = arg;
    return device->ops->native_enter(device);
}

static void *open_stream(void *arg, fry_fault *fault)
{
    fry_device *device = arg;
    void *stream = NULL;
    return device->ops->native_stream_open(device, &stream, fault) == FERRY_OK ? stream : NULL;
}

static bool is_stream_idle(void *arg, void *stream)
{
    fry_device *device = arg;
    return device->ops->native_stream_is_idle(device, stream);
}

static void close_stream(void *arg, void *stream)
{
    fry_device *device = arg;
    device->ops->native_stream_close(device, stream);
}

fry_pair_device fry_pairing_device(fry_device *device)
{
    return (fry_pair_device){.arg = device,
                             .make_current = make_current,
                             .open_stream = open_stream,
                             .is_stream_idle = is_stream_idle,
                             .close_stream = close_stream};
}

/* ---- the role ---- */

static void find_transport(ferry_engine *engine, fry_pairings *pairings)
{
    const char *reason = "";
    pairings->has_tried = true;
    const fry_pairs_ops *ops = fry_pairs_find("nccl", &reason);
    pairings->version = ops != NULL ? ops->probe(&reason) : 0;
    const fry_pairs_options options = {
        .notify = {fry_launch_wake, engine},
        .log = &engine->log,
        .pairs_most = engine->options.nccl_pairs,
    };
    if (pairings->version != 0 &&
        ops->open(&engine->memory, &options, &pairings->pairs) == FERRY_OK)
        pairings->ops = ops;
    (void)snprintf(pairings->reason, sizeof pairings->reason, "%s", reason);
}

static fry_pairing *make(ferry_engine *engine, fry_pairings *pairings)
{
    const fry_pairing_job *job = &pairings->job;
    const fry_pair_device device = fry_pairing_device(job->device->device);
    fry_pairing *pairing = fry_alloc(&engine->memory, sizeof *pairing, _Alignof(fry_pairing));
    (void)snprintf(pairings->reason, sizeof pairings->reason,
                   "there is no memory for a communicator");
    if (pairing == NULL)
        return NULL;
    pairing->pair = pairings->ops->pair_open(pairings->pairs, &device, job->is_leader);
    if (pairing->pair != NULL)
        return pairing;
    fry_free(&engine->memory, pairing, sizeof *pairing);
    return NULL;
}

size_t fry_pairings_work(fry_members *members)
{
    fry_pairings *pairings = &members->pairings;
    if (fry_likely(pairings->job.state != FRY_PAIRING_ASKED))
        return 0;
    if (!pairings->has_tried)
        find_transport(members->engine, pairings);
    pairings->job.pairing = pairings->ops != NULL ? make(members->engine, pairings) : NULL;
    pairings->job.state = FRY_PAIRING_DONE;
    return 1;
}

void fry_pairings_free(fry_pairings *pairings)
{
    if (pairings->pairs != NULL && pairings->count == 0)
        pairings->ops->close(pairings->pairs);
}
