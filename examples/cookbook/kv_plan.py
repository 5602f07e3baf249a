# SPDX-License-Identifier: Apache-2.0
"""kv_plan.cpp with asyncio: a member mirrors another one's cache, step by step, by one plan.

The plan has a get for each block and a notice at its end; each step's post picks the blocks that
have changed, and the notice. Both members are in this process; each has an engine.
"""

import array
import asyncio

import ferry

BLOCKS, BLOCK_BYTES, STEPS = 64, 16384, 8


def changed_in(step):
    return range(step, BLOCKS, step + 1)


async def owner(cache):
    async with ferry.Engine() as engine:
        async with engine.join(store="mem:kv-plan", job="kv", size=2, rank=0) as group:
            async with group.open_window(cache, "kv/blocks"):
                for step in range(STEPS):
                    for i in changed_in(step):
                        at = i * BLOCK_BYTES
                        cache[at : at + BLOCK_BYTES] = bytes([step + 1]) * BLOCK_BYTES
                    await group.send_notice(1, array.array("I", changed_in(step)))
                    await group.next_notice()  # it has them: they may be written again


async def mirror(cache):
    async with ferry.Engine() as engine:
        async with engine.join(store="mem:kv-plan", job="kv", size=2, rank=1) as group:
            window = await group.find_window(0, "kv/blocks")
            operations = engine.operations()
            offsets = range(0, BLOCKS * BLOCK_BYTES, BLOCK_BYTES)
            operations.get_blocks(window, offsets, cache, offsets, BLOCK_BYTES)
            taken = operations.send_notice(group, 0, b"taken")  # after all gets that are picked
            with engine.plan(operations) as plan:
                for _ in range(STEPS):
                    picks = array.array("I", (await group.next_notice()).data)
                    picks.append(taken)
                    await plan.post(picks=picks, timeout=10)


async def main():
    theirs, ours = (bytearray(BLOCKS * BLOCK_BYTES) for _ in range(2))
    await asyncio.gather(owner(theirs), mirror(ours))
    blocks = [slice(at, at + BLOCK_BYTES) for at in range(0, len(ours), BLOCK_BYTES)]
    right = sum(ours[block] == theirs[block] != bytes(BLOCK_BYTES) for block in blocks)
    print(f"{right} of {BLOCKS} blocks are right")
    return right == BLOCKS


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main()) else 1)
