"""Files beside an imported model that generation needs: tokenizer, chat template, settings, feature extractor."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from edgeopt.importing.genai_source import CONFIG, builder_settings
from edgeopt.importing.huggingface import read_json
from edgeopt.measure.files import writing

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")
GENERATION = "generation_config.json"
_COPIED = (*TOKENIZER_FILES, "preprocessor_config.json")
_FROM_CONFIG = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "max_position_embeddings"),
)
_OTHER_NAMES = {"max_position_embeddings": ("n_positions", "max_target_positions")}


def text_folder(model: Path) -> Path:
    return model.with_suffix(".text")


def gather(source: Path, converted: Path, folder: Path) -> None:
    """Copies the files of a folder; `converted` has those that the folder has in another form only.

    Settings that generation_config.json lacks come from config.json, or from the configuration of a builder.
    """
    folder.mkdir()
    for name in _COPIED:
        places = (each / name for each in (converted, source))
        if place := next((each for each in places if each.is_file()), None):
            shutil.copyfile(place, folder / name)
    config = read_json(source / "config.json") if (source / "config.json").is_file() else {}
    known = read_json(source / GENERATION) if (source / GENERATION).is_file() else {}
    settings = {**(builder_settings(source) if (source / CONFIG).is_file() else {}), **known}
    for name in _FROM_CONFIG:
        value = next((config[each] for each in (name, *_OTHER_NAMES.get(name, ())) if each in config), None)
        if settings.get(name) is None and value is not None:
            settings[name] = value
    (folder / GENERATION).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


@contextmanager
def publishing(made: Path, folder: Path) -> Iterator[None]:
    """Writes the files to their folder at the end, unless an exception ends the block; removes older ones."""
    new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        with ExitStack() as stack:
            for path in made.iterdir():
                stack.enter_context(writing(folder / path.name)).write(path.read_bytes())
            yield
        for name in (*_COPIED, GENERATION):
            if not (made / name).is_file():
                (folder / name).unlink(missing_ok=True)
    except BaseException:
        if new:
            with suppress(OSError):
                folder.rmdir()
        raise
