"""Exporter of causal language models in Hugging Face folders, with their cache as inputs and outputs."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgeopt.importing.children.child import Feeds, Input, Job


def _beside(name: str) -> Any:
    """Imports a module of this folder, which is on no path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hf_child, runs = _beside("hf_child"), _beside("runs")
torch_child = hf_child.torch_child

NEEDS, version, unsteady = hf_child.NEEDS, hf_child.version, torch_child.unsteady
mode, compile_module = torch_child.mode, torch_child.compile_module
TOKENS, GREEDY_TOKENS = 16, 32
SIZES = ((1, 1), (1, 2), (1, 33), (1, 65), (1, 129), (3, 1), (3, 2), (3, 12))
"""Batch and length of the texts of the proof beside the samples."""
LARGEST_LENGTH, LARGEST_LOGITS_BYTES = 1025, 256 << 20
"""Limits of the texts at the borders of the model's context and windows."""
BUILDER = "onnxruntime_genai.models.builder"
PROGRESS_SECONDS = 10.0
PAST, TOKENIZER = "past_key_values.", "tokenizer.json"
OTHER_TOKENIZERS = ("vocab.json", "tokenizer.model", "spiece.model", "vocab.txt")
SEED = 20242


def check(job: Job) -> None:
    if job.axes or job.shapes:
        job.refuse(
            "usage",
            "Batch, sequence and cache of a model that generates are all open.",
            "Leave out --dynamic and --shape.",
        )


def check_version(job: Job) -> None:
    from transformers import DynamicCache

    if not hasattr(DynamicCache(), "layers"):
        job.refuse(
            "missing",
            f"Models that generate need transformers 4.54 or later, and this is {version().split(',')[0]}.",
            f"Install it: {sys.executable} -m pip install --upgrade transformers",
        )


def load(job: Job) -> Any:
    check_version(job)
    config = hf_child.read_config(job)
    _check_rope(job, config)
    kind = hf_child.architecture(job, config)
    if not cache_name(kind) or getattr(config, "is_encoder_decoder", False):
        job.refuse(
            "bad-model",
            f"{kind.__name__} takes no cache of keys and values, which this import needs to generate.",
            "--task feature-extraction imports its body.",
        )
    if getattr(config, "is_decoder", None) is False and hasattr(config, "add_cross_attention"):
        config.is_decoder = True  # BERT and its relatives attend to later tokens otherwise
    original = hf_child.loaded(job, kind, config)
    original.decoder, original.batches = _decoder(original.module), True
    return original


def cache_name(model: Any) -> str:
    """Returns the name of the argument for the cache, which some versions of transformers call `cache`."""
    taken = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in taken), "")


def _check_rope(job: Job, config: Any) -> None:
    """Refuses rotary embeddings that this transformers reads otherwise than the file says."""
    saved = hf_child.read_json(job, "config.json")
    stated, read = rope_base(saved), rope_base(config)
    if stated is not None and read is not None and stated != read:
        writer = saved.get("transformers_version", "unknown")
        job.refuse(
            "bad-model",
            f"config.json sets rope_theta to {stated:g}, and {version().split(',')[0]} reads {read:g}.",
            f"Install the version of transformers that wrote the folder ({writer}) or a later one.",
        )


def rope_base(config: Any) -> float | None:
    """Returns the base of rotary embeddings, where old and new versions of transformers write it."""
    parts = config if isinstance(config, dict) else vars(config)
    inner = parts.get("rope_parameters")
    found = parts.get("rope_theta") or (inner.get("rope_theta") if isinstance(inner, dict) else None)
    return float(found) if found else None


def _decoder(model: Any) -> Any:
    """Returns a module whose cache is a list of tensors: keys and values of each layer in turn."""
    import torch
    from transformers import DynamicCache

    name, positions = cache_name(model), "position_ids" in inspect.signature(model.forward).parameters

    class Decoder(torch.nn.Module):  # type: ignore[misc]  # Any, where torch is not installed
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.takes_positions = positions

        def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
            cache = DynamicCache()
            more = {name: cache, **({"position_ids": position_ids} if positions else {})}
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            made = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=True, **more)
            return (made.logits, *tensors(made[name]))

    return Decoder().eval()


def tensors(cache: Any) -> list[Any]:
    """Returns keys and values of each layer in turn."""
    return [each for layer in cache.layers for each in (layer.keys, layer.values)]


