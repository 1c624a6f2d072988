"""Drives the program with the public Python client of the Agent Client Protocol: python acp_client.py PROGRAM FOLDER REPLIES."""

import asyncio
import os
import sys

import acp
from acp import text_block


class Editor:
    """An editor that approves everything once and remembers the text."""

    def __init__(self):
        self.said = ""
        self.kinds = []

    async def request_permission(self, options, session_id, tool_call, **_):
        chosen = next(option for option in options if option.kind == "allow_once")
        return acp.RequestPermissionResponse(outcome={"outcome": "selected", "optionId": chosen.option_id})

    async def session_update(self, session_id, update, **_):
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.said += update.content.text

    def on_connect(self, connection):
        pass

    async def ext_method(self, method, params):
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass


async def main():
    program, folder, replies = sys.argv[1:]
    editor = Editor()
    args = ["--acp", "-m", "gemini-2.5-flash", "--fake-responses", replies]
    async with acp.spawn_agent_process(editor, program, *args, env=dict(os.environ), cwd=folder) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block("write it")])
        print("stop", answer.stop_reason)
        print("said", editor.said)
        print("kinds", sorted(set(editor.kinds)))
        listed = await agent.list_sessions(cwd=folder)
        assert session.session_id in [row.session_id for row in listed.sessions], listed
        await agent.close_session(session_id=session.session_id)


asyncio.run(main())
