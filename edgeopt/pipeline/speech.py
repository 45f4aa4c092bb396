"""Search of a speech model: first its encoder, then its decoder, which become one bundle."""

import os
import shutil
import threading
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle import write
from edgeopt.bundle.deployment import ENCODER
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.bundle.runtime.locate import encoder_beside
from edgeopt.bundle.runtime.transcription import windows
from edgeopt.data.read import read_arrays
from edgeopt.data.samples import write_archive
from edgeopt.errors import DataError, OptionReference, UsageError
from edgeopt.events import Emit, Event, Log, Progress, Standing
from edgeopt.pipeline.decoder.speech import MAX_WINDOWS
from edgeopt.pipeline.objectives import LATENCY, OF_DECODERS, THROUGHPUT, TOKENS_PER_SECOND
from edgeopt.pipeline.optimize import run_search
from edgeopt.pipeline.outcome import Outcome
from edgeopt.pipeline.request import OptimizeRequest, check, inputs_of
from edgeopt.speech.audio import samples_of
from edgeopt.speech.features import FeatureSettings, load_settings, log_mel
from edgeopt.speech.files import audio_files
from edgeopt.text.tokenizer import text_folder
from edgeopt.workspace import WORK, workspace

_DATA, _OBJECTIVE, _SHAPE = (OptionReference(name) for name in ("data", "objective", "shape"))
_DECODER = "decoder"
_MAX_SAMPLES = 16
"""Windows of audio for the encoder, whose outputs take megabytes each."""
_SEED = 72


