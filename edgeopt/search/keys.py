"""All that an outcome or a variant depends on, as one digest: another of anything is another key."""

import mmap
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from edgeopt.errors import EdgeoptError
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
_LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "openvino", "nncf", "sympy", "pillow")
# Where the bundle goes and in which form does not change it; a profile and a goal go in by what they say.
_NOT_ASKED = frozenset({"out", "single_file", "fresh", "pick", "profile", "floor", "metric", "max_drop"})
_PATHS = frozenset({"source_path", "base_path", "out_path", "samples_path"})


@dataclass(slots=True)
class Keys:
    """The keys of one search."""

    device: Device
    common: dict[str, object] = field(init=False)
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
        goal = settings.goal
        if _is_own(goal.metric):
            return None
        profile = profile_for(self.device, settings.target, settings.profile)
        asked = {name: value for name, value in msgspec.structs.asdict(settings).items() if name not in _NOT_ASKED}
        asked["goal"] = goal
        try:
            content = {name: _content(v) if isinstance(v, Path) else v for name, v in asked.items()}
        except (OSError, EdgeoptError):
            return None
        # The bundle bears the model's name.
        return key_of({**self.common, "asked": content, "name": settings.model.name, "profile": profile})

    def of_variant(self, job: Make, limit_s: float) -> str | None:
        """None for one that was planned by a metric of the user's own.

        `limit_s` is the time limit of the whole search, which decides how much is planned.
        """
        if job.planning is not None and _is_own(job.planning.goal.metric):
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

        from edgeopt.graph.files.external import external_files

        proto = onnx.load(path, load_external_data=False)
        digests |= {file.name: file_digest(file) for file in external_files(proto, path)}
    return key_of(digests)


def _is_own(metric: str) -> bool:
    """A function of the user's: edgeopt cannot know all that it reads."""
    return ":" in metric


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
