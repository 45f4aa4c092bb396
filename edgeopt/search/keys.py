"""All that an outcome or a variant depends on, as one digest: another of anything is another key."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import msgspec

from edgeopt.errors import EdgeoptError, flag_of
from edgeopt.hw.device import Device, fingerprint
from edgeopt.profiles.targets import profile_for
from edgeopt.search.cache.digests import (
    code_digest,
    file_digest,
    key_of,
    settings_of_libraries,
    tree_digest,
    versions,
)
from edgeopt.search.making.messages import Make
from edgeopt.search.settings import Settings

# What rewrites and quantizes models; the device's fingerprint includes the runtimes too.
_LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "openvino", "nncf", "scipy", "sympy")
# Where the bundle goes and in which form does not change it; a profile and a goal go in by what they say.
_NOT_ASKED = frozenset({"out", "single_file", "fresh", "pick", "profile", "floor", "metric", "max_drop"})
NAME = "the name of the model file"
MODEL = flag_of("model")
# Options that name a file: their content is what counts.
_FILES = {
    MODEL: "the content of the model",
    **{flag_of(name): f"the content of {flag_of(name)}" for name in ("data", "baseline", "pre", "post")},
}
_PATHS = frozenset({"source_path", "base_path", "out_path", "samples_path"})


# Parts of a device's fingerprint that need another word here.
_DEVICE = {"host": "system", "limits": "CPU and memory limits", "runtimes": "installed runtimes"}
# Longer values are compared by digest: nobody reads them in a sentence.
_READABLE = 40


class _Common(TypedDict):
    edgeopt: str
    libraries: dict[str, str]
    environment: dict[str, str]
    device: dict[str, str]


@dataclass(slots=True)
class Keys:
    """The keys of one search."""

    device: Device
    common: _Common = field(init=False)
    """What everything depends on."""
    _digests: dict[Path, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.common = {
            "edgeopt": code_digest(),
            "libraries": versions(_LIBRARIES),
            "environment": settings_of_libraries(),
            "device": fingerprint(self.device),
        }

    def of_outcome(self, settings: Settings) -> str | None:
        """None for a metric of the user's own, and for files that cannot be read, which the search says."""
        parts = self.parts(settings)
        return None if parts is None else key_of(parts)

    def parts(self, settings: Settings) -> dict[str, str] | None:
        """What the key of an outcome is made of, by what people call it; long values as digests."""
        goal = settings.goal
        if is_own(goal.metric):
            return None
        profile = profile_for(self.device, settings.target, settings.profile)
        asked = {name: value for name, value in msgspec.structs.asdict(settings).items() if name not in _NOT_ASKED}
        try:
            content = {name: _content(v) if isinstance(v, Path) else v for name, v in asked.items()}
        except (OSError, EdgeoptError):
            return None
        # Only pictures are read with it.
        readers = versions(("pillow",)) if settings.data is not None and settings.data.is_dir() else {}
        found = {
            NAME: settings.model.name,  # the bundle bears it
            "the code of edgeopt": self.common["edgeopt"],
            **self.common["libraries"],
            **readers,
            **{f"the variable {name}": value for name, value in self.common["environment"].items()},
            **{f"the {_DEVICE.get(name, name)}": value for name, value in self.common["device"].items()},
            "the target profile": profile,
            "the accuracy goal": goal,
            **{flag_of(name): value for name, value in content.items()},
        }
        return {name: _as_text(value) for name, value in found.items()}

    def of_variant(self, job: Make, limit_s: float) -> str | None:
        """None for one that was planned by a metric of the user's own.

        `limit_s` is the time limit of the whole search, which decides how much is planned.
        """
        if job.planning is not None and is_own(job.planning.goal.metric):
            return None
        asked = {name: value for name, value in msgspec.to_builtins(job).items() if name not in _PATHS}
        if job.limit_s:
            asked["limit_s"] = limit_s  # what is left just now differs from run to run
        if job.planning is not None:
            # What is left of the time just now differs from run to run.
            courses = sorted(asked["planning"]["courses"], key=repr)  # in the order of their speed just now
            asked["planning"] = {**asked["planning"], "limit_s": limit_s, "courses": courses}
        files = {
            "source": self._digest(Path(job.source_path), is_model=True),
            "base": self._digest(Path(job.base_path), is_model=True),
            "samples": self._digest(Path(job.samples_path), is_model=False),
        }
        return key_of({**self.common, "asked": asked, **files})

    def _digest(self, path: Path, is_model: bool) -> str:
        """Each is read once: the files of a search do not change."""
        if path not in self._digests:
            self._digests[path] = model_digest(path) if is_model else tree_digest(path)
        return self._digests[path]


def model_digest(path: Path) -> str:
    """The content of a model, with its external data."""
    digests = {"": file_digest(path)}
    # Without the key of external data in it, a file has none; to be sure that it has, the slow library is asked.
    if _mentions(path, b"location"):
        import onnx

        from edgeopt.graph.files.tensors import external_files

        proto = onnx.load(path, load_external_data=False)
        digests |= {file.name: file_digest(file) for file in external_files(proto, path)}
    return key_of(digests)


def is_own(metric: str) -> bool:
    """A function of the user's: edgeopt cannot know all that it reads."""
    return ":" in metric


def _as_text(value: object) -> str:
    """Short values as they are."""
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= _READABLE else key_of({"": text})


def differences(now: Mapping[str, str], then: Mapping[str, str]) -> list[str]:
    """What changed between the parts of two keys, in words."""
    return [
        _difference(name, now.get(name), then.get(name))
        for name in {**now, **then}
        if now.get(name) != then.get(name)
    ]


def _difference(name: str, now: str | None, then: str | None) -> str:
    if now is None or then is None:
        return f"{name} (only {'then' if now is None else 'now'})"
    readable = max(len(now), len(then)) <= _READABLE
    if name in _FILES:
        return _FILES[name]
    return f"{name} ({_plain(then)} then, {_plain(now)} now)" if readable else name


def _plain(text: str) -> str:
    return {"null": "not given", "": "not given", "[]": "not given", "true": "on", "false": "off"}.get(text, text)


def _content(path: Path) -> str:
    if path.suffix == ".xml":  # an OpenVINO model, whose weights lie beside it
        weights = path.with_suffix(".bin")
        return key_of({file.suffix: file_digest(file) for file in (path, weights) if file.is_file()})
    return model_digest(path) if path.suffix == ".onnx" else tree_digest(path)


def _mentions(path: Path, word: bytes) -> bool:
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(word) >= 0
