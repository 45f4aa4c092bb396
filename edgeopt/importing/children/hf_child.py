"""Exporter of encoders in Hugging Face folders, with the exporter of transformers, else with torch.onnx."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Feeds, Input, Job


def _beside(name: str) -> Any:
    """Imports a module of this folder, which is on no path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch_child, hf_processor = _beside("torch_child"), _beside("hf_processor")

NEEDS = (*torch_child.NEEDS, ("transformers", "transformers"), ("safetensors", "safetensors"))
run, unsteady, layers = torch_child.run, torch_child.unsteady, torch_child.layers
caller, mode, compile_module = torch_child.caller, torch_child.mode, torch_child.compile_module
TASKS = {
    "feature-extraction": "AutoModel",
    "fill-mask": "AutoModelForMaskedLM",
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "image-classification": "AutoModelForImageClassification",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "object-detection": "AutoModelForObjectDetection",
    "depth-estimation": "AutoModelForDepthEstimation",
    "audio-classification": "AutoModelForAudioClassification",
    "encoder": "AutoModel",
}
"""Class of each task; `encoder` is the encoder alone of a model with a decoder."""
TOKENS, PIXELS, SAMPLE_RATE = 32, 224, 16_000
_TOKENS_NOTE = "The bundle takes tokens, not text: edgeopt does not run the operators of onnxruntime-extensions."
_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")


def version() -> str:
    import transformers

    return f"transformers {transformers.__version__}, {torch_child.version()}"


def load(job: Job) -> Any:
    if job.exports and any(key.startswith("image_") for key in read_json(job, "preprocessor_config.json")):
        job.need("PIL", "pillow")  # for its image processor
    if job.task and job.task not in TASKS:
        job.refuse("usage", f"There is no task '{job.task}'.", f"Tasks: {', '.join(TASKS)}.")
    config = read_config(job)
    config.use_cache = False
    kind = architecture(job, config)
    _check_not_generating(job, config, kind)
    return loaded(job, kind, config)


