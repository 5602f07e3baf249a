/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardware queues, here channels. A device has few of them, and streams share them: an operation
 * begins only once all have begun that were put into its channel before, whatever stream they are
 * of. So what waits for something holds up other streams' work too. The room is a channel's as
 * well. By cuda.h copies from and to the host know no priorities, so streams of all priorities
 * share.
 *
 * Copies have channels of their own. What only marks a place (events, waits, values) stands where
 * the stream's work was last.
 */
#include "tests/emu/driver.h"
#include <stdlib.h>

struct emu_channel {
    TAILQ_HEAD(, emu_operation) undone; /* in the order in which they were put in */
    size_t entries;
};

void emu_channels_new(CUcontext context)
{
    const size_t count = 2 * (size_t)emu.channel_count;

    if (count == 0)
        return;
    context->channels = emu_allocate(count * sizeof *context->channels);
    for (size_t i = 0; i < count; i++)
        TAILQ_INIT(&context->channels[i].undone);
}

void emu_channels_free(CUcontext context)
{
    free(context->channels);
}

emu_channel *emu_channel_for(CUstream stream, const emu_operation *operation)
{
    bool copies = stream->copied_last;

    if (stream->context->channels == NULL)
        return NULL;
    if (operation->kind != EMU_OPERATION_MARK)
        copies = operation->kind == EMU_OPERATION_COPY;
    return &stream->context
                ->channels[stream->number % emu.channel_count + (copies ? emu.channel_count : 0)];
}

emu_operation *emu_channel_full(emu_channel *channel, size_t entries)
{
    return channel->entries + entries > EMU_STREAM_DEPTH ? TAILQ_FIRST(&channel->undone) : NULL;
}

void emu_channel_put(emu_channel *channel, emu_operation *operation)
{
    operation->channel = channel;
    TAILQ_INSERT_TAIL(&channel->undone, operation, in_channel);
    channel->entries += operation->entries;
    if (operation->kind != EMU_OPERATION_MARK)
        operation->stream->copied_last = operation->kind == EMU_OPERATION_COPY;
}

/* Who is next to begin. Few have begun and are not done: at most one of each stream. */
static emu_operation *next_of(const emu_channel *channel)
{
    emu_operation *operation;

    TAILQ_FOREACH(operation, &channel->undone, in_channel) {
        if (!operation->has_begun)
            return operation;
    }
    return NULL;
}

static void wake_next(const emu_channel *channel)
{
    const emu_operation *const next = next_of(channel);

    if (next != NULL)
        pthread_cond_signal(&next->stream->work);
}

bool emu_channel_lets(const emu_operation *operation)
{
    return operation->channel == NULL || operation->has_begun ||
           next_of(operation->channel) == operation;
}

void emu_channel_begin(emu_operation *operation)
{
    if (operation->has_begun)
        return;
    operation->has_begun = true;
    if (operation->channel != NULL)
        wake_next(operation->channel);
}

void emu_channel_take_out(emu_operation *operation)
{
    emu_channel *const channel = operation->channel;

    if (channel == NULL)
        return;
    operation->channel = NULL;
    TAILQ_REMOVE(&channel->undone, operation, in_channel);
    channel->entries -= operation->entries;
    wake_next(channel);
}
