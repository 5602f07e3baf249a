# SPDX-License-Identifier: Apache-2.0
"""Two processes move NumPy blocks with asyncio, as a prefill hands its cache to a decoder.

    python3 examples/numpy_blocks.py [--blocks N]

The sender computes blocks of a cache one after another; each is sent when it has been computed,
while the next is being computed. The receiver gathers them into places of its own, and compares
checksums by a value of the group. Where PyTorch is installed, the receiver's cache is a tensor.
"""

import argparse
import asyncio
import concurrent.futures
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import ferry

SHAPE = (16, 1024)  # of a block: tokens, and numbers for each


def make_cache(blocks):
    try:
        import torch
    except ImportError:
        return np.zeros((blocks, *SHAPE), dtype=np.float32)
    return torch.zeros((blocks, *SHAPE), dtype=torch.float32)


def compute(block, number):
    """Stands for a layer of a model."""
    block[...] = np.random.default_rng(number).standard_normal(SHAPE, dtype=np.float32)


async def send(engine, group, blocks):
    cache = np.zeros((blocks, *SHAPE), dtype=np.float32)
    buffer = engine.buffer(cache)
    block_bytes = cache[0].nbytes
    sent = []
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        for i in range(blocks):
            span = buffer[i * block_bytes : (i + 1) * block_bytes]
            engine.call(compute, cache[i], i, executor=executor, writes=span, label="compute")
            sent.append(group.send(1, span, tag=i, label="block"))  # waits for compute
        await engine.all(sent)
    await group.set("checksum", str(zlib.crc32(cache)).encode())
    await group.barrier("compared")


async def receive(engine, group, blocks):
    cache = make_cache(blocks)
    staging = engine.allocate(blocks * SHAPE[0] * SHAPE[1] * 4)
    target = engine.buffer(cache)
    block_bytes = len(target) // blocks
    for i in range(blocks):
        group.recv(0, staging[i * block_bytes : (i + 1) * block_bytes], tag=i)
    # The blocks go to places of the receiver's own: here in reverse. One call moves them all, each
    # when it has come.
    numbers = np.arange(blocks) * block_bytes
    await engine.copy_blocks(target, staging, numbers[::-1].copy(), numbers, block_bytes)
    checksum = zlib.crc32(np.ascontiguousarray(np.asarray(cache)[::-1]))
    theirs = int((await group.get("checksum")).data)
    await group.barrier("compared")
    print(f"{blocks} blocks of {block_bytes} bytes, checksum {checksum:08x}")
    if checksum != theirs:
        raise SystemExit(f"the sender's checksum is {theirs:08x}")


async def member(folder, rank, blocks):
    async with ferry.Engine() as engine:
        async with engine.join(store=f"file:{folder}", job="blocks", size=2, rank=rank) as group:
            await (receive if rank else send)(engine, group, blocks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=256)
    parser.add_argument("--member", nargs=2, metavar=("FOLDER", "RANK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        folder, rank = options.member
        asyncio.run(member(folder, int(rank), options.blocks))
        return
    with tempfile.TemporaryDirectory(prefix="numpy-blocks.") as folder:
        command = [sys.executable, __file__, "--blocks", str(options.blocks), "--member", folder]
        members = [subprocess.Popen(command + [rank]) for rank in ("0", "1")]
        codes = [member.wait() for member in members]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