def read_config(job: Job) -> Any:
    """Returns the configuration of the folder, without a network."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    import transformers

    torch_child.set_up(job)
    transformers.logging.set_verbosity_error()
    try:
        config: Any = transformers.AutoConfig.from_pretrained(job.place, trust_remote_code=job.trust)
    except Exception as error:
        job.refuse(
            "bad-model",
            f"config.json cannot be read by transformers {transformers.__version__}: {job.reason(error)}.",
            "Install the version of transformers that the model needs, or download the folder again.",
        )
    return config


def loaded(job: Job, kind: Any, config: Any) -> Any:
    """Returns the original with the weights of the folder, in float32."""
    import torch

    model, missing = _model(job, kind, config)
    if missing and all("pooler" in name for name in missing):  # trained without, as for filling masks
        model, missing = _model(job, kind, config, add_pooling_layer=False)
    if missing:
        job.refuse(
            "bad-model", f"The folder has no weights for '{missing[0]}' of {type(model).__name__}.", _TASK_HINT
        )
    model = model.get_encoder() if job.task == "encoder" else model
    if half := {each.dtype for each in model.parameters()} - {torch.float32}:
        job.notes.append(
            f"The weights are of type {half.pop()}. The model is {job.done} in float32.".replace("torch.", "")
        )
    return torch_child.Original(model.float().eval())


def _model(job: Job, kind: Any, config: Any, **options: Any) -> tuple[Any, list[str]]:
    """Loads the model; returns it with the names of the weights that the folder does not have."""
    try:
        model, about = kind.from_pretrained(
            job.place, config=config, trust_remote_code=job.trust, output_loading_info=True, **options
        )
    except Exception as error:
        job.refuse("bad-model", f"{kind.__name__} cannot be loaded from it: {job.reason(error)}.", _TASK_HINT)
    return model, sorted(about["missing_keys"])


_TASK_HINT = "Download the folder again, or choose what it was trained for with --task."


def architecture(job: Job, config: Any) -> Any:
    """Returns the class of --task, else that of the architecture in config.json."""
    import transformers

    name = (getattr(config, "architectures", None) or ["AutoModel"])[0]
    codes = getattr(config, "auto_map", None) or {}
    auto = next((key for key, code in codes.items() if str(code).endswith(f".{name}")), name)
    kind = getattr(transformers, TASKS.get(job.task, auto), None)
    if kind is None:
        job.refuse(
            "bad-model",
            f"transformers {transformers.__version__} has no architecture {name}.",
            f"Install the version that has it, or choose with --task: {', '.join(TASKS)}.",
        )
    return kind


def _check_not_generating(job: Job, config: Any, kind: Any) -> None:
    """Refuses models that generate, except their encoders."""
    decodes = getattr(config, "is_encoder_decoder", False)
    if (decodes and job.task != "encoder") or getattr(kind, "can_generate", bool)():
        job.refuse(
            "bad-model",
            f"{kind.__name__} generates with a decoder. Models that generate are imported if they are a decoder "
            "alone, with an architecture named ...ForCausalLM or ...LMHeadModel, or speech models of the "
            "architecture WhisperForConditionalGeneration.",
            "--task encoder imports the encoder alone."
            if decodes
            else "--task feature-extraction imports its body.",
        )


def inputs(original: Any, job: Job) -> list[Input]:
    """Returns tokens, pixels or sound: the inputs of `forward`, from the tokenizer and settings in the folder."""
    config, taken = original.module.config, inspect.signature(original.module.forward).parameters
    found: list[Input] = []
    if "input_ids" in taken:
        found += _tokens(job, original.module, [name for name in job.data or {} if name in taken])
    if "pixel_values" in taken:
        found.append(_pixels(job, config))
    for name in ("input_features", "input_values"):
        if name in taken:
            found.append(sound_input(job, config, name))
    if not job.axes:
        tokens = {each.name for each in found if each.dtype == "int64"}
        job.dims = {
            each.name: {0: "batch", 1: "sequence"} if each.name in tokens else {0: "batch"} for each in found
        }
    return found


def setting(config: Any, name: str, default: Any) -> Any:
    """Returns a setting of the configuration, or of the part for text or for images."""
    parts = (config, *(getattr(config, part, None) for part in ("text_config", "vision_config")))
    return next((value for part in parts if (value := getattr(part, name, None)) is not None), default)


def read_json(job: Job, name: str) -> dict[str, Any]:
    path = Path(job.place) / name
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def _tokens(job: Job, model: Any, input_names: list[str]) -> list[Input]:
    """Returns tokens of texts of different lengths, padded to one length."""
    config, taken = model.config, inspect.signature(model.forward).parameters
    pad = setting(config, "pad_token_id", 0)
    longest = setting(config, "max_position_embeddings", None)
    if longest is not None:
        parts = model.named_modules()
        # RoBERTa counts positions from the number of the padding token on.
        shifted = any(
            n.endswith("position_embeddings") and getattr(p, "padding_idx", None) is not None for n, p in parts
        )
        longest -= pad + 1 if shifted else 0
        job.ranges[next((dim for dim, axis in job.axes.items() if axis == 1), "sequence")] = (1, longest)
    batch, length = job.shapes.get("input_ids", (1, min(TOKENS, longest or TOKENS)))
    typed = "token_type_ids" in taken and (setting(config, "type_vocab_size", 0) or 0) > 1
    names = [
        "input_ids",
        *(["attention_mask"] if "attention_mask" in taken else []),
        *(["token_type_ids"] if typed else []),
    ]
    names = [name for name in input_names if name in names] or names
    tokenizer = _tokenizer(job)
    if tokenizer is not None and job.exports:
        job.notes.append(_TOKENS_NOTE)
    sample: Feeds = {}

    def draw_all(random: Any) -> None:
        counts = random.integers(max(1, length // 2), length, batch, endpoint=True)
        ids = random.integers(0, setting(config, "vocab_size", 2), (batch, length))
        mask = (np.arange(length) < counts[:, None]).astype(np.int64)
        if tokenizer is not None:
            texts = [tokenizer.decode(row[:count]) for row, count in zip(ids, counts)]
            sample.update(
                tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="np")
            )
            mask = np.asarray(sample.get("attention_mask", mask))
            ids = np.asarray(sample["input_ids"])
        sample.update(input_ids=np.where(mask, ids, pad), attention_mask=mask)
        sample.setdefault("token_type_ids", mask * (np.arange(length) >= counts[:, None] // 2))

    def drawn(name: str) -> Any:
        def draw(random: Any) -> Any:
            if name == names[0]:
                sample.clear()
                draw_all(random)
            return np.asarray(sample[name], np.int64)

        return draw

    return [job.Input(name, "int64", [batch, length], draw=drawn(name)) for name in names]


def _tokenizer(job: Job) -> Any:
    import transformers

    if not any((Path(job.place) / name).is_file() for name in TOKENIZER_FILES):
        return None
    try:
        found = transformers.AutoTokenizer.from_pretrained(job.place, trust_remote_code=job.trust)
        found("text", padding="max_length", max_length=8)
    except Exception as error:
        job.notes.append(f"The tokenizer was not used, so the tokens are random: {job.reason(error)}.")
        return None
    return found


def _pixels(job: Job, config: Any) -> Input:
    """Returns random pixels in the size and with the mean and spread that the image processor gives them."""
    about, channels = read_json(job, "preprocessor_config.json"), setting(config, "num_channels", 3)
    size = about.get("crop_size") or about.get("size") or setting(config, "image_size", PIXELS)
    if isinstance(size, dict):
        edge = size.get("shortest_edge", PIXELS)
        size = (size.get("height", edge), size.get("width", edge))
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    shape = job.shapes.get("pixel_values", (1, channels, height, width))
    mean, spread = (np.reshape(about.get(name) or [0.5], (-1, 1, 1)) for name in ("image_mean", "image_std"))

    def draw(random: Any) -> Any:
        return ((random.random(shape) - mean) / spread).astype(np.float32)

    return job.Input("pixel_values", "float32", shape, draw=draw)


def sound_input(job: Job, config: Any, name: str) -> Input:
    """Returns features or samples of noise, by the feature extractor of the folder if it has one."""
    import transformers

    frames = 2 * setting(config, "max_source_positions", 500)
    shape = (1, SAMPLE_RATE) if name == "input_values" else (1, setting(config, "num_mel_bins", 80), frames)
    if name in job.shapes or not any(read_json(job, each) for each in _PROCESSOR_FILES):
        return job.Input(name, "float32", job.shapes.get(name, shape))
    extractor = transformers.AutoFeatureExtractor.from_pretrained(job.place, trust_remote_code=job.trust)

    def draw(random: Any) -> Any:
        sound = random.standard_normal(SAMPLE_RATE) * random.uniform(0.01, 0.3)
        made = extractor(sound.astype(np.float32), sampling_rate=extractor.sampling_rate, return_tensors="np")
        return np.asarray(made[name], np.float32)

    return job.Input(name, "float32", draw(np.random.default_rng(0)).shape, draw=draw)


def processor(original: Any, job: Job) -> Any:
    """Returns the image processor or feature extractor of the folder, with its inputs and outputs."""
    taken = inspect.signature(original.module.forward).parameters
    return hf_processor.processed(job, taken, read_json(job, "preprocessor_config.json"))


def export(original: Any, example: Feeds, outputs: list[str], job: Job) -> str:
    import torch
    import transformers

    try:
        from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter
    except ImportError:  # versions before 5.13 have none
        return str(torch_child.export(original, example, outputs, job))
    dims = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in job.dims.items()}
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in example.items()}
    config = OnnxConfig(dynamic_shapes={name: dims.get(name, {}) for name in tensors}, opset_version=job.opset)
    path = str(job.folder / "exported.onnx")
    try:
        with torch_child.quiet():
            made = OnnxExporter().export(original.module, tensors, config)
            made = getattr(made, "program", made)
            if hasattr(made, "save"):
                made.save(path)
            else:
                OnnxExporter.save_program(made, path)
        job.tidy()
    except Exception as error:
        job.notes.append(
            f"torch.onnx wrote the model, because the exporter of transformers failed: {job.reason(error)}."
        )
        return str(torch_child.export(original, example, outputs, job))
    return f"transformers {transformers.__version__} (OnnxExporter, torch {torch.__version__})"
