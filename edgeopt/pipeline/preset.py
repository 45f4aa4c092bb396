"""Settings of a preset in a search: only those that the user left open, and only if the model runs with them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

import msgspec

from edgeopt.errors import ModelError, TrialError
from edgeopt.events import Log
from edgeopt.pipeline.builders.messages import Inspected
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.profiles.presets import PresetChoice, choose_preset

Found = TypeVar("Found")


def with_preset(
    settings: OptimizeRequest,
    facts: Inspected,
    notes: SearchNotes,
    stack: ExitStack,
    try_out: Callable[[Mapping[str, int], ExitStack], Found],
) -> tuple[PresetChoice | None, Found]:
    """Returns the preset, and the result of trying its sizes; or of trying no sizes if that fails."""
    chosen = choose_preset(settings.preset, facts.layers, facts.inputs, facts.outputs)
    if chosen is None:
        return None, try_out({}, stack)
    preset, why = chosen
    choice = msgspec.structs.replace(preset.choice(why, facts.inputs), named=settings.preset is not None)
    if settled := _settled_by(settings):
        choice = msgspec.structs.replace(choice, sizes={}, unset=f"{settled} says the sizes")
    is_told = choice.is_shown
    found = None
    if choice.sizes:
        try:
            with ExitStack() as attempt:
                found = try_out(choice.sizes, attempt)
                stack.push(attempt.pop_all())
        except (ModelError, TrialError) as error:
            unset = f"the model cannot be measured with its sizes: {error.message.rstrip('.')}"
            choice = msgspec.structs.replace(choice, sizes={}, unset=unset)
    if is_told:
        notes.emit(Log("info", str(choice)))
    return choice, try_out({}, stack) if found is None else found


def _settled_by(settings: OptimizeRequest) -> str:
    """Returns the option of the user that sets the sizes of inputs; empty if there is none."""
    return "--data" if settings.data is not None else "--shape" if settings.shape else ""