def search_speech(settings: OptimizeRequest, encoder: Path, emit: Emit, stop: threading.Event) -> Outcome:
    """Runs both searches and writes the decoder's bundle with the encoder's inside; returns the decoder's outcome.

    `settings.data`: a WAV file, a folder of them, or features for the encoder in an .npz.
    """
    check(settings)
    out = Path(os.path.abspath(settings.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    settings = msgspec.structs.replace(settings, out=out)
    write.check_target(out, [*inputs_of(settings), encoder])
    if settings.objective == THROUGHPUT:
        raise UsageError(
            "A decoder with a cache runs one text at a time, so its throughput cannot be the objective.",
            f"Choose {LATENCY} or {TOKENS_PER_SECOND}.",
            [_OBJECTIVE],
        )
    if settings.shape:
        raise UsageError(f"{_SHAPE} does not apply to a speech model.", "Leave it out.", [_SHAPE])
    own = settings.baseline
    # A single file stays unpacked as long as its bundle is held.
    held = read_bundle(own) if own is not None and is_bundle(own) else None
    beside = encoder_beside(own) if own is not None else None
    baseline = held.encoder if held is not None else beside
    with workspace(WORK) as folder:
        features = folder / "features.npz"
        is_audio = _write_features(settings, encoder, features, emit)
        parts = {
            ENCODER: msgspec.structs.replace(
                _of_encoder(settings),
                model=encoder,
                out=folder / ENCODER,
                data=features if is_audio else None,
                baseline=baseline,
            ),
            _DECODER: msgspec.structs.replace(settings, out=folder / _DECODER, data=features, single_file=False),
        }
        found, decoder = (run_search(own, _named(part, emit), stop) for part, own in parts.items())
        found = msgspec.structs.replace(found, bundle=f"{out}/{ENCODER}")
        outcome = msgspec.structs.replace(decoder, bundle=str(out), encoder=found)
        _join(parts[_DECODER].out, parts[ENCODER].out, outcome, single_file=settings.single_file)
    return outcome


def _join(decoder: Path, encoder: Path, outcome: Outcome, *, single_file: bool) -> None:
    """Writes the bundle of both; that of the decoder has an older encoder if it is a copy of the baseline."""
    out = Path(outcome.bundle)
    with write.draft(out) as folder:
        shutil.copytree(decoder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(ENCODER))
        write.put_encoder(folder, read_bundle(encoder))
        for part, own in ((folder / ENCODER, outcome.encoder), (folder, outcome)):
            write.put_document(part, "evidence.json", own)
        write.publish(folder, out, single_file=single_file)


def _of_encoder(settings: OptimizeRequest) -> OptimizeRequest:
    """Returns the settings that concern the encoder; a goal that is no ratio in dB concerns the decoder alone."""
    is_ratio = settings.goal.is_ratio
    return msgspec.structs.replace(
        settings,
        floor=settings.floor if is_ratio else None,
        metric=settings.metric if is_ratio else None,
        max_drop=None,
        accept_unproven_drop=False,
        labels="",
        objective=LATENCY if settings.objective in OF_DECODERS else settings.objective,
        max_latency_ms=None,
        pre=None,
        post=None,
        single_file=False,
        pick="",
    )


def _named(part: str, emit: Emit) -> Emit:
    """Returns an emitter whose progress, standings and messages name the part that is searched."""

    def emit_named(event: Event) -> None:
        if isinstance(event, Progress):
            event = msgspec.structs.replace(event, phase=f"{part}: {event.phase}", subject=part)
        elif isinstance(event, Standing):
            event = msgspec.structs.replace(event, subject=part)
        elif isinstance(event, Log):
            event = msgspec.structs.replace(event, message=f"{part.capitalize()}: {event.message}")
        emit(event)

    return emit_named


def _write_features(settings: OptimizeRequest, encoder: Path, file: Path, emit: Emit) -> bool:
    """Writes the features of the audio as samples; returns whether they are of audio, not of generated tones."""
    name = feature_input(encoder)
    own = load_settings(text_folder(settings.model))
    imported = encoder.with_suffix(".npz")
    audio = [] if settings.data is None else audio_files(settings.data)
    if audio:
        parts = [
            window
            for each in audio
            for window in windows(samples_of(each, own.sampling_rate), own.window_samples, own.sampling_rate)
        ]
        if len(parts) > _MAX_SAMPLES:
            emit(Log("info", f"Used {_MAX_SAMPLES} of {len(parts)} windows of audio."))
        places = np.linspace(0, len(parts) - 1, min(len(parts), _MAX_SAMPLES)).round().astype(int)
        features = _features([parts[k] for k in places], own)
    elif settings.data is not None or imported.is_file():
        features = _read_features(settings.data or imported, name)
        if settings.data is None:
            emit(
                Log(
                    "warning", f"No data: measured and judged on {imported.name}, not on your audio. Pass {_DATA}."
                )
            )
    else:
        emit(Log("warning", f"No data: texts are those of generated tones, not of speech. Pass {_DATA}."))
        features = _features(_tones(own), own)
    write_archive(file, {name: features})
    return settings.data is not None or imported.is_file()


def _features(parts: list[Array], settings: FeatureSettings) -> Array:
    return np.stack([log_mel(part, settings)[None] for part in parts])


def _read_features(data: Path, name: str) -> Array:
    arrays = read_arrays(data)
    if name not in arrays:
        raise DataError(
            f"'{data.name}' has no WAV files and no array '{name}' of features.",
            "Give a folder of WAV files, or an .npz of features.",
            [_DATA],
        )
    features = arrays[name]
    return features if features.ndim > 3 else features[:, None]  # a sample may leave out a batch axis of 1


def _tones(settings: FeatureSettings) -> list[Array]:
    """Returns windows of tones with noise."""
    random, times = np.random.default_rng(_SEED), np.arange(settings.window_samples) / settings.sampling_rate
    pitches_hz = random.uniform(80, 1000, MAX_WINDOWS)
    noise = random.standard_normal((MAX_WINDOWS, len(times))) * 0.01
    return [0.3 * np.sin(2 * np.pi * hz * times) + own for hz, own in zip(pitches_hz, noise, strict=True)]


def feature_input(encoder: Path) -> str:
    """Returns the name of the encoder's input; raises UsageError unless there is exactly one."""
    import onnx

    graph = onnx.load(encoder, load_external_data=False).graph
    stored = {each.name for each in graph.initializer}
    names: list[str] = [each.name for each in graph.input if each.name not in stored]
    if len(names) != 1:
        raise UsageError(
            f"The encoder '{encoder.name}' has {len(names)} inputs; that of a speech model takes features alone.",
            "Import the model again with edgeopt import.",
        )
    return names[0]
