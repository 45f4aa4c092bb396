"""Where the trials of a search run, and on which samples."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.bench.contender import Contender, save_outputs
from edgeopt.bench.host import TrialHost
from edgeopt.bench.messages import Load
from edgeopt.bench.trial import read_outputs
from edgeopt.search.outcome import RuntimeOptions


@dataclass(frozen=True, slots=True)
class Ground:
    host: TrialHost
    folder: Path
    samples_path: Path

    def load(self, backend: str, path: Path, options: RuntimeOptions | None = None, batch: int = 1) -> Load:
        """What a trial is asked to load, with the samples that all of them run."""
        return Load(backend, self.host.put(path), options or {}, self.host.put(self.samples_path), batch=batch)


def outputs_of(
    folder: Path, contender: Contender, first: int, count: int, batch: int | None = None
) -> list[dict[str, Array]]:
    """A contender's outputs on some of the samples, one dict a sample; in its own batches, or others."""
    file, size = folder / "outputs.npz", contender.batch if batch is None else batch
    save_outputs(contender, first, count, str(file), contender.patience_s(count), size)
    return read_outputs(file)
