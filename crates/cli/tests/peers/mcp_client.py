"""Gives a task to Pollux with the official MCP client: mcp_client.py PROGRAM FOLDER REPLIES"""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

program, folder, replies = sys.argv[1:]


async def decide(context, params):
    print("asked", params.message.replace("\n", " | "))
    return types.ElicitResult(action="accept", content={"decision": "proceed_once"})


async def progress(done, total, message):
    print("step", message)


async def main():
    import os

    flags = ["-m", "gemini-2.5-flash", "--sandbox=false", "--fake-responses", replies, "mcp", "serve"]
    server = StdioServerParameters(command=program, args=flags, env=dict(os.environ), cwd=folder)
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write, elicitation_callback=decide) as session:
            hello = await session.initialize()
            print("server", hello.server_info.name)
            tools = await session.list_tools()
            print("tools", *[tool.name for tool in tools.tools])
            done = await session.call_tool(
                "pollux_run", {"prompt": "Write it.", "mode": "auto_edit"}, progress_callback=progress
            )
            result = done.structured_content
            print("stop", result["stopReason"])
            print("said", result["text"])
            print("changed", len(result["filesChanged"]))


asyncio.run(main())
