"""Runs commands one after another in this interpreter: arguments are lines of JSON, answers are exit codes."""

import contextlib
import io
import json
import sys
import time

from edgeopt.cli.main import run

if __name__ == "__main__":
    answers = sys.stdout
    for line in sys.stdin:
        begin, printed = time.monotonic(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = run(json.loads(line))
        answers.write(
            json.dumps({"code": code, "printed": printed.getvalue(), "seconds": time.monotonic() - begin})
        )
        answers.write("\n")
        answers.flush()
