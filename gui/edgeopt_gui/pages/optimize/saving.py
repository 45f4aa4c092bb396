"""Takes a bundle, or its deployment profile alone, to where the user wants it: whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path

from edgeopt.bundle import write
from edgeopt.bundle.deployment import FILE
from edgeopt.bundle.manifest import check_manifest
from edgeopt.errors import EdgeoptError, UsageError, is_disk_full
from edgeopt.platform.files import replace_path


def save_bundle(bundle: Path, target: Path, single_file: bool = False) -> Path:
    """Copies a bundle and checks the copy before it takes its place; raises EdgeoptError."""
    place = Path(os.path.abspath(target))  # noqa: PTH100 - `resolve` would follow a link at the end too
    if place == bundle:
        return place
    try:
        write.check_target(place, [bundle])
        with write.draft(place) as folder:
            shutil.copytree(bundle, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
            check_manifest(folder)
            write.publish(folder, place, single_file=single_file)
    except (OSError, shutil.Error) as error:
        raise _not_saved(place, error) from error
    except UsageError as error:
        # The core speaks of the option of the command line, which nobody typed here.
        raise UsageError(error.message, "Choose another name or another folder.") from error
    return place


def export_deployment(bundle: Path, target: Path) -> Path:
    """Copies the bundle's deployment profile; a file that was there before is replaced in one step."""
    try:
        text = (bundle / FILE).read_bytes()
        descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(draft).chmod(0o644)
            replace_path(Path(draft), target)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise _not_saved(target, error) from error
    return target


def _not_saved(target: Path, error: OSError) -> EdgeoptError:
    why = error.strerror or str(error)
    hint = "Free some space, or choose another disk." if is_disk_full(error) else "Choose another folder."
    return EdgeoptError(f"'{target.name}' was not saved: {why}. What was there before is unchanged.", hint)
