# Sourced by scripts that install Python packages for tests below target/. Does nothing about those that are there.
# Where python3 is missing or nothing can be downloaded it says so and leaves the tests to be skipped.

# install FOLDER WHAT PACKAGE…
install() {
  local folder=target/$1 what=$2
  shift 2
  [ -e "$folder/installed" ] && return
  local log=$folder/pip.log why=
  mkdir -p "$folder"
  if ! command -v python3 >/dev/null; then
    why="python3 is missing"
  elif ! python3 -m venv "$folder/python" >"$log" 2>&1; then
    why="python3 has no venv"
  elif ! "$folder/python/bin/pip" install --quiet "$@" >>"$log" 2>&1; then
    why="pip failed (see $log)"
  fi
  if [ -n "$why" ]; then
    echo "$what is not installed: $why; its tests are skipped" >&2
    return
  fi
  touch "$folder/installed"
  echo "$what is installed in $folder"
}
