"""The software bill of materials, against what CycloneDX 1.6 requires."""

import hashlib
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "sbom.py"
METADATA = {
    "edgeopt": "Requires-Dist: NumPy>=2\nRequires-Dist: rich; extra == 'pretty'\nProvides-Extra: pretty\n",
    "numpy": "License-Expression: BSD-3-Clause\n",
    "rich": "License-Expression: MIT\n",
    "zed": "License: a licence that nobody read\n",
}


def write(artifact, *options, epoch="0"):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(artifact), *map(str, options)],
        capture_output=True,
        text=True,
        check=True,
        env={"SOURCE_DATE_EPOCH": epoch},
    )
    return json.loads(Path(done.stdout.strip()).read_text())


@pytest.fixture
def site(tmp_path):
    for name, more in METADATA.items():
        info = tmp_path / "site" / f"{name}-1.0+local.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0+local\n{more}")
    return tmp_path / "site"


@pytest.fixture
def package(tmp_path):
    package = tmp_path / "edgeopt-agent_0.1.0_arm64.deb"
    package.write_bytes(b"contents")
    return package


@pytest.fixture
def wheel(tmp_path):
    wheel = tmp_path / "edgeopt-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"contents")
    return wheel


def assert_valid(document):
    """The required fields and formats of the schema for version 1.6, and references that lead somewhere."""
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", document["serialNumber"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["metadata"]["timestamp"])
    everything = [document["metadata"]["component"], *document["components"]]
    for component in everything:
        assert component["type"] in {"application", "library"}
        assert component["name"]
        assert component["version"]
        assert component["purl"].startswith(("pkg:pypi/", "pkg:deb/"))
        for each in component.get("hashes", ()):
            assert each["alg"] == "SHA-256"
            assert re.fullmatch("[0-9a-f]{64}", each["content"])
        for each in component.get("licenses", ()):
            assert set(each) == {"expression"}
    references = [component["bom-ref"] for component in everything]
    assert len(set(references)) == len(references)
    linked = [link["ref"] for link in document["dependencies"]]
    linked += [other for link in document["dependencies"] for other in link["dependsOn"]]
    assert set(linked) <= set(references)


def test_the_sbom_of_a_package_lists_what_is_in_it(site, package):
    document = write(package, "--site", site)
    assert_valid(document)
    subject = document["metadata"]["component"]
    assert subject["purl"] == "pkg:deb/edgeopt/edgeopt-agent@0.1.0?arch=arm64"
    assert subject["hashes"][0]["content"] == hashlib.sha256(b"contents").hexdigest()
    assert [each["name"] for each in document["components"]] == ["edgeopt", "numpy", "rich", "zed"]
    assert document["components"][1] == {
        "type": "library",
        "bom-ref": "pkg:pypi/numpy@1.0%2Blocal",
        "name": "numpy",
        "version": "1.0+local",
        "licenses": [{"expression": "BSD-3-Clause"}],
        "purl": "pkg:pypi/numpy@1.0%2Blocal",
    }
    assert "licenses" not in document["components"][3]


def test_dependencies_are_followed_through_extras(site, package):
    links = {link["ref"]: link["dependsOn"] for link in write(package, "--site", site)["dependencies"]}
    assert links["pkg:pypi/edgeopt@1.0%2Blocal"] == ["pkg:pypi/numpy@1.0%2Blocal", "pkg:pypi/rich@1.0%2Blocal"]
    assert links["pkg:deb/edgeopt/edgeopt-agent@0.1.0?arch=arm64"] == ["pkg:pypi/edgeopt@1.0%2Blocal"]


def test_a_report_of_pip_gives_the_hashes_of_wheels(site, package, tmp_path):
    digest = "ab" * 32
    report = [
        {
            "metadata": {"name": "NumPy", "version": "1.0+local"},
            "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
        },
        {"metadata": {"name": "rich", "version": "1.0+local"}, "download_info": {"dir_info": {}}},
    ]
    (tmp_path / "report.json").write_text(json.dumps({"install": report}))
    document = write(package, "--site", site, "--report", tmp_path / "report.json")
    hashes = {each["name"]: each["hashes"] for each in document["components"] if "hashes" in each}
    assert hashes == {"numpy": [{"alg": "SHA-256", "content": digest}]}


def test_the_same_package_gives_the_same_bytes(site, package):
    first = write(package, "--site", site, epoch="1700000000")
    assert first == write(package, "--site", site, epoch="1700000000")
    assert first["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    package.write_bytes(b"other contents")
    assert write(package, "--site", site)["serialNumber"] != first["serialNumber"]


def test_the_sbom_of_the_wheel_lists_what_its_extras_bring_here(wheel):
    document = write(wheel)
    assert_valid(document)
    versions = {each["name"]: each["version"] for each in document["components"]}
    assert versions["onnxruntime"] == metadata.version("onnxruntime")
    assert {"openvino", "pyside6-essentials", "uvicorn", "h11"} <= set(versions)
    assert "edgeopt" not in versions
    assert {"pytest", "mypy"} & set(versions) == set()


def test_an_artifact_that_is_missing_is_a_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "no.deb")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "make deb" in done.stderr
