"""Drives the program with the public Python SDK of Claude Code: python claude_sdk.py PROGRAM FOLDER REPLIES SCENARIO.

Prints a line for everything that the test looks at.
"""

import asyncio
import sys

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

program, folder, replies, scenario = sys.argv[1:]


def options(**more):
    extra = {"fake-responses": replies, **more.pop("extra_args", {})}
    return ClaudeAgentOptions(cli_path=program, cwd=folder, model="gemini-2.5-flash", extra_args=extra, **more)


def show(message):
    if isinstance(message, SystemMessage) and message.subtype == "init":
        print("init", message.data["session_id"], message.data["permissionMode"], sorted(message.data["tools"]))
    elif isinstance(message, AssistantMessage):
        for block in message.content:
            if isinstance(block, TextBlock):
                print("text", block.text)
            elif isinstance(block, ToolUseBlock):
                print("use", block.name, block.input)
    elif isinstance(message, UserMessage):
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                print("tool_result", block.is_error, block.content)
    elif isinstance(message, StreamEvent) and message.event.get("delta", {}).get("type") == "text_delta":
        print("delta", message.event["delta"]["text"])
    elif isinstance(message, ResultMessage):
        print("result", message.subtype, message.is_error, message.num_turns, message.result)
        print("usage", message.usage["output_tokens"], message.total_cost_usd, len(message.permission_denials))
        print("session", message.session_id)


async def one_shot():
    async for message in query(prompt="hello", options=options(include_partial_messages=True)):
        show(message)


async def follow_ups():
    async with ClaudeSDKClient(options()) as client:
        info = await client.get_server_info()
        print("commands", len(info["commands"]) > 0)
        for prompt in ["first", "second"]:
            await client.query(prompt)
            async for message in client.receive_response():
                show(message)
        usage = await client.get_context_usage()
        print("context", usage["totalTokens"] > 0, usage["model"])
        await client.set_permission_mode("acceptEdits")
        await client.set_model("gemini-2.5-pro")
        print("servers", await client.get_mcp_status())


async def approvals():
    async def decide(name, arguments, context):
        print("asked", name, sorted(arguments), bool(context.tool_use_id), len(context.suggestions) > 0)
        if name == "write_file":
            return PermissionResultAllow(updated_input={**arguments, "content": "changed\n"})
        return PermissionResultDeny(message="not today")

    async with ClaudeSDKClient(options(can_use_tool=decide)) as client:
        await client.query("write it, then remove it")
        async for message in client.receive_response():
            show(message)


async def interrupt():
    async with ClaudeSDKClient(options(allowed_tools=["Bash"])) as client:
        await client.query("sleep")
        async for message in client.receive_response():
            show(message)
            if isinstance(message, AssistantMessage):
                await asyncio.sleep(0.5)
                await client.interrupt()
        await client.query("still there?")
        async for message in client.receive_response():
            show(message)


async def hooks():
    async def guard(given, call, context):
        print("hook", given["hook_event_name"], given["tool_name"], given["tool_use_id"] == call)
        return {"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "guarded"}}

    async def watch(given, call, context):
        print("hook", given["hook_event_name"], given.get("prompt", ""))
        return {}

    registered = {
        "PreToolUse": [HookMatcher(matcher="Write", hooks=[guard])],
        "UserPromptSubmit": [HookMatcher(hooks=[watch])],
        "Stop": [HookMatcher(hooks=[watch])],
    }
    async for message in query(prompt="write it", options=options(permission_mode="bypassPermissions", hooks=registered)):
        show(message)


async def servers():
    @tool("add", "Adds two numbers", {"a": float, "b": float})
    async def add(arguments):
        return {"content": [{"type": "text", "text": f"sum {arguments['a'] + arguments['b']}"}]}

    calculator = create_sdk_mcp_server("calc", tools=[add])
    chosen = options(mcp_servers={"calc": calculator}, allowed_tools=["mcp__calc__add"])
    async for message in query(prompt="add", options=chosen):
        show(message)


async def resume():
    session = None
    async for message in query(prompt="remember 7", options=options()):
        show(message)
        if isinstance(message, ResultMessage):
            session = message.session_id
    async for message in query(prompt="which number?", options=options(resume=session, extra_args={"fake-responses": replies + ".2"})):
        show(message)


asyncio.run(globals()[scenario]())
