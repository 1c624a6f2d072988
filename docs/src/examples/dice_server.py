"""An MCP server over stdio with one tool, `roll`."""
import json, random, sys

TOOL = {
    "name": "roll",
    "description": "Rolls a die and returns the number.",
    "inputSchema": {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue  # A notification has no answer.
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "dice", "version": "1.0"}}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            number = random.randint(1, params["arguments"]["sides"])
            result = {"content": [{"type": "text", "text": str(number)}]}
        case _:
            result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