def inputs(original: Any, job: Job) -> list[Input]:
    """Returns random tokens and their mask, or the inputs that the data has."""
    length = min(TOKENS, _longest(original) or TOKENS)
    vocabulary = hf_child.setting(original.module.config, "vocab_size", 2)

    def tokens(random: Any) -> Any:
        return random.integers(0, vocabulary, (1, length))

    def mask(random: Any) -> Any:  # noqa: ARG001 - all tokens count
        return np.ones((1, length), np.int64)

    found = {
        "input_ids": job.Input("input_ids", "int64", [1, length], draw=tokens),
        "attention_mask": job.Input("attention_mask", "int64", [1, length], draw=mask),
    }
    if job.data is None:
        return list(found.values())
    if not job.exports:  # a model with cache is measured against this one
        found["position_ids"] = job.Input("position_ids", "int64", [1, length])
        found |= {name: job.Input(name, "float32", [1] * 4) for name in job.data if name.startswith(PAST)}
    return [each for name, each in found.items() if name in job.data or name == "input_ids"]


def _longest(original: Any) -> int | None:
    found = hf_child.setting(original.module.config, "max_position_embeddings", None)
    return int(found) if found else None


def run(original: Any, feeds: Feeds, job: Job) -> Feeds:
    """Runs the original: without the cache, unless the inputs have one."""
    made = caller(original, feeds, job)()
    if not any(name.startswith(PAST) for name in feeds):
        return {"logits": made.logits.numpy()}
    names = ["logits", *_names("present.", (len(made) - 1) // 2)]
    return {name: each.numpy() for name, each in zip(names, made)}


def caller(original: Any, feeds: Feeds, job: Job) -> Callable[[], Any]:
    """Returns a call of the original with tensors."""
    import torch

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in feeds.items()}
    past = [tensors[name] for name in _names(PAST, len(tensors)) if name in tensors]
    ids = tensors["input_ids"]
    known = past[0].shape[2] if past else 0
    mask = tensors.get("attention_mask", torch.ones(ids.shape[0], known + ids.shape[1], dtype=torch.int64))
    positions = tensors.get("position_ids", (mask.cumsum(1) - 1).clamp(min=0)[:, known:])
    grad = torch.no_grad if job.exports else torch.inference_mode
    more = {"position_ids": positions} if original.decoder.takes_positions else {}

    def call() -> Any:
        with grad():
            if past:
                return original.decoder(ids, mask, positions, past)
            return original.module(input_ids=ids, attention_mask=mask, use_cache=False, **more)

    return call


def _names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}{layer}.{part}" for layer in range(layers) for part in ("key", "value")]


def layers(original: Any, feeds: Feeds, job: Job) -> dict[str, tuple[str, Any]]:  # noqa: ARG001
    """Returns nothing: a text runs through the exported model in several steps."""
    return {}


def export(original: Any, example: Feeds, outputs: list[str], job: Job) -> str:  # noqa: ARG001
    """Exports one step with cache, whose batch, tokens and cached tokens are open."""
    if builder := _built(original, job):
        original.batches = False
        job.notes.append(
            f"{builder} wrote the graph, whose attention runs one text at a time; --opset selects torch.onnx."
        )
        return builder
    import torch

    ids = torch.from_numpy(np.array(example["input_ids"])).reshape(-1)
    batch, new, past = 2, 3, 5
    ids = ids.repeat(batch * new)[: batch * new].reshape(batch, new)
    with torch.no_grad():
        made = original.module(input_ids=ids, use_cache=True)[cache_name(original.module)]
        try:
            shapes = [tuple(each.shape) for each in tensors(made)]
        except AttributeError:
            shapes = []
    if not shapes or not all(len(shape) == 4 and shape[2] == new for shape in shapes):
        job.refuse(
            "bad-model",
            f"{type(original.module).__name__} keeps another state than keys and values of all tokens.",
            "Language models are imported if each of their layers caches keys and values.",
        )
    cache = [torch.randn(batch, heads, past, width) for _, heads, _, width in shapes]
    mask = torch.ones(batch, past + new, dtype=torch.int64)
    positions = torch.arange(past, past + new).repeat(batch, 1)
    dynamic = torch.export.Dim.DYNAMIC
    both, grows = {0: dynamic, 1: dynamic}, {0: dynamic, 2: dynamic}
    count = len(shapes) // 2
    with progress(original.module, count, job), torch_child.quiet():
        program = torch.onnx.export(
            original.decoder, (ids, mask, positions, cache),
            input_names=["input_ids", "attention_mask", "position_ids", *_names(PAST, count)],
            output_names=["logits", *_names("present.", count)],
            dynamic_shapes=(both, both, both, [grows] * len(cache)), opset_version=job.opset, dynamo=True,
        )  # fmt: skip
        tidy(program.model, original.decoder.takes_positions)
        program.save(str(job.folder / "exported.onnx"))
    return f"torch.onnx {torch.__version__} (dynamo, with cache)"


