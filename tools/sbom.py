#!/usr/bin/env python3
"""Writes what is inside of etrace as an SPDX 2.3 document: the parts that NOTICE names, with the versions of this build.

    tools/sbom.py --root DIR --out FILE --version V NAME=VERSION...

The same commit gives the same bytes: the time is that of the commit (or SOURCE_DATE_EPOCH).
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

PART = re.compile(r"^--- (\S+)\nlicence: (.+)\nhome: (\S+)\ninside: (.+)\n((?:\S.*\n)+)", re.M)


def when(root):
    """Of the commit, else of no time at all: no two builds of the same files differ."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds is None:
        done = subprocess.run(["git", "-C", root, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
        seconds = done.stdout.strip() or "0"
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def package(name, version, licence, home, copyright_text, purpose):
    entry = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "downloadLocation": home,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": copyright_text,
        "primaryPackagePurpose": purpose,
    }
    return {**entry, "versionInfo": version} if version else entry


def document(root, version, versions):
    notice = (root / "NOTICE").read_text("utf-8")
    own = package("etrace", version, "Apache-2.0", "NOASSERTION", notice.splitlines()[1], "LIBRARY")
    parts = []
    for name, licence, home, inside, text in PART.findall(notice):
        purpose = "FILE" if name == "digits" else "LIBRARY"
        parts.append({**package(name, versions.pop(name, ""), licence, home, text.strip(), purpose), "comment": f"in the {inside}"})
    if versions:
        raise SystemExit(f"sbom: NOTICE does not name {', '.join(versions)}")
    out = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"etrace-{version}",
        "creationInfo": {"created": when(root), "creators": ["Tool: etrace-sbom"]},
        "documentDescribes": [own["SPDXID"]],
        "packages": [own, *parts],
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
        + [{"spdxElementId": own["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": p["SPDXID"]} for p in parts],
    }
    sha = hashlib.sha256(json.dumps(out, sort_keys=True).encode()).hexdigest()
    return {**out, "documentNamespace": f"https://spdx.org/spdxdocs/etrace-{version}-{sha[:32]}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("versions", nargs="*", metavar="NAME=VERSION")
    args = parser.parse_args()
    versions = dict(v.split("=", 1) for v in args.versions)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document(args.root, args.version, versions), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
