"""Prints a software bill of materials (CycloneDX 1.6) of the program, from Cargo.lock and the crates' manifests."""

import argparse
import json
import os
import subprocess
import time
import uuid


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    version = parser.parse_args().version
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    checksums = locked_checksums()

    def needed(identity):
        """Dependencies of the built program; those of tests and of build scripts are not part of it."""
        for dependency in nodes[identity]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                yield dependency["pkg"]

    root = next(identity for identity, package in packages.items() if package["name"] == "pollux-cli")
    seen, waiting = {root}, [root]
    while waiting:
        for dependency in needed(waiting.pop()):
            if dependency not in seen:
                seen.add(dependency)
                waiting.append(dependency)

    components, dependencies = [], []
    for identity in sorted(seen, key=lambda one: purl(packages[one])):
        package = packages[identity]
        dependencies.append({"ref": purl(package), "dependsOn": sorted(purl(packages[one]) for one in needed(identity))})
        if identity == root:
            continue
        component = {
            "type": "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(package),
        }
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = checksums.get((package["name"], package["version"]))
        if checksum:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "timestamp": moment,
            "component": {
                "type": "application",
                "bom-ref": purl(packages[root]),
                "name": "pollux",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }
    print(json.dumps(document, indent=1))


def locked_checksums():
    checksums, entry = {}, {}
    with open("Cargo.lock", encoding="utf-8") as lock:
        for line in lock:
            name, _, value = line.strip().partition(" = ")
            if name in ("name", "version", "checksum"):
                entry[name] = value.strip('"')
            elif line.startswith("[[package]]"):
                entry = {}
            if "checksum" in entry:
                checksums[entry["name"], entry["version"]] = entry["checksum"]
    return checksums


if __name__ == "__main__":
    main()
