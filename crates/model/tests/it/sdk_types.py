"""Validates requests and stream events against the types of the official OpenAI and Anthropic SDKs.

Reads one JSON object per line: `wire` (chat, responses, messages), `kind` (request, event) and `value`. Prints what is
wrong and exits with 1 if anything is."""

import inspect
import json
import pkgutil
import importlib
import sys

import anthropic.types
import openai.types
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

# A field that the SDKs do not know is one that a strict server refuses.
for package in (openai.types, anthropic.types):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for _, value in inspect.getmembers(importlib.import_module(module.name)):
            if is_typeddict(value):
                value.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}

TYPES = {
    ("chat", "request"): CompletionCreateParamsStreaming,
    ("responses", "request"): ResponseCreateParamsStreaming,
    ("messages", "request"): MessageCreateParamsStreaming,
    ("chat", "event"): ChatCompletionChunk,
    ("responses", "event"): ResponseStreamEvent,
    ("messages", "event"): RawMessageStreamEvent,
}
adapters = {}


def exhaust(value):
    """Iterables are validated only when they are read."""
    if isinstance(value, dict):
        return {key: exhaust(item) for key, item in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") or hasattr(value, "model_fields"):
        return value
    return [exhaust(item) for item in value]


def strict(value):
    """Models of the SDKs accept unknown fields; a stream of ours should have none."""
    unknown = []
    if hasattr(value, "model_extra"):
        unknown += [f"{type(value).__name__}.{key}" for key in (value.model_extra or {})]
        for name in type(value).model_fields:
            unknown += strict(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            unknown += strict(item)
    return unknown


count, problems = 0, []
for line in sys.stdin:
    entry = json.loads(line)
    key = (entry["wire"], entry["kind"])
    if key not in adapters:
        adapters[key] = TypeAdapter(TYPES[key])
    count += 1
    where = f"{key[0]} {key[1]} {count}"
    try:
        value = adapters[key].validate_python(entry["value"])
        if key[1] == "request":
            exhaust(value)
        else:
            problems += [f"{where}: unknown field {name}" for name in strict(value)]
    except ValidationError as error:
        details = "\n".join(f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:12])
        problems.append(f"{where}:\n{details}\n  {json.dumps(entry['value'])[:600]}")
print("\n".join(problems) if problems else f"{count} values are valid")
sys.exit(1 if problems else 0)
