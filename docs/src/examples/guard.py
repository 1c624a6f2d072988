"""A BeforeTool hook: blocks edits of existing files below migrations/. The event is a JSON object on standard input."""
import json, pathlib, sys

path = pathlib.Path(json.load(sys.stdin)["tool_input"].get("file_path", ""))
if "migrations" in path.parts and path.exists():
    print(f"Migrations are final: add a new file instead of {path}.", file=sys.stderr)
    sys.exit(2)
