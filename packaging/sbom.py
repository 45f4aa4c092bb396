"""Writes the software bill of materials (CycloneDX 1.6, JSON) of a .deb or .whl beside it.

sbom.py ARTIFACT [--site FOLDER] [--report FILE]
"""

import argparse
import hashlib
import json
import os
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from licences import installed, licence, plain
from packaging.requirements import Requirement

ROOT = "edgeopt"
Record = dict[str, object]
Distributions = Mapping[str, metadata.Distribution]


def main(arguments: list[str]) -> int:
    """Writes the file and prints its path."""
    parser = argparse.ArgumentParser(prog="sbom.py", description="Write the CycloneDX SBOM of a .deb or .whl.")
    parser.add_argument("artifact", type=Path, help="the .deb or .whl; the SBOM is written beside it")
    parser.add_argument("--site", type=Path, help="folder with its packages; this environment by default")
    parser.add_argument("--report", type=Path, help="what `pip install --report` wrote: SHA-256 of the wheels")
    given = parser.parse_args(arguments)
    if given.artifact.suffix not in {".deb", ".whl"} or not given.artifact.is_file():
        sys.stderr.write(
            f"{given.artifact} is not a .deb or .whl: build it first (make deb, or python -m build).\n"
        )
        return 1
    hashes = wheel_hashes(given.report.read_text(encoding="utf-8")) if given.report else {}
    target = given.artifact.with_suffix(".cdx.json")
    document = describe(given.artifact, distributions(given.site), hashes)
    target.write_text(f"{json.dumps(document, indent=2)}\n", encoding="utf-8")
    print(target)
    return 0


def distributions(site: Path | None) -> dict[str, metadata.Distribution]:
    """Every package of a folder, or edgeopt and what its extras bring in this environment."""
    if site is not None:
        found = {plain(each.name): each for each in metadata.distributions(path=[str(site)])}
    else:
        found = {name: metadata.distribution(name) for name in (ROOT, *installed(ROOT))}
    return dict(sorted(found.items()))


def wheel_hashes(report: str) -> dict[str, str]:
    """SHA-256 of each wheel that pip took from an index, by name and version."""
    hashes = {}
    for each in json.loads(report)["install"]:
        about = each["metadata"]
        digest = each["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest:
            hashes[f"{plain(about['name'])}=={about['version']}"] = digest
    return hashes


def describe(artifact: Path, found: Distributions, hashes: Mapping[str, str]) -> Record:
    """The document; the same artifact with the same packages has the same serial number."""
    subject = _subject(artifact)
    components = [_component(name, each, hashes) for name, each in found.items() if _purl(each) != subject["purl"]]
    links: list[Record] = [
        {"ref": _purl(found[name]), "dependsOn": sorted(_purl(found[other]) for other in others)}
        for name, others in dependencies(found).items()
    ]
    if artifact.suffix == ".deb":
        links = [{"ref": subject["bom-ref"], "dependsOn": [_purl(found[ROOT])]}, *links]
    contents = json.dumps([subject, components, links])
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    time = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, contents)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": subject,
        },
        "components": components,
        "dependencies": links,
    }


def dependencies(found: Distributions) -> dict[str, set[str]]:
    """What each package requires of the others, with the extras that were asked of it."""
    links: dict[str, set[str]] = {name: set() for name in found}
    waiting = [(ROOT, extra) for extra in ("", *(found[ROOT].metadata.get_all("Provides-Extra") or ()))]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, found[name].requires or ()):
            other = plain(requirement.name)
            if other not in found or not (
                requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            ):
                continue
            waiting += [(other, more) for more in ("", *requirement.extras)]
            if other != name:
                links[name].add(other)
    return links


def _subject(artifact: Path) -> Record:
    if artifact.suffix == ".deb":
        name, version, architecture = artifact.stem.split("_")
        purl = f"pkg:deb/edgeopt/{name}@{quote(version)}?arch={architecture}"
    else:
        name, version = artifact.stem.split("-")[:2]
        purl = f"pkg:pypi/{plain(name)}@{quote(version)}"
    return {
        "type": "application",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"expression": "Apache-2.0"}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(artifact.read_bytes()).hexdigest()}],
    }


def _component(name: str, each: metadata.Distribution, hashes: Mapping[str, str]) -> Record:
    component: Record = {"type": "library", "bom-ref": _purl(each), "name": name, "version": each.version}
    if expression := licence(name, each.metadata):
        component["licenses"] = [{"expression": expression}]
    if digest := hashes.get(f"{name}=={each.version}"):
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return {**component, "purl": _purl(each)}


def _purl(each: metadata.Distribution) -> str:
    return f"pkg:pypi/{plain(each.name)}@{quote(each.version)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
