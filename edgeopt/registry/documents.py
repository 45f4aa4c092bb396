"""Manifests of bundles in a registry: CNCF ModelPack, https://github.com/modelpack/model-spec."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from edgeopt.bundle.archive import unfit_name
from edgeopt.bundle.manifest import FILE, SIGNATURE, file_digest, release_id
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, printable

if TYPE_CHECKING:
    from edgeopt.bundle.read import Bundle

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ARTIFACT = "application/vnd.cncf.model.manifest.v1+json"
CONFIG = "application/vnd.cncf.model.config.v1+json"
_LAYERS = "application/vnd.cncf.model"
_RAW = "v1.raw"
FILE_PATH = "org.cncf.model.filepath"
TARGET = "dev.edgeopt.target"
"""Annotation with the target profile that a bundle was made for."""
RELEASE = "dev.edgeopt.release"
_TITLE = "org.opencontainers.image.title"
MAX_BYTES = 4 << 20
"""Maximum size of a manifest; the specification of registries names the same."""
_MAX_FILES = 100_000
_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("model/",), "weight"),
    (("golden/",), "dataset"),
    ((".html", ".md", "ledger.json", "evidence.json"), "doc"),
)
"""Kinds of layers by the beginning or end of a file's path; all others configure the model."""

_Document = TypeVar("_Document", bound=msgspec.Struct)


class Platform(msgspec.Struct, frozen=True, omit_defaults=True):
    """Platform in the names of Go, as OCI has it: `linux`, `arm64`."""

    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = {}
    artifact_type: str = ""
    platform: Platform | None = None


class OciManifest(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    schema_version: int
    media_type: str = ""
    artifact_type: str = ""
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] = ()
    annotations: dict[str, str] = {}


class OciIndex(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    schema_version: int
    media_type: str = ""
    artifact_type: str = ""
    manifests: tuple[Descriptor, ...] = ()


class FileLayer(msgspec.Struct, frozen=True):
    """One file of a bundle in a registry."""

    path: str
    digest: str
    size_bytes: int


def bundle_layers(bundle: "Bundle") -> tuple[Descriptor, ...]:
    """Returns a layer for each file of a checked bundle, by its path."""
    listed = msgspec.json.decode((bundle.folder / FILE).read_bytes())["files"]
    found = {name: (f"sha256:{entry['sha256']}", entry["size_bytes"]) for name, entry in listed.items()}
    for name in (FILE, SIGNATURE):
        path = bundle.folder / name
        if path.is_file():
            found[name] = (f"sha256:{file_digest(path)}", path.stat().st_size)
    return tuple(
        Descriptor(_media_type(name), digest, size, {FILE_PATH: name, _TITLE: name})
        for name, (digest, size) in sorted(found.items())
    )


def bundle_config(bundle: "Bundle", layers: tuple[Descriptor, ...]) -> bytes:
    """Returns the ModelPack description of a bundle; it has no time of its own, so the same bundle is the same."""
    deployment = bundle.deployment
    suffix = Path(deployment.run.model).suffix.lstrip(".")
    document = {
        "descriptor": {
            "createdAt": deployment.created,
            "name": deployment.name,
            "description": deployment.summary,
            "version": release_id(bundle.folder),
        },
        "modelfs": {"type": "layers", "diffIds": [layer.digest for layer in layers]},
        "config": {"format": suffix},
    }
    return msgspec.json.encode(document)


def bundle_manifest(bundle: "Bundle", config: Descriptor, layers: tuple[Descriptor, ...]) -> bytes:
    return msgspec.json.encode(
        OciManifest(
            schema_version=2,
            media_type=MANIFEST,
            artifact_type=ARTIFACT,
            config=config,
            layers=layers,
            annotations=bundle_annotations(bundle),
        )
    )


def bundle_annotations(bundle: "Bundle") -> dict[str, str]:
    deployment = bundle.deployment
    return {_TITLE: deployment.name, TARGET: deployment.target, RELEASE: release_id(bundle.folder)}


def read_layers(content: bytes, called: str, entry: Descriptor | None = None) -> tuple[FileLayer, ...]:
    """Returns the files that a manifest lists; raises BundleError for what is not a bundle in plain files.

    With its entry in an index, raises BundleError also for another bundle than the one that the entry describes.
    """
    found = decode(content, OciManifest, called)
    if entry is not None and any(
        found.annotations.get(each) != entry.annotations.get(each) for each in (TARGET, RELEASE)
    ):
        raise BundleError(
            f"{called} is not sound: its entry for '{printable(entry.annotations.get(TARGET, ''))[:80]}' leads to "
            "another bundle.",
            "Push the bundles again from their sources.",
        )
    if found.artifact_type != ARTIFACT or len(found.layers) > _MAX_FILES:
        raise BundleError(
            f"{called} is not a bundle: its type is '{printable(found.artifact_type or found.media_type)[:80]}'.",
            "Push the bundle with: edgeopt push BUNDLE oci://HOST/REPOSITORY:TAG",
        )
    layers = [FileLayer(_path(each, called), each.digest, each.size) for each in found.layers]
    names = [each.path for each in layers]
    if FILE not in names or len(set(names)) < len(names):
        what = "names a file twice" if FILE in names else f"has no {FILE}"
        raise BundleError(f"{called} is not a bundle: it {what}.", "Push the bundle again.")
    return tuple(layers)


def _path(layer: Descriptor, called: str) -> str:
    path = layer.annotations.get(FILE_PATH, "")
    sound = layer.media_type.startswith(_LAYERS) and layer.media_type.endswith(_RAW) and layer.size >= 0
    if not sound or not is_sha256(layer.digest) or not path or unfit_name(path):
        raise BundleError(
            f"{called} has a layer that is not one plain file of a bundle: '{printable(path)[:80]}', "
            f"{printable(layer.media_type)[:80]}.",
            "Push the bundle with: edgeopt push BUNDLE oci://HOST/REPOSITORY:TAG",
        )
    return path


def is_sha256(digest: str) -> bool:
    kind, _, digits = digest.partition(":")
    return kind == "sha256" and len(digits) == 64 and set(digits) <= set("0123456789abcdef")


def decode(content: bytes, kind: type[_Document], called: str) -> _Document:
    """Reads a document of a registry; raises BundleError where it is another one."""
    try:
        return msgspec.json.decode(content, type=thread_safe(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{called} is not a bundle: {error}.", "Check the address.") from None


def _media_type(path: str) -> str:
    kind = next((kind for ends, kind in _KINDS if path.startswith(ends) or path.endswith(ends)), "weight.config")
    return f"{_LAYERS}.{kind}.{_RAW}"
