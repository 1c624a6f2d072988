"""A BeforeTool hook: blocks edits below migrations/. The event is a JSON object on standard input."""
import json, pathlib, sys

path = json.load(sys.stdin)["tool_input"].get("file_path", "")
if "migrations" in pathlib.PurePath(path).parts:
    print(f"Migrations are final: add a new file instead of {path}.", file=sys.stderr)
    sys.exit(2)
