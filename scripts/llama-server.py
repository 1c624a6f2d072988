"""llama.cpp's server under its own name and with its own arguments, from the Python package xllamacpp.

scripts/local-model.sh installs this as bin/llama-server, for machines without llama.cpp."""

import argparse
import os
import signal

# A server that is told to stop has nothing to save.
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)

parser = argparse.ArgumentParser(prog="llama-server")
parser.add_argument("-m", "--model", required=True)
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8080)
parser.add_argument("-c", "--ctx-size", type=int, default=4096)
parser.add_argument("-t", "--threads", type=int)
parser.add_argument("--api-key", default=os.environ.get("LLAMA_API_KEY"))
parser.add_argument("--chat-template-file")
parser.add_argument("--jinja", action="store_true")
args = parser.parse_args()

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = args.model
params.hostnames = [args.host]
params.port = args.port
params.n_ctx = args.ctx_size
params.n_parallel = 1
params.use_jinja = args.jinja
# More threads than free cores wait for each other.
params.cpuparams.n_threads = args.threads or max(1, (os.cpu_count() or 1) // 2)
if args.api_key:
    params.api_keys = [args.api_key]
if args.chat_template_file:
    with open(args.chat_template_file, encoding="utf-8") as template:
        params.chat_template = template.read()
server = xllamacpp.Server(params)
print(f"main: server is listening on {server.listening_address}", flush=True)
signal.pause()
