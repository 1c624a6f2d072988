"""A small agent behind the public A2A server library, for crates/cli/tests/it/remote_agents.rs.

usage: a2a_agent.py jsonrpc|rest|polled [TOKEN]

Prints the address of its card, then serves until its standard input ends. With TOKEN every request needs
`Authorization: Bearer TOKEN`. "polled" is JSON-RPC without streaming. What it gets is given back in upper case, in two
pieces, and the text of each message is counted within its context.
"""

import asyncio
import os
import socket
import sys
import threading

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart, TransportProtocol
from a2a.utils import new_agent_text_message, new_task
from starlette.responses import PlainTextResponse


class Shouting(AgentExecutor):
    def __init__(self):
        self.heard = {}

    async def execute(self, context, queue):
        task = context.current_task or new_task(context.message)
        if context.current_task is None:
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        text = context.get_user_input()
        count = self.heard[task.context_id] = self.heard.get(task.context_id, 0) + 1
        await updater.start_work(new_agent_text_message(f"message {count}. ", task.context_id, task.id))
        if text == "wait":
            await asyncio.sleep(600)
        if text == "ask":
            await updater.update_status(
                "input-required", new_agent_text_message("which one?", task.context_id, task.id), final=True
            )
            return
        for piece, append in ((text[: len(text) // 2], False), (text[len(text) // 2 :], True)):
            part = Part(root=TextPart(text=piece.upper()))
            await updater.add_artifact([part], artifact_id="shout", name="shout", append=append, last_chunk=append)
        await updater.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def guarded(app, token):
    """Lets in whoever brings the token."""

    async def inner(scope, receive, send):
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            if given != f"Bearer {token}":
                await PlainTextResponse("who are you?", status_code=401)(scope, receive, send)
                return
        await app(scope, receive, send)

    return inner


def main():
    kind = sys.argv[1]
    token = sys.argv[2] if len(sys.argv) > 2 else None
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    rest = kind == "rest"
    card = AgentCard(
        name="Shouting",
        description="Says everything louder",
        url=url,
        version="1.0.0",
        preferred_transport=TransportProtocol.http_json if rest else TransportProtocol.jsonrpc,
        capabilities=AgentCapabilities(streaming=kind != "polled"),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="shout", name="shout", description="upper case", tags=["text"])],
    )
    handler = DefaultRequestHandler(agent_executor=Shouting(), task_store=InMemoryTaskStore())
    application = A2ARESTFastAPIApplication if rest else A2AStarletteApplication
    app = application(agent_card=card, http_handler=handler).build()
    if token:
        app = guarded(app, token)

    def leave_with_the_test():
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=leave_with_the_test, daemon=True).start()
    print(f"{url}/.well-known/agent-card.json", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main()
