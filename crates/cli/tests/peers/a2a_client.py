"""Drives an A2A server with the public client library, for crates/cli/tests/a2a/peers.rs.

usage: a2a_client.py URL TOKEN 1.0|0.3 JSONRPC|HTTP+JSON

The model must answer the prompts in this order: "Hello", "Hello again", "Hello once more", a shell command, "done", and
last nothing at all. Prints one line per step; a step that fails raises.
"""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_message_text
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Value

WAITING = TaskState.TASK_STATE_INPUT_REQUIRED


def name(state):
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower()


def request(text=None, data=None, task="", immediate=False):
    part = Part(text=text) if data is None else Part(data=Value())
    if data is not None:
        for key, value in data.items():
            part.data.struct_value.fields[key].string_value = value
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, task_id=task, parts=[part])
    request = SendMessageRequest(message=message)
    request.configuration.return_immediately = immediate
    return request


def describe(event):
    kind = event.WhichOneof("payload")
    if kind == "task":
        return f"task {name(event.task.status.state)}"
    if kind == "status_update":
        return f"status {name(event.status_update.status.state)}"
    return kind


def merged(kinds):
    """Neighbours that are alike count once: how text is cut into pieces does not matter."""
    return [kind for index, kind in enumerate(kinds) if index == 0 or kinds[index - 1] != kind]


async def read(events, until=(WAITING,)):
    """Reads a stream until the task has one of these states. Streams of 1.0 stay open while a task waits."""
    seen, text, task, state = [], "", None, None
    async for event in events:
        seen.append(describe(event))
        if event.HasField("task"):
            task, state = event.task.id, event.task.status.state
        elif event.HasField("status_update"):
            update = event.status_update
            task, state = update.task_id, update.status.state
            if state == TaskState.TASK_STATE_WORKING:
                text += get_message_text(update.status.message)
        if len(seen) > 1 and state in until:
            break
    return merged(seen), text, task


async def refused(what, call):
    """Runs a call that must fail; prints the library's name for the error."""
    try:
        result = call()
        if hasattr(result, "__aiter__"):
            async for _ in result:
                break
        else:
            await result
    except A2AError as error:
        print(f"{what} refused {type(error).__name__}")
    else:
        raise AssertionError(f"{what} was not refused")


async def main(url, token, version, binding):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=180) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        print(f"card {card.name}")
        offered = card.supported_interfaces
        wanted = [it for it in offered if (it.protocol_version, it.protocol_binding) == (version, binding)]
        assert len(wanted) == 1, card.supported_interfaces
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(wanted)
        if version == "0.3":
            http.headers["A2A-Version"] = "0.3"

        def connect(streaming):
            config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
            return ClientFactory(config).create(card)

        streaming, polling = connect(True), connect(False)

        kinds, text, task = await read(streaming.send_message(request("hi")))
        print(f"stream {', '.join(kinds)}: {text}")

        async for answer in polling.send_message(request("again", task=task)):
            assert answer.task.id == task
            status = answer.task.status
            print(f"send {name(status.state)}: {get_message_text(status.message)}")

        # 1.0 repeats the task in every stream, 0.3 only in the first. How far the task is by then is a matter of speed.
        kinds, _, _ = await read(streaming.send_message(request("once more", task=task)))
        print(f"continued {kinds[0].split()[0]}, {kinds[-1].split()[1]}")

        got = await streaming.get_task(GetTaskRequest(id=task, history_length=2))
        roles = [Role.Name(it.role) for it in got.history]
        print(f"get {name(got.status.state)} {', '.join(roles)}: {get_message_text(got.history[-1])}")

        if version == "1.0":
            listed = await streaming.list_tasks(ListTasksRequest(page_size=10))
            assert [it.id for it in listed.tasks] == [task], listed
            print(f"list {listed.total_size} {listed.page_size} {listed.next_page_token!r}")

        _, _, asking = await read(streaming.send_message(request("run it")))
        got = await streaming.get_task(GetTaskRequest(id=asking))
        call = MessageToDict(got.status.message)["parts"][0]["data"]
        print(f"approval {call['request']['name']} {call['status']}")
        answer = {"callId": call["request"]["callId"], "outcome": "proceed_once"}
        kinds, _, _ = await read(streaming.send_message(request(data=answer, task=asking)))
        got = await streaming.get_task(GetTaskRequest(id=asking))
        print(f"approved {kinds[-1].split()[1]}: {get_message_text(got.status.message)}")

        async for answer in polling.send_message(request("count", immediate=True)):
            slow, state = answer.task.id, answer.task.status.state
        assert state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING), state
        subscription = streaming.subscribe(SubscribeToTaskRequest(id=slow))
        first = await anext(subscription)
        assert first.task.id == slow, first
        cancelled = await streaming.cancel_task(CancelTaskRequest(id=slow))
        assert cancelled.id == slow, cancelled
        over = (TaskState.TASK_STATE_CANCELED,)
        kinds, _, _ = await read(subscription, over)
        print(f"cancelled {kinds[-1]}")
        rest = [describe(event) async for event in subscription]
        assert not rest, rest

        card = await streaming.get_extended_agent_card(GetExtendedAgentCardRequest())
        print(f"extended card {card.name}")

        nothing = "00000000-0000-4000-8000-000000000000"
        await refused("unknown task", lambda: streaming.get_task(GetTaskRequest(id=nothing)))
        await refused("unknown cancel", lambda: streaming.cancel_task(CancelTaskRequest(id=nothing)))
        await refused("second cancel", lambda: streaming.cancel_task(CancelTaskRequest(id=slow)))
        await refused("message to a task that is over", lambda: streaming.send_message(request("more", task=slow)))
        await refused("subscription to it", lambda: streaming.subscribe(SubscribeToTaskRequest(id=slow)))
        push = GetTaskPushNotificationConfigRequest(task_id=task, id="x")
        await refused("push", lambda: streaming.get_task_push_notification_config(push))
        if version == "1.0":
            await refused("page of 101", lambda: streaming.list_tasks(ListTasksRequest(page_size=101)))


asyncio.run(main(*sys.argv[1:]))