def _built(original: Any, job: Job) -> str:
    """Exports with the model builder of ONNX Runtime GenAI; returns what it is, or nothing if it cannot.

    A builder that is installed and cannot is a note with its reason.
    """
    if (
        job.opset is not None
        or not job.builder
        or not all(importlib.util.find_spec(name) for name in ("onnxruntime_genai", "onnx_ir"))
    ):
        return ""
    import onnx_ir as ir

    folder = job.folder / "built"
    options = ("-i", job.place, "-o", str(folder), "-p", "fp32", "-e", "cpu", "-c", str(job.folder / "builder"))
    command = (sys.executable, "-m", BUILDER, *options, "--extra_options", f"hf_remote={str(job.trust).lower()}")
    config = original.module.config
    with progress(original.module, hf_child.setting(config, "num_hidden_layers", 0), job):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE, check=False
        )
    words = done.stderr.decode(errors="replace")
    sys.stderr.write(words)
    if done.returncode or not (folder / "model.onnx").is_file():
        return _not_built(job, _failure(words) or f"it ended with exit code {done.returncode}")
    model = ir.load(folder / "model.onnx")
    graph = model.graph
    taken = {value.name for value in graph.inputs}
    layers = sum(name.endswith(".key") for name in taken if name.startswith(PAST))
    known = {"input_ids", "attention_mask", "position_ids", *_names(PAST, layers)}
    if (
        not layers
        or taken - known
        or {value.name for value in graph.outputs} != {"logits", *_names("present.", layers)}
    ):
        return _not_built(job, "its graph has other inputs or outputs than tokens, logits and a cache")
    heads = hf_child.setting(config, "num_attention_heads", 1)
    width = hf_child.setting(config, "head_dim", None) or hf_child.setting(config, "hidden_size", 0) // heads
    for value in (*graph.inputs, *graph.outputs):
        if "." in value.name and value.shape is not None and not isinstance(value.shape[-1], int):
            value.shape = ir.Shape([*value.shape[:-1], width])
    ir.save(model, job.folder / "exported.onnx", external_data="exported.onnx.data")
    from importlib.metadata import version as installed

    return f"onnxruntime-genai {installed('onnxruntime-genai')} (model builder)"


def _not_built(job: Job, reason: str) -> str:
    """Notes that the builder cannot export this model, which it knows fewer of than transformers does."""
    job.notes.append(f"torch.onnx wrote the graph, as the model builder of onnxruntime-genai cannot: {reason}.")
    return ""


def _failure(words: str) -> str:
    """Returns the error at the end of a traceback in one line; empty if there is no traceback."""
    _, found, end = words.rpartition("Traceback (most recent call last):")
    lines = [line for line in end.splitlines() if found and line[:1].strip()]
    return lines[0][:250].rstrip(".: ") if lines else ""


@contextmanager
def progress(model: Any, count: int, job: Job) -> Iterator[None]:
    """Says every few seconds how long the export has taken."""
    start, done = time.monotonic(), threading.Event()
    weights = sum(each.numel() for each in model.parameters()) / 1e6
    about = f"{count} layers, {weights:,.0f} million weights"

    def say() -> None:
        job.say(event="progress", phase="export", message=about)
        while not done.wait(PROGRESS_SECONDS):
            job.say(event="progress", phase="export", message=f"{about}, {time.monotonic() - start:.0f} s")

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def tidy(model: Any, takes_positions: bool) -> None:
    """Names the open dimensions, removes positions that nothing reads, and folds transposed weights of MatMul."""
    import onnx_ir as ir

    graph = model.graph
    for value in (*graph.inputs, *graph.outputs):
        growing = 2 if "." in value.name else 1
        length = {"attention_mask": "total_sequence"}.get(value.name, "sequence")
        if "." in value.name:
            length = "past_sequence" if value.name.startswith(PAST) else "total_sequence"
            length = "encoder_sequence" if ".encoder." in value.name else length
        sizes = ["batch" if k == 0 else length if k == growing else size for k, size in enumerate(value.shape)]
        value.shape = ir.Shape(sizes)
    if not takes_positions:
        graph.inputs[:] = [each for each in graph.inputs if each.name != "position_ids"]
    for node in list(graph):
        if node.op_type != "Transpose" or node.inputs[0] is None or not node.inputs[0].is_initializer():
            continue
        weight, made = node.inputs[0], node.outputs[0]
        if not any(user.op_type == "MatMul" for user, _ in made.uses()):
            continue
        array = weight.const_value.numpy()
        axes = node.attributes.get("perm")
        turned = np.ascontiguousarray(np.transpose(array, axes.as_ints() if axes is not None else None))
        folded = ir.Value(
            name=f"{weight.name}.transposed",
            const_value=ir.tensor(turned, name=f"{weight.name}.transposed"),
            shape=ir.Shape(turned.shape),
            type=made.type or weight.type,
        )
        graph.register_initializer(folded)
        ir.convenience.replace_all_uses_with(made, folded)
        graph.remove(node, safe=True)
        if not weight.uses() and not weight.is_graph_output():
            del graph.initializers[weight.name]


