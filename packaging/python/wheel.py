"""Packs the program into a wheel, so that `uvx pollux-cli` and `pip install pollux-cli` need no Rust.

The programs are the wheel's scripts: installing it copies them, and nothing is downloaded or run.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import time
import zipfile

PROGRAMS = {"pollux": "pollux", "pollux-cli": "pollux"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--level", type=int, default=9)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()

    base = f"pollux_cli-{options.version}"
    python, abi, platforms = options.tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    metadata = (
        "Metadata-Version: 2.1\nName: pollux-cli\n"
        f"Version: {options.version}\n"
        "Summary: Coding agent for the terminal, compatible with Gemini CLI\n"
        "License: Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        + pathlib.Path("README.md").read_text()
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: pollux\nRoot-Is-Purelib: false\n{tags}"
    files = [
        (f"{base}.dist-info/METADATA", metadata.encode(), 0o644),
        (f"{base}.dist-info/WHEEL", wheel.encode(), 0o644),
        (f"{base}.dist-info/licenses/LICENSE", pathlib.Path("LICENSE").read_bytes(), 0o644),
    ]
    for name, source in PROGRAMS.items():
        if name == source:
            content = (options.programs / source).read_bytes()
        else:
            # A second name; the program itself is too large to be packed twice.
            content = b'#!/bin/sh\nexec "$(dirname "$0")/pollux" "$@"\n'
        files.append((f"{base}.data/scripts/{name}", content, 0o755))

    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    place = options.out / f"{base}-{options.tag}.whl"
    record = []
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=options.level) as archive:
        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            archive.writestr(entry, content)

        for name, content, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            add(name, content, mode)
        record.append(f"{base}.dist-info/RECORD,,\n")
        add(f"{base}.dist-info/RECORD", "".join(record).encode(), 0o644)
    print(place)


if __name__ == "__main__":
    main()
