#!/usr/bin/env bash
# Runs the mandatory and the capability tests of the A2A compatibility kit against `pollux a2a serve` with a scripted
# model. Fails if a test fails that crates/cli/tests/a2a/tck-expected.txt does not name.
#
# usage: scripts/a2a-tck.sh [CHECKOUT [PROGRAM]]
#
# CHECKOUT is a copy of https://github.com/a2aproject/a2a-tck, which is not published as a package; without it, the folder
# that A2A_TCK names. PROGRAM is the `pollux` to test; without it, the newest build below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "skipped: the A2A compatibility kit did not run: $*" >&2
  exit 0
}

kit=${1:-${A2A_TCK:-}}
[ -n "$kit" ] || skip "pass the path of a checkout, or set A2A_TCK"
[ -d "$kit/tests/mandatory" ] || skip "no tests in $kit"
kit=$(realpath "$kit")
target=${CARGO_TARGET_DIR:-target}
program=${2:-$(ls -t "$target"/release/pollux "$target"/debug/pollux 2>/dev/null | head -n 1 || true)}
[ -x "$program" ] || skip "pollux is not built"
program=$(realpath "$program")

. scripts/python-install.sh
install a2a-tck "the packages of the A2A compatibility kit" pytest pytest-asyncio pytest-json-report pytest-html \
  aiohttp httpx requests responses deepdiff jsonschema PyYAML python-dotenv grpcio grpcio-status pyOpenSSL
[ -e target/a2a-tck/installed ] || skip "its packages are missing"
python=$PWD/target/a2a-tck/python/bin/python
expected=$PWD/crates/cli/tests/a2a/tck-expected.txt

place=$(mktemp -d)
processes=()
stop() {
  for process in "${processes[@]}"; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  rm -rf "$place"
}
trap stop EXIT

# wait_for FILE TEXT
wait_for() {
  for _ in $(seq 600); do
    grep -q "$2" "$1" 2>/dev/null && return
    sleep 0.2
  done
  cat "$1" >&2
  exit 1
}

# An answer takes 2 s, so that the kit finds tasks at work.
"$python" - >"$place/model.log" <<'PYTHON' &
import http.server, json, time


class Model(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(2)
        content = {"role": "model", "parts": [{"text": "Hello."}]}
        text = json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}]})
        is_stream = "streamGenerateContent" in self.path
        body = (f"data: {text}\n\n" if is_stream else text).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print("port", server.server_address[1], flush=True)
server.serve_forever()
PYTHON
processes+=($!)
wait_for "$place/model.log" port
read -r _ model_port <"$place/model.log"

mkdir -p "$place/home"
env -i PATH="$PATH" HOME="$place/home" GEMINI_API_KEY=unused GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$model_port" \
  "$program" --model gemini-2.5-flash --sandbox=false a2a serve --workspace-root "$place/workspaces" \
  >"$place/server.log" 2>&1 &
processes+=($!)
wait_for "$place/server.log" "Agent Server started on"
url=$(sed -n 's/.*Agent Server started on //p' "$place/server.log")
token=$(cut -d' ' -f2 "$place/home/.gemini/a2a-server-token")

(
  cd "$kit"
  A2A_AUTH_TYPE=bearer A2A_AUTH_TOKEN=$token PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest tests/mandatory tests/optional/capabilities --sut-url="$url" --test-scope=all \
    --transports=jsonrpc -p no:cacheprovider -q --tb=short -rfE
) >"$place/kit.log" 2>&1 || true
if ! grep -qE '^(=+ )?[0-9]+ (passed|failed).* in ' "$place/kit.log"; then
  cat "$place/kit.log" >&2
  echo "the kit did not run to its end" >&2
  exit 1
fi
sed -nE 's/^(FAILED|ERROR) ([^ ]+).*/\2/p' "$place/kit.log" | sort -u >"$place/failed"
grep -v '^#' "$expected" | grep . | sort -u >"$place/expected"
comm -13 "$place/failed" "$place/expected" | sed 's/^/passes, although it is expected to fail: /'
tail -n 1 "$place/kit.log"
unexpected=$(comm -23 "$place/failed" "$place/expected")
if [ -n "$unexpected" ]; then
  cat "$place/kit.log" >&2
  printf 'fails unexpectedly: %s\n' $unexpected >&2
  exit 1
fi
echo "every failure is expected: $(wc -l <"$place/failed") of $(wc -l <"$place/expected")"
