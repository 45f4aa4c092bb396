"""Options of `edgeopt run`, `verify`, `sign`, `replay` and `profile`."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.errors import OptionReference, UsageError
from edgeopt.options import argument, option
from edgeopt.platform.command_line import quote_word

Libraries = Annotated[tuple[str, ...], option("Library of custom operators to load; repeatable.", metavar="LIB")]
PicturesFile = Annotated[
    Path | None,
    option("TOML file with a [data] table for pictures in --data (default: that of the bundle or profile)."),
]


SingleFile = Annotated[bool, option("Write the bundle as one file instead of a folder.")]


class RunRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("Bundle or model to run.", metavar="BUNDLE|MODEL")]
    data: Annotated[Path | None, option("Samples: .npz, or a folder of .npy files or pictures.")] = None
    out: Annotated[Path | None, option("Folder for the outputs of --data.", "-o", "--out")] = None
    pre: PicturesFile = None
    strict: Annotated[bool, option("Fail if the runtime moves part of the model to another backend.")] = False
    custom_ops: Libraries = ()
    process: Annotated[bool, option("Apply the bundle's pre- and postprocessing; the data is raw input.")] = False
    batch: Annotated[int, option("Samples per run; needs a model with a batch axis.", metavar="N", minimum=1)] = 1
    prompt: Annotated[
        str | None,
        option("Text for a language model, instead of --data; - reads stdin.", metavar="TEXT"),
    ] = None
    audio: Annotated[Path | None, option("WAV file for a speech model, instead of --data.", metavar="FILE")] = None
    language: Annotated[
        str | None, option("Language of the speech, such as de (default: detected).", metavar="CODE")
    ] = None
    task: Annotated[
        str,
        option("For speech: transcribe, or translate to write English.", metavar="transcribe|translate"),
    ] = "transcribe"
    chat: Annotated[bool, option("Send the prompt as a user's message, in the model's chat template.")] = False
    system: Annotated[str | None, option("System message before the prompt, with --chat.", metavar="TEXT")] = None
    max_tokens: Annotated[
        int | None,
        option(
            "Maximum number of tokens to generate (default: 128; with --audio no limit).", metavar="N", minimum=1
        ),
    ] = None
    temperature: Annotated[
        float | None,
        option("Randomness of the tokens; 0 takes the most likely (default: the model's own).", minimum=0),
    ] = None
    top_k: Annotated[
        int | None,
        option("Draw from the K most likely tokens; 0 is all (default: the model's own).", metavar="K", minimum=0),
    ] = None
    top_p: Annotated[
        float | None,
        option(
            "Draw from the fewest tokens with this probability together, above 0 (default: the model's own).",
            minimum=0,
            maximum=1,
        ),
    ] = None
    seed: Annotated[
        int | None, option("Seed of the draws, to repeat them (default: random).", metavar="N", minimum=0)
    ] = None
    stop: Annotated[
        tuple[str, ...], option("Text to stop at, which is left out; repeatable.", metavar="TEXT")
    ] = ()


RunInput = Literal["data", "prompt", "audio"]
_OPTIONS: tuple[tuple[RunInput, tuple[str, ...]], ...] = (
    ("data", ("out", "pre", "process", "batch")),
    ("prompt", ("chat", "system", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop")),
    ("audio", ("language", "task", "max_tokens", "temperature", "seed")),
)
"""The options that each kind of input takes."""


def input_of(request: RunRequest) -> RunInput:
    """Returns the kind of the input; raises UsageError for options that exclude or lack each other."""
    kinds = [kind for kind, _ in _OPTIONS if getattr(request, kind) is not None]
    if len(kinds) > 1:
        named = [OptionReference(kind) for kind in kinds[:2]]
        raise UsageError(f"{named[0]} and {named[1]} exclude each other.", "Give one of them.", named)
    if not kinds:
        raise UsageError(
            "There is nothing to run the model on.",
            'Pass samples with --data and -o, a text with --prompt "Once upon a time", or speech with --audio.',
            [OptionReference(kind) for kind, _ in _OPTIONS],
        )
    taken = dict(_OPTIONS)[kinds[0]]
    for field in msgspec.structs.fields(request):
        needed = next((kind for kind, names in _OPTIONS if field.name in names), None)
        if needed and field.name not in taken and getattr(request, field.name) != field.default:
            named = [OptionReference(field.name), OptionReference(needed)]
            raise UsageError(f"{named[0]} needs {named[1]}.", f"Leave {named[0]} out.", named)
    if request.system is not None and not request.chat:
        named = [OptionReference("system"), OptionReference("chat")]
        raise UsageError("--system needs --chat.", "Add --chat.", named)
    if request.data is not None and request.out is None:
        named = [OptionReference("data"), OptionReference("out")]
        raise UsageError("--data needs a folder for the outputs.", "Add -o FOLDER.", named)
    return kinds[0]


class VerifyRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path, argument("Bundle to check: a folder or a single file.")]
    trust: Annotated[
        tuple[Path, ...],
        option("Public key that must have signed the bundle; repeatable, one match is enough.", metavar="PUB"),
    ] = ()
    model: Annotated[Path | None, option("Source model, to check that it is unchanged.")] = None
    fail_on_stale: Annotated[
        bool, option("Fail (exit code 6) if the bundle is not proved for this device and software.")
    ] = False
    require_faster: Annotated[
        bool,
        option("Fail (exit code 6) unless the bundle is proved faster than its source on a device like this one."),
    ] = False


class SignRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path | None, argument("Bundle to sign: a folder or a single file.")] = None
    key: Annotated[Path | None, option("Private key to sign with.", metavar="K")] = None
    new_key: Annotated[
        Path | None, option("Create a key pair instead: PATH (private) and PATH.pub (public).", metavar="PATH")
    ] = None
    sequence: Annotated[
        int | None,
        option(
            "Sequence number of the release; agents refuse lower ones (default: seconds since 1970).",
            metavar="N",
            minimum=1,
            maximum=10**15,
        ),
    ] = None


def what_to_sign(request: SignRequest) -> tuple[Path, Path]:
    """The bundle and the key; raises UsageError where one of them is missing."""
    if request.bundle is None or request.key is None:
        bundle = "BUNDLE" if request.bundle is None else quote_word(str(request.bundle))
        key = "KEY" if request.key is None else quote_word(str(request.key))
        raise UsageError(
            "Signing needs a bundle and a key.",
            f"Run: edgeopt sign {bundle} --key {key}. To create a key: edgeopt sign --new-key PATH",
        )
    return request.bundle, request.key


def only_a_key(request: SignRequest) -> None:
    """Raises UsageError for what making a key has no use for."""
    if request.bundle is not None or request.key is not None or request.sequence is not None:
        raise UsageError(
            "--new-key only creates a key.", "Create it first, then sign: edgeopt sign BUNDLE --key PATH"
        )


ProfileOrBundle = Annotated[Path, argument("Bundle, or exported profile.", metavar="PROFILE|BUNDLE")]


class ReplayRequest(msgspec.Struct, frozen=True):
    profile: Annotated[Path, argument("Exported profile, deployment.toml, or bundle.", metavar="PROFILE|BUNDLE")]
    model: Annotated[Path, argument("Source model of the bundle.")]
    out: Annotated[Path, option("Bundle to write.", "-o", "--out", metavar="BUNDLE")]
    data: Annotated[
        Path | None,
        option("Samples for --measure, and for the golden samples if an exported profile is replayed."),
    ] = None
    pre: PicturesFile = None
    measure: Annotated[bool, option("Prove speed and accuracy again on this device.")] = False
    single_file: SingleFile = False


class ProfileExportRequest(msgspec.Struct, frozen=True):
    bundle: ProfileOrBundle
    out: Annotated[Path, option("File to write.", "-o", "--out", metavar="TOML")]


class ProfileImportRequest(msgspec.Struct, frozen=True):
    profile: ProfileOrBundle
    model: Annotated[Path | None, argument("Source model, to check that it is the right one.")] = None


class ProfileDiffRequest(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("Bundle or profile.", metavar="A")]
    second: Annotated[Path, argument("Bundle or profile to compare with it.", metavar="B")]
