"""What ONNX Runtime's quantizers need of a model before they work on it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def prepared(model: Path, folder: Path) -> Iterator[Path]:
    """The model with its shapes inferred, as a file in a folder that is gone afterwards."""
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        loaded = onnx.load(model)
        weights = {w.name for w in loaded.graph.initializer}
        # Exporters list shapes for weights too; the quantizers turn weights around and trip over the old shape.
        kept = [v for v in loaded.graph.value_info if v.name not in weights]
        del loaded.graph.value_info[:]
        loaded.graph.value_info.extend(kept)
        large = sum(len(w.raw_data) for w in loaded.graph.initializer) > 1_500_000_000
        onnx.save(loaded, place / "source.onnx", save_as_external_data=large)
        # Symbolic shape inference fails on real models and is not needed for the ranges.
        quant_pre_process(str(place / "source.onnx"), str(place / "prepared.onnx"), skip_symbolic_shape=True)
        yield place / "prepared.onnx"
