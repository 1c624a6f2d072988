#!/usr/bin/env bash
# Runs the topology of compose.yaml as plain processes of this machine: an S3 server, two replicas of `pollux a2a serve`
# and one port in front of them. Gives a task to the first replica, continues it at the second, and stops everything.
# Exits with 0 only if the second replica had the files and the history of the first.
#
# usage: deploy/run-local.sh [PROGRAM]
#
# PROGRAM is the `pollux` to run; without it, the newest build below target/ or the one on PATH. The model is a script, so
# no key and no network is needed. The S3 server comes from scripts/object-stores.sh. KEEP=1 keeps logs and data.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "run-local: $*" >&2
  exit 1
}

newest=$(ls -t target/release/pollux target/debug/pollux 2>/dev/null | head -n 1 || true)
program=${1:-${newest:-$(command -v pollux || true)}}
[ -x "$program" ] || fail "pollux not found: build it with \`cargo build --release\`, or pass its path"
program=$(realpath "$program")
[ -e target/s3-server/installed ] || scripts/object-stores.sh >/dev/null 2>&1 || true
moto=target/s3-server/python/bin/moto_server
[ -e target/s3-server/installed ] || fail "no S3 server: scripts/object-stores.sh could not install it"

place=$(mktemp -d)
processes=()
stop() {
  # The replicas first: they store their tasks when they end.
  for ((index = ${#processes[@]} - 1; index >= 0; index--)); do
    kill "${processes[index]}" 2>/dev/null || true
    wait "${processes[index]}" 2>/dev/null || true
  done
  if [ -n "${KEEP:-}" ]; then echo "run-local: logs and data are in $place"; else rm -rf "$place"; fi
}
trap stop EXIT

free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(it.getsockname()[1] for it in sockets))
PYTHON
}

# wait_for LOG TEXT
wait_for() {
  for _ in $(seq 600); do
    grep -q "$2" "$1" 2>/dev/null && return
    sleep 0.2
  done
  cat "$1" >&2
  fail "no \`$2\` in $(basename "$1")"
}

read -r store_port a_port b_port front_port <<<"$(free_ports 4)"

"$moto" -H 127.0.0.1 -p "$store_port" >"$place/store.log" 2>&1 &
processes+=($!)
wait_for "$place/store.log" "Running on"

reply() {
  printf '{"method":"generateContentStream","response":[{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP"}]}]}\n' "$1"
}
shell() { reply "{\"functionCall\":{\"name\":\"run_shell_command\",\"args\":{\"command\":\"$1\"}}}"; }
text() { reply "{\"text\":\"$1\"}"; }
{ shell "echo from the first > note.txt" && text "written"; } >"$place/a.jsonl"
{ shell "cat note.txt" && text "read"; } >"$place/b.jsonl"

token=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
store="s3://pollux-tasks/local?endpoint=http://127.0.0.1:$store_port&region=us-east-1&path-style=true"
# replica NAME PORT
replica() {
  mkdir -p "$place/$1-home" "$place/$1-workspaces"
  env -i PATH="$PATH" HOME="$place/$1-home" POLLUX_A2A_TOKEN="$token" GEMINI_API_KEY=unused \
    AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_EC2_METADATA_DISABLED=true \
    "$program" --model gemini-2.5-flash --fake-responses "$place/$1.jsonl" a2a serve --port "$2" --store "$store" \
    --workspace-root "$place/$1-workspaces" --replica-id "$1" --public-url "http://localhost:$front_port" \
    >"$place/$1.log" 2>&1 &
  processes+=($!)
}
replica a "$a_port"
replica b "$b_port"
wait_for "$place/a.log" "Agent Server started"
wait_for "$place/b.log" "Agent Server started"

python3 deploy/round-robin.py "$front_port" "$a_port" "$b_port" >"$place/front.log" 2>&1 &
processes+=($!)
wait_for "$place/front.log" ready

TOKEN=$token python3 - "$place" "$a_port" "$b_port" "$front_port" <<'PYTHON'
import json, os, pathlib, sys, urllib.request, uuid

place, *ports = sys.argv[1:]
a, b, front = (f"http://127.0.0.1:{port}" for port in ports)


def request(url, body=None):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=300) as answer:
        return answer.read().decode()


def turns(replica):
    lines = request(f"{replica}/metrics").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("pollux_a2a_turns_total "))


def send(text, **ids):
    """Sends a message through the common port; gives the task and the replica that ran it."""
    settings = {"coderAgent": {"kind": "agent-settings", "autoExecute": True}}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], "metadata": settings}
    before = turns(a), turns(b)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message | ids}}
    answer = json.loads(request(f"{front}/", body))
    assert "result" in answer, answer
    by = [name for name, replica, count in (("a", a, before[0]), ("b", b, before[1])) if turns(replica) > count]
    task = answer["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task["status"]
    print(f"run-local: replica {by} answered: {task['status']['message']['parts'][0]['text']}")
    return task, by


for replica in (a, b):
    assert request(f"{replica}/healthz") == "ok\n" and request(f"{replica}/readyz") == "ready\n"
task, by = send("write a note")
assert by == ["a"], by
task, by = send("read the note", taskId=task["id"])
assert by == ["b"], by
assert task["status"]["message"]["parts"][0]["text"] == "read", task["status"]
assert (pathlib.Path(place) / "b-workspaces/default" / task["id"] / "note.txt").read_text() == "from the first\n"
assert [it["role"] for it in task["history"]] == ["ROLE_USER", "ROLE_AGENT"] * 2, task["history"]
PYTHON
echo "run-local: the task went from one replica to the other"
