#!/usr/bin/env python3
"""Forwards each TCP connection to the next of several servers, as the Service of a cluster does.

usage: round-robin.py PORT SERVER_PORT...

For trying several replicas on one machine (run-local.sh). It does not check whether a server is up.
"""

import asyncio
import itertools
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def main(port, *servers):
    order = itertools.cycle(servers)

    async def forward(reader, writer):
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", next(order))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, to_server), copy(from_server, writer))
        to_server.close()
        writer.close()

    async with await asyncio.start_server(forward, "127.0.0.1", port) as server:
        print("ready", flush=True)
        await server.serve_forever()


asyncio.run(main(*map(int, sys.argv[1:])))
