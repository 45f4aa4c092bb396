"""The program of the desktop package: `edgeopt` and `edgeopt-gui` by these names, else what `python` would run.

Child processes start it as `python_command` says: with `-m MODULE` or `-c PROGRAM`, then its arguments.
"""

import os
import runpy
import sys

_LIBRARIES = "LD_LIBRARY_PATH"


def main() -> None:
    """Runs one of the three, which ends the process."""
    _forget_own_libraries()
    # Without pathlib, which is not needed to start a worker.
    name = os.path.splitext(os.path.basename(os.path.normcase(sys.argv[0])))[0]  # noqa: PTH119, PTH122
    if getattr(sys, "frozen", False):
        own = sys.executable
        # Child processes never start the app or the command line again.
        sys.executable = os.path.join(os.path.dirname(own), "edgeopt-run" + os.path.splitext(own)[1])  # noqa: PTH118, PTH120, PTH122
    if name == "edgeopt":
        from edgeopt.cli.main import main as command_line

        command_line()
    elif name == "edgeopt-gui":
        from edgeopt_gui.main import main as app

        sys.exit(app())
    elif sys.argv[1:2] == ["-m"]:
        module = sys.argv[2]
        sys.argv[:3] = [module]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif sys.argv[1:2] == ["-c"]:
        program = sys.argv[2]
        sys.argv[:3] = ["-c"]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as `python -c`
    else:
        sys.exit("Start edgeopt-gui or edgeopt instead: this program runs their child processes.")


def _forget_own_libraries() -> None:
    """The loader has used them by now; browsers and the user's programs need those of the system."""
    before = os.environ.pop(f"{_LIBRARIES}_ORIG", None)
    if before is not None:
        os.environ[_LIBRARIES] = before
    elif getattr(sys, "frozen", False):
        os.environ.pop(_LIBRARIES, None)


if __name__ == "__main__":
    main()
