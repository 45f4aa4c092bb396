"""Exporter of the decoder of Whisper in a Hugging Face folder; speech_encoder_child.py exports its encoder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgeopt.importing.children.child import Feeds, Input, Job


def _beside(name: str) -> Any:
    """Imports a module of this folder, which is on no path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lm_child = _beside("lm_child")
hf_child, runs, torch_child = lm_child.hf_child, lm_child.runs, lm_child.torch_child

NEEDS, version, unsteady, check = lm_child.NEEDS, lm_child.version, lm_child.unsteady, lm_child.check
mode, compile_module, layers = lm_child.mode, lm_child.compile_module, lm_child.layers
FEATURES, IDS, PAST, PRESENT = "input_features", "input_ids", lm_child.PAST, "present."
KEPT_BYTES, MINIMUM_SAMPLES = 128 << 20, 2
"""Limit of the keys and values of the encoder for all samples, and the number of samples that it never reduces."""


def load(job: Job) -> Any:
    lm_child.check_version(job)
    config = hf_child.read_config(job)
    original = hf_child.loaded(job, hf_child.architecture(job, config), config)
    original.encoder, original.decoder = _encoder(original.module), _decoder(original.module)
    return original


def _encoder(model: Any) -> Any:
    """Returns a module that computes keys and values of the cross attention of each layer of the decoder."""
    import torch

    attentions = [layer.encoder_attn for layer in model.get_decoder().layers]

    class SpeechEncoder(torch.nn.Module):  # type: ignore[misc]  # Any, where torch is not installed
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.config = model.get_encoder(), model.config
            self.key = torch.nn.ModuleList([each.k_proj for each in attentions])
            self.value = torch.nn.ModuleList([each.v_proj for each in attentions])

        def forward(self, input_features: Any) -> dict[str, Any]:
            states = self.encoder(input_features).last_hidden_state
            found = {}
            for layer, (attention, *projections) in enumerate(zip(attentions, self.key, self.value)):
                for part, project in zip(("key", "value"), projections):
                    heads = project(states).unflatten(-1, (attention.num_heads, attention.head_dim))
                    found[f"{PAST}{layer}.encoder.{part}"] = heads.transpose(1, 2).contiguous()
            return found

    return SpeechEncoder().eval()


def _decoder(model: Any) -> Any:
    """Returns a module whose caches are lists of tensors: keys and values of each layer in turn."""
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    name = lm_child.cache_name(model)

    class SpeechDecoder(torch.nn.Module):  # type: ignore[misc]  # Any, where torch is not installed
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, past: Any, given: Any) -> Any:
            count = len(past) // 2
            own, cross = DynamicCache(), DynamicCache()
            for cache, states in ((own, past), (cross, given)):
                for layer in range(count):
                    cache.update(states[2 * layer], states[2 * layer + 1], layer)
            both = EncoderDecoderCache(own, cross)
            both.is_updated = dict.fromkeys(range(count), True)
            # Layers skip the cross attention without states of the encoder, and read them from the cache only.
            unread = given[0].new_zeros(input_ids.shape[0], 1, self.model.config.d_model)
            made = self.model(
                encoder_outputs=(unread,), decoder_input_ids=input_ids, use_cache=True, **{name: both}
            )
            return (made.logits, *lm_child.tensors(made[name].self_attention_cache))

    return SpeechDecoder().eval()


def _names(prefix: str, side: str, count: int) -> list[str]:
    return [f"{prefix}{layer}.{side}.{part}" for layer in range(count) for part in ("key", "value")]


def inputs(original: Any, job: Job) -> list[Input]:
    """Returns features of noise and random tokens, or the inputs that the data has."""
    if job.data is not None and not job.exports:  # parts are measured against this one
        return [job.Input(name, "int64" if name == IDS else "float32") for name in job.data]
    features, config = feature_input(original, job), original.module.config
    length = min(lm_child.TOKENS, config.max_target_positions)

    def draw(random: Any) -> Any:
        ids = random.integers(0, config.vocab_size, (1, length))
        ids[:, 0] = config.decoder_start_token_id
        return ids

    if job.data is not None:
        random = np.random.default_rng(lm_child.SEED)
        count = len(next(iter(job.data.values())))
        job.data.setdefault(IDS, np.concatenate([draw(random) for _ in range(count)]))
    return [features, job.Input(IDS, "int64", [1, length], draw=draw)]


