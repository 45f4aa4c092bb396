"""What the sides run on: the user's samples, else a bundle's golden inputs, else generated ones."""

import zlib
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path
from zipfile import BadZipFile

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.session import Place
from edgeopt.commands.bench.naming import Named
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds, save_samples
from edgeopt.errors import DataError, EdgeoptError
from edgeopt.graph.feeds import generate_feeds
from edgeopt.measure.host import LocalHost

GENERATED_SAMPLES = 16
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Inputs:
    """Samples in a folder, as trials read them, and in words where they come from."""

    folder: Path
    words: str
    tensors: tuple[TensorInfo, ...]
    generated: bool = False


def write_inputs(
    named: list[Named],
    places: list[Place | None],
    tensors: tuple[TensorInfo, ...] | None,
    data: Path | None,
    folder: Path,
) -> Inputs:
    """Writes the samples; raises DataError where none are given and none can be made up."""
    samples = folder / "samples"
    golden = next((each.path for each in named if each.kind == "bundle"), None)
    if tensors is None:
        raise DataError(
            f"Inputs for '{named[0].what}' cannot be generated: a program does not declare its inputs.",
            "Pass samples with --data, or a model with the same inputs with --against.",
        )
    given = load_data(data, tensors) if data is not None else None
    if not tensors:
        save_samples(Samples({}, {}), samples)
        return Inputs(samples, "none, the model takes no inputs", ())
    if given is not None and data is not None:
        return _saved(given, data.name, tensors, samples)
    if golden is not None:
        feeds = read_bundle(golden).golden("inputs")
        what = f"the golden inputs of {golden.name}"
        return _saved(check_samples(from_feeds(feeds), tensors, what), what, tensors, samples)
    count = _count(tensors)
    _generate(named, places, tensors, samples, folder, count)
    words = f"{count} generated sample{'s' if count != 1 else ''}"
    return Inputs(samples, words, tensors, generated=True)


def named_arrays(data: Path) -> tuple[TensorInfo, ...]:
    """The arrays of the data themselves, for a program that does not say what it takes."""
    import numpy as np

    try:
        if data.is_dir():
            arrays = {file.stem: np.load(file, mmap_mode="r") for file in sorted(data.glob("*.npy"))}
        else:
            # Opened here: numpy leaves a damaged archive open.
            with data.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, BadZipFile, zlib.error):
        arrays = {}  # errors in it are reported when the samples are read
    return tuple(TensorInfo(name, array.dtype.name, (), rank_known=False) for name, array in arrays.items())


def _saved(samples: Samples, what: str, tensors: tuple[TensorInfo, ...], folder: Path) -> Inputs:
    save_samples(samples, folder)
    count = len(samples)
    words = [
        f"{what} ({count} sample{'s' if count != 1 else ''})",
        *(each.rstrip(".") for each in samples.converted),
    ]
    return Inputs(folder, "; ".join(words), tensors)


def _count(tensors: tuple[TensorInfo, ...]) -> int:
    """Fewer where they are large; what the model leaves open is made up small."""
    import numpy as np

    def size(tensor: TensorInfo) -> int:
        known = tensor.dtype in np.sctypeDict
        return prod(d for d in tensor.shape if isinstance(d, int)) * (
            np.dtype(tensor.dtype).itemsize if known else 1
        )

    return max(1, min(GENERATED_SAMPLES, _MOST_BYTES // max(1, sum(map(size, tensors)))))


def _generate(
    named: list[Named],
    places: list[Place | None],
    tensors: tuple[TensorInfo, ...],
    samples: Path,
    folder: Path,
    count: int,
) -> None:
    """From the graph if there is one, which shows which integers are valid; otherwise from types and shapes."""
    model = next((p.model for p in places if p is not None and p.model.suffix == ".onnx"), None)
    if model is not None:
        from edgeopt.search.making.variants import Maker, inspect  # brings all passes and forms along

        with closing(Maker(LocalHost(folder))) as maker:
            inspect(maker, model, samples, count, narrowed=tensors)
        return
    if all(p is not None and p.model.suffix != ".xml" for p in places):
        raise DataError(f"Inputs for '{named[0].path.name}' cannot be generated.", "Pass samples with --data.")
    try:
        feeds = generate_feeds(tensors, None, count, seed=0)
        save_samples(check_samples(from_feeds(feeds), tensors, "what was generated"), samples)
    except (EdgeoptError, TypeError, ValueError) as error:
        raise DataError(
            f"Inputs for '{named[0].what}' cannot be generated: {error}", "Pass samples with --data."
        ) from error
