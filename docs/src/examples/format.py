"""An AfterTool hook: removes spaces at the ends of lines. A real one would call a formatter here."""
import json, pathlib, sys

file = pathlib.Path(json.load(sys.stdin)["tool_input"]["file_path"])
before = file.read_text()
after = "".join(line.rstrip() + "\n" for line in before.splitlines())
if after != before:
    file.write_text(after)
    news = f"{file} was formatted. Read it again before you edit it."
    print(json.dumps({"hookSpecificOutput": {"additionalContext": news}}))