def run_sizes(original: Any, job: Job, samples: list[Feeds]) -> Any:
    """Runs the original on the samples, on texts of other lengths, on padded batches, and on what it generates."""
    for sample in samples:
        sample.setdefault("attention_mask", np.ones_like(sample["input_ids"]))
    done = runs.Runs([{}] * len(samples), list(samples), [run(original, each, job) for each in samples], [])
    longest, window = _longest(original), hf_child.setting(original.module.config, "sliding_window", None)
    borders = (longest, *((window, window + 1) if window else ()))
    lengths = {(1, size) for size in borders if size and size <= LARGEST_LENGTH}
    vocabulary = done.outputs[0]["logits"].shape[-1]
    tokens = np.concatenate([each["input_ids"].ravel() for each in samples])
    random = np.random.default_rng(SEED)
    for batch, length in sorted({*SIZES, *lengths}):
        if (longest and length > longest) or batch * length * vocabulary * 4 > LARGEST_LOGITS_BYTES:
            continue
        if batch > 1 and not original.batches:
            continue
        # The first text fills its row; the others are shorter, padded on the left.
        padding = np.minimum(np.arange(batch) * 3, length - 1)[:, None]
        mask = (np.arange(length) >= padding).astype(np.int64)
        _add(original, job, done, random.choice(tokens, (batch, length)), mask)
    text = _generated(original, job, samples[0]["input_ids"][:1], longest)
    _add(original, job, done, text, np.ones_like(text))
    job.dims = {"input_ids": {1: "sequence"}, "attention_mask": {1: "sequence"}}
    if longest:
        job.ranges["sequence"] = (1, longest)
    save_tokenizer(job)
    return done


def _add(original: Any, job: Job, done: Any, ids: Any, mask: Any) -> None:
    feeds = {"input_ids": ids.astype(np.int64), "attention_mask": mask}
    done.sizes.append({"batch": ids.shape[0], "sequence": ids.shape[1]})
    done.feeds.append(feeds)
    done.outputs.append(run(original, feeds, job))


def _generated(original: Any, job: Job, prompt: Any, longest: int | None) -> Any:
    """Returns a text that the original continues with the likeliest token each time, without its cache."""
    ids = prompt[:, : max(1, longest - GREEDY_TOKENS)] if longest else prompt
    job.generated = min(GREEDY_TOKENS, longest - ids.shape[1]) if longest else GREEDY_TOKENS
    for _ in range(job.generated):
        logits = run(original, {"input_ids": ids}, job)["logits"]
        ids = np.concatenate([ids, logits[:, -1:].argmax(-1).astype(ids.dtype)], 1)
    return ids


def save_tokenizer(job: Job) -> None:
    """Writes tokenizer.json for a folder whose tokenizer is in other files, if transformers can convert it."""
    there = [name for name in (TOKENIZER, *OTHER_TOKENIZERS) if (Path(job.place) / name).is_file()]
    if not there:
        job.notes.append("The folder has no tokenizer, so the model takes tokens only.")
    if not there or there[0] == TOKENIZER:
        return
    try:
        import transformers

        found = transformers.AutoTokenizer.from_pretrained(job.place, trust_remote_code=job.trust)
        if found.is_fast:
            found.save_pretrained(str(job.folder / "text"))
            return
        job.notes.append(f"{there[0]} cannot be written as {TOKENIZER}, so the model takes tokens only.")
    except Exception as error:
        job.notes.append(f"{there[0]} cannot be read, so the model takes tokens only: {job.reason(error)}.")
