"""The variants that the runtimes' own libraries make of a whole model: what any user gets in one call."""

from edgeopt.backends.base import Feeds
from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.search.making.plans import Planned, Plans
from edgeopt.search.making.task import Task

_MOST_SAMPLES = 100


def by_nncf(task: Task) -> Ledger:
    from edgeopt.quant.whole.by_nncf import quantize_by_nncf

    return (quantize_by_nncf(task.base, task.out, _samples(task), transformer=False),)


def by_nncf_for_transformers(task: Task) -> Ledger:
    from edgeopt.quant.whole.by_nncf import quantize_by_nncf

    return (quantize_by_nncf(task.base, task.out, _samples(task), transformer=True),)


def weights_by_nncf(task: Task) -> Ledger:
    from edgeopt.quant.whole.by_nncf import compress_weights

    return (compress_weights(task.base, task.out),)


def by_onnxruntime(task: Task) -> Ledger:
    from edgeopt.quant.whole.by_onnxruntime import quantize_by_onnxruntime

    return (quantize_by_onnxruntime(task.base, task.out, _samples(task), reduce_range=task.settings.reduce_range),)


def dynamic_by_onnxruntime(task: Task) -> Ledger:
    from edgeopt.quant.whole.by_onnxruntime import quantize_dynamic

    return (quantize_dynamic(task.base, task.out, reduce_range=task.settings.reduce_range),)


def mixed_floats(task: Task) -> Plans:
    from edgeopt.quant.whole.mixed_floats import MOST_SAMPLES, mix

    if task.floor_db is None:
        raise ModelError("A floor in dB is needed to find the parts that need float32.")
    # Chosen on the samples that calibrate: those that check and prove must tell whether it holds elsewhere.
    entry = mix(task.base, task.out, _samples(task)[:MOST_SAMPLES], task.floor_db, task.limit_s)
    return Plans((Planned("openvino-cpu", {"precision": "bf16"}, str(task.out), (entry,), {}),), ())


def _samples(task: Task) -> list[Feeds]:
    samples = task.calibration
    if samples is None:
        raise ModelError("Quantizing needs data.", "Give some.")
    return [samples.feeds(number) for number in range(min(len(samples), _MOST_SAMPLES))]
