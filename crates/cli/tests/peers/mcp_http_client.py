"""Uses Pollux over HTTP with the official MCP client: mcp_http_client.py URL TOKEN"""

import asyncio
import sys

import httpx2
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

url, token = sys.argv[1:]


async def decide(context, params):
    print("asked", params.message.replace("\n", " | "))
    return types.ElicitResult(action="accept", content={"decision": "proceed_once"})


async def main():
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=600) as client:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        wrong = {"Authorization": "Bearer 0000000000000000000000000000"}
        print("wrong token", (await client.post(url, json=hello, headers=wrong)).status_code)
        evil = {"Origin": "http://evil.test"}
        print("other origin", (await client.post(url, json=hello, headers=evil)).status_code)
        print("other host", (await client.post(url, json=hello, headers={"Host": "evil.test"})).status_code)
        async with streamable_http_client(url, http_client=client) as (read, write):
            async with ClientSession(read, write, elicitation_callback=decide) as session:
                hello = await session.initialize()
                print("server", hello.server_info.name)
                tools = await session.list_tools()
                print("tools", *sorted(tool.name for tool in tools.tools))
                done = await session.call_tool("pollux_run", {"prompt": "Write it."})
                print("stop", done.structured_content["stopReason"])
                print("said", done.structured_content["text"])
                read_back = await session.call_tool("read_file", {"file_path": "hello.txt"})
                print("read", read_back.is_error, read_back.content[0].text.strip().splitlines()[-1])
                outside = await session.call_tool("read_file", {"file_path": "../../../../etc/passwd"})
                print("outside", outside.is_error, "root:" in outside.content[0].text)
                written = await session.call_tool("write_file", {"file_path": "b.txt", "content": "b\n"})
                print("written", written.is_error)


asyncio.run(main())
