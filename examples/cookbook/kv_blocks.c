/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's blocks of a KV cache go from the member that computed them to the member that
 * decodes. The blocks lie anywhere in both caches: each side has a list of its own. One batch posts
 * the whole list, and one future tells that the request has come. Both members are in this process.
 */
#include <ferry/ferry.h>
#include <stdio.h>
#include <string.h>

enum { CACHE_BLOCKS = 256, BLOCKS = 64, BLOCK_BYTES = 16384 };

typedef struct member {
    ferry_engine *engine;
    ferry_group *group;
    ferry_buffer *cache;
    ferry_future *joined;
    size_t list[BLOCKS]; /* which blocks of its cache the request has */
} member;

static int open_member(member *self, ferry_rank rank)
{
    ferry_group_options options = FERRY_GROUP_OPTIONS_INIT;
    options.store = "mem:kv-blocks";
    options.job = "kv-blocks";
    options.size = 2;
    options.rank = rank;
    options.has_rank = true;
    if (ferry_engine_create(NULL, &self->engine, NULL) != FERRY_OK ||
        ferry_buffer_alloc(ferry_device_at(self->engine, 0), (size_t)CACHE_BLOCKS * BLOCK_BYTES,
                           &self->cache) != FERRY_OK)
        return 1;
    self->joined = ferry_group_join(self->engine, &options, &self->group);
    return 0;
}

static ferry_span block_of(const member *self, size_t i)
{
    return ferry_span_slice(ferry_buffer_span(self->cache), self->list[i] * BLOCK_BYTES,
                            BLOCK_BYTES);
}

/* Posts the whole list at once. The k-th send with a tag meets the k-th receive with it. */
static ferry_future *post(member *self, ferry_op_kind kind, ferry_tag request)
{
    ferry_op ops[BLOCKS];
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < BLOCKS; i++) {
        ops[i].kind = kind;
        ops[i].group = self->group;
        ops[i].peer = 1 - ferry_group_rank(self->group);
        ops[i].tag = request;
        ops[i].src = ops[i].dst = block_of(self, i); /* a send looks at src, a receive at dst */
    }
    return ferry_batch(self->engine, ops, sizeof ops[0], BLOCKS, NULL, NULL);
}

static char *byte_of(const member *self, size_t i)
{
    return (char *)ferry_buffer_data(self->cache) + self->list[i] * BLOCK_BYTES;
}

static void close_member(member *self)
{
    ferry_future_release(self->joined);
    ferry_group_release(self->group);
    ferry_buffer_release(self->cache);
    ferry_engine_release(self->engine);
}

int main(void)
{
    member prefill = {0}, decode = {0};
    size_t right = 0;
    if (open_member(&prefill, 0) != 0 || open_member(&decode, 1) != 0 ||
        ferry_future_wait(prefill.joined, -1) != FERRY_OK ||
        ferry_future_wait(decode.joined, -1) != FERRY_OK)
        return 1;
    for (size_t i = 0; i < BLOCKS; i++) {
        prefill.list[i] = (i * 97 + 3) % CACHE_BLOCKS;
        decode.list[i] = (i * 61 + 200) % CACHE_BLOCKS;
        memset(byte_of(&prefill, i), (int)i, BLOCK_BYTES);
    }
    ferry_future *sent = post(&prefill, FERRY_OP_SEND, 4711);
    ferry_future *came = post(&decode, FERRY_OP_RECV, 4711);
    ferry_status status = ferry_future_wait(came, -1);
    ferry_future_wait(sent, -1); /* from now on the sender may use its blocks for another request */
    for (size_t i = 0; i < BLOCKS; i++)
        right += byte_of(&decode, i)[BLOCK_BYTES - 1] == (char)i;
    printf("%s: %zu of %d blocks are right\n", ferry_status_name(status), right, BLOCKS);
    ferry_future_release(sent);
    ferry_future_release(came);
    close_member(&prefill);
    close_member(&decode);
    return status == FERRY_OK && right == BLOCKS ? 0 : 1;
}
