"""`edgeopt run`: a bundle over data, outputs to a file; or text of a prompt or of speech."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgeopt import events
from edgeopt.bundle.request import RunRequest, input_of
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.cli.progress import standard_output
from edgeopt.errors import UsageError, printable, writing_to
from edgeopt.views.blocks import Block, Listed, WordsBlock

if TYPE_CHECKING:
    from edgeopt.bundle.runtime.offline import OfflineRun
    from edgeopt.bundle.runtime.prompt_run import PromptRun

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ENDINGS = {
    "stop": "the text ended",
    "max_tokens": "--max-tokens is reached",
    "context": "the context of the model is full",
}


@asks(RunRequest)
def run(request: RunRequest, json: JsonFlag = False) -> None:
    """Run a bundle or model on samples, continue a prompt, or transcribe speech.

    \b
    With --data, writes outputs.npz with one array per output, samples along the first axis. If the
    shape of an output varies, there is one array per sample, named OUTPUT/NUMBER.

    \b
    After an interruption, the same command continues with the missing samples.

    \b
    With --prompt, a language model with a tokenizer writes text to stdout as it generates it. With
    --audio, a speech model does.

    \b
    Examples:
      edgeopt run model.edgeopt --data data.npz -o results
      edgeopt run model.edgeopt --data raw.npz -o results --process
      edgeopt run model.edgeopt --prompt "Once upon a time" --max-tokens 64
      edgeopt run model.edgeopt --prompt "What is an edge device?" --chat --temperature 0
      edgeopt run whisper.onnx --audio speech.wav --language de
    """
    if input_of(request) != "data":
        execute("generate", lambda emit: _generate(request, emit, json), show_speed, json)
        return
    from edgeopt.bundle.runtime.offline import run_offline

    left_behind = "run the same command to continue with the missing samples"
    execute("run", lambda emit: run_offline(request, emit), show, json, left_behind)


def show(result: "OfflineRun") -> list[Block]:
    shapes = tuple(f"{name}  {shape}" for name, shape in list(result.outputs.items())[:20])
    ran = f"Ran {result.samples - result.resumed} samples"
    if result.resumed:
        ran += f" and took {result.resumed} from the interrupted run"
    return [WordsBlock(f"{ran}; outputs in {result.out}"), Listed(shapes)]


def show_speed(result: "PromptRun") -> str:
    """Prints how fast the text came to stderr: stdout has the text alone."""
    parts = [f"{result.tokens} tokens after {result.prompt_tokens}"]
    if result.audio_s is not None:
        language = f" ({result.language})" if result.language is not None else ""
        parts = [f"{result.tokens} tokens of {result.audio_s:.1f} s of audio{language}"]
    if result.first_token_ms is not None:
        parts.append(f"the first in {result.first_token_ms:.0f} ms")
    if result.tokens_per_s is not None:
        parts.append(f"{result.tokens_per_s:.1f} tokens/s")
    print(f"{', '.join(parts)}; {_ENDINGS[result.ending]}.", file=sys.stderr)
    return ""


def _generate(request: RunRequest, emit: events.Emit, json: bool) -> "PromptRun":
    from edgeopt.bundle.runtime.prompt_run import run_audio, run_prompt

    def generate(emit: events.Emit) -> "PromptRun":
        if request.audio is not None:
            return run_audio(request, request.audio, emit)
        return run_prompt(request, _standard_input() if request.prompt == "-" else request.prompt or "", emit)

    if json:
        return generate(emit)
    with _text_on_stdout(emit) as print_pieces:
        return generate(print_pieces)


@contextmanager
def _text_on_stdout(emit: events.Emit) -> Iterator[events.Emit]:
    """Prints pieces of text at once, and ends their line."""
    is_terminal = sys.stdout.isatty()
    last = ""

    def print_piece(event: events.Event) -> None:
        nonlocal last
        if not isinstance(event, events.Update):
            emit(event)
            return
        text = event.data["text"]
        # What a model writes must not control a terminal.
        last = _CONTROLS.sub(lambda found: printable(found[0]), text) if is_terminal else text
        with writing_to(standard_output()):
            print(last, end="", flush=True)

    try:
        yield print_piece
    finally:
        if last and not last.endswith("\n"):
            print(flush=True)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("The prompt on stdin is not UTF-8.", "Convert it to UTF-8.") from None
