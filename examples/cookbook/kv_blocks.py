# SPDX-License-Identifier: Apache-2.0
"""kv_blocks.c with asyncio: a request's blocks of a KV cache go to the member that decodes.

The blocks lie anywhere in both caches: each side has a list of its own. Both members are in this
process; each has an engine.
"""

import asyncio

import ferry

CACHE_BLOCKS, BLOCK_BYTES = 256, 16384
REQUEST = 4711


async def move(rank, numbers, cache):
    """Sends the blocks with these numbers from rank 0's cache, or receives them into rank 1's."""
    async with ferry.Engine() as engine:
        async with engine.join(store="mem:kv", job="kv", size=2, rank=rank) as group:
            buffer = engine.buffer(cache)
            blocks = [buffer[n * BLOCK_BYTES : (n + 1) * BLOCK_BYTES] for n in numbers]
            transfer = group.recv if rank else group.send
            await engine.all([transfer(1 - rank, block, tag=REQUEST) for block in blocks])


async def main():
    prefill, decode = (bytearray(CACHE_BLOCKS * BLOCK_BYTES) for _ in range(2))
    theirs = [(i * 97 + 3) % CACHE_BLOCKS for i in range(64)]
    ours = [(i * 61 + 200) % CACHE_BLOCKS for i in range(64)]
    for i, number in enumerate(theirs):
        prefill[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES] = bytes([i]) * BLOCK_BYTES
    await asyncio.gather(move(0, theirs, prefill), move(1, ours, decode))
    right = sum(decode[n * BLOCK_BYTES + BLOCK_BYTES - 1] == i for i, n in enumerate(ours))
    print(f"{right} of {len(ours)} blocks are right")
    return right == len(ours)


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main()) else 1)
