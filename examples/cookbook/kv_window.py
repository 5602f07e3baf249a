# SPDX-License-Identifier: Apache-2.0
"""kv_window.cpp with asyncio: the member that decodes takes the blocks that it needs by itself.

The owner of the cache opens a window over it, says which blocks a request has, and posts nothing
for them. Both members are in this process; each has an engine.
"""

import array
import asyncio

import ferry

CACHE_BLOCKS, BLOCK_BYTES = 256, 16384


def offsets(numbers):
    return [number * BLOCK_BYTES for number in numbers]


async def prefill(cache, numbers):
    async with ferry.Engine() as engine:
        async with engine.join(store="mem:kv-window", job="kv", size=2, rank=0) as group:
            async with group.open_window(cache, "kv/blocks"):
                await group.send_notice(1, array.array("Q", offsets(numbers)))
                await group.next_notice()  # it has them: the blocks may be written again
            # Here nobody reads the cache through the window any more.


async def decode(cache, numbers):
    async with ferry.Engine() as engine:
        async with engine.join(store="mem:kv-window", job="kv", size=2, rank=1) as group:
            window = await group.find_window(0, "kv/blocks")
            theirs = array.array("Q", (await group.next_notice()).data)
            got = window.get_blocks(theirs, cache, offsets(numbers), BLOCK_BYTES)
            await group.send_notice(0, b"done", after=got)  # after a failure nothing is said
            await got


async def main():
    full, empty = (bytearray(CACHE_BLOCKS * BLOCK_BYTES) for _ in range(2))
    theirs = [(i * 97 + 3) % CACHE_BLOCKS for i in range(64)]
    ours = [(i * 61 + 200) % CACHE_BLOCKS for i in range(64)]
    for i, at in enumerate(offsets(theirs)):
        full[at : at + BLOCK_BYTES] = bytes([i]) * BLOCK_BYTES
    await asyncio.gather(prefill(full, theirs), decode(empty, ours))
    right = sum(empty[at + BLOCK_BYTES - 1] == i for i, at in enumerate(offsets(ours)))
    print(f"{right} of {len(ours)} blocks are right")
    return right == len(ours)


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main()) else 1)