def feature_input(original: Any, job: Job) -> Input:
    """Returns features of noise; limits the samples, because the encoder returns many values for each."""
    config = original.module.config
    size = 8 * config.decoder_layers * config.max_source_positions * config.d_model
    limit = max(MINIMUM_SAMPLES, KEPT_BYTES // size)
    wanted = min(job.samples, len(next(iter(job.data.values()))) if job.data is not None else job.samples)
    if limit < wanted:
        job.notes.append(f"{limit} of {wanted} samples were used: the encoder returns {size >> 20} MiB for each.")
    job.samples = min(job.samples, limit)
    found: Input = hf_child.sound_input(job, config, FEATURES)
    return found


def run(original: Any, feeds: Feeds, job: Job) -> Feeds:
    """Runs the whole original on features and tokens, its encoder on features, or a step with the cache."""
    made = caller(original, feeds, job)()
    if IDS not in feeds:
        return {name: each.numpy() for name, each in made.items()}
    if FEATURES in feeds:
        return {"logits": made.logits.numpy()}
    names = ["logits", *_names(PRESENT, "decoder", len(made) // 2)]
    return {name: each.numpy() for name, each in zip(names, made)}


def caller(original: Any, feeds: Feeds, job: Job) -> Callable[[], Any]:
    """Returns a call of the original with tensors."""
    import torch

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in feeds.items()}
    count = original.module.config.decoder_layers
    grad = torch.no_grad if job.exports else torch.inference_mode

    def call() -> Any:
        with grad():
            if IDS not in tensors:
                return original.encoder(tensors[FEATURES])
            if FEATURES in tensors:
                return original.module(
                    input_features=tensors[FEATURES], decoder_input_ids=tensors[IDS], use_cache=False
                )
            past, given = (
                [tensors[name] for name in _names(PAST, side, count)] for side in ("decoder", "encoder")
            )
            return original.decoder(tensors[IDS], past, given)

    return call


def export(original: Any, example: Feeds, outputs: list[str], job: Job) -> str:  # noqa: ARG001
    """Exports one step of the decoder with cache; batch, tokens, cached tokens and places of sound are open."""
    import torch

    batch, new, past, places = 2, 3, 5, 7
    ids = torch.from_numpy(np.resize(example[IDS], (batch, new)))
    config = original.module.config
    count, heads = config.decoder_layers, config.decoder_attention_heads
    own, given = (
        [torch.randn(batch, heads, length, config.d_model // heads) for _ in range(2 * count)]
        for length in (past, places)
    )
    dynamic = torch.export.Dim.DYNAMIC
    both, grows = {0: dynamic, 1: dynamic}, [{0: dynamic, 2: dynamic}] * len(own)
    with lm_child.progress(original.module, count, job), torch_child.quiet():
        program = torch.onnx.export(
            original.decoder, (ids, own, given),
            input_names=[IDS, *_names(PAST, "decoder", count), *_names(PAST, "encoder", count)],
            output_names=["logits", *_names(PRESENT, "decoder", count)],
            dynamic_shapes=(both, grows, grows), opset_version=job.opset, dynamo=True,
        )  # fmt: skip
        lm_child.tidy(program.model, True)
        program.save(str(job.folder / "exported.onnx"))
    return f"torch.onnx {torch.__version__} (dynamo, with cache)"


def run_sizes(original: Any, job: Job, samples: list[Feeds]) -> Any:
    """Runs the whole original on the samples, on texts of other lengths and batches, and on what it generates."""
    done = runs.Runs([{}] * len(samples), list(samples), [run(original, each, job) for each in samples], [])
    config = original.module.config
    longest, vocabulary = config.max_target_positions, config.vocab_size
    sizes = {*lm_child.SIZES, *([(1, longest)] if longest <= lm_child.LARGEST_LENGTH else [])}
    sounds, random = [each[FEATURES] for each in samples], np.random.default_rng(lm_child.SEED)
    for batch, length in sorted(sizes):
        if length <= longest and batch * length * vocabulary * 4 <= lm_child.LARGEST_LOGITS_BYTES:
            sound = np.concatenate(
                [sounds[k % len(sounds)] for k in range(len(done.feeds), len(done.feeds) + batch)]
            )
            _add(original, job, done, sound, random.integers(0, vocabulary, (batch, length)))
    _add(original, job, done, sounds[0], _generated(original, job, samples[0]))
    job.dims, job.ranges["sequence"] = {IDS: {1: "sequence"}}, (1, longest)
    lm_child.save_tokenizer(job)
    _save_extractor(job)
    return done


def _add(original: Any, job: Job, done: Any, sound: Any, ids: Any) -> None:
    feeds = {FEATURES: sound, IDS: ids.astype(np.int64)}
    done.sizes.append({"batch": ids.shape[0], "sequence": ids.shape[1]})
    done.feeds.append(feeds)
    done.outputs.append(run(original, feeds, job))


def _generated(original: Any, job: Job, sample: Feeds) -> Any:
    """Returns a text that the original continues with the likeliest token each time, without its cache."""
    import torch

    longest = original.module.config.max_target_positions
    job.generated = min(lm_child.GREEDY_TOKENS, longest - 1)
    sound, ids = (torch.from_numpy(sample[name]) for name in (FEATURES, IDS))
    ids = ids[:, : longest - job.generated]
    with torch.no_grad():
        states = original.module.get_encoder()(sound)
        for _ in range(job.generated):
            made = original.module(encoder_outputs=states, decoder_input_ids=ids, use_cache=False)
            ids = torch.cat([ids, made.logits[:, -1:].argmax(-1)], 1)
    return ids.numpy()


def _save_extractor(job: Job) -> None:
    """Writes preprocessor_config.json, which newer folders have inside processor_config.json."""
    import transformers

    try:
        found = transformers.AutoFeatureExtractor.from_pretrained(job.place, trust_remote_code=job.trust)
        found.save_pretrained(str(job.folder / "text"))
    except Exception as error:
        job.notes.append(f"The folder has no feature extractor, so the model takes features: {job.reason(error)}.")
