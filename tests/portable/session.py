"""Runs commands one after another in this interpreter: arguments are lines of JSON, answers are exit codes."""

import contextlib
import io
import json
import os
import sys
import time

from edgeopt.cli.main import run

ENCODING = sys.stdout.encoding
"""Encoding of what commands print, as of the session's own output."""

if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what libraries and children print is no answer
    for line in sys.stdin:
        begin, printed = time.monotonic(), io.BytesIO()
        # As `edgeopt.cli.program.leave` sets up the streams of a command.
        text = io.TextIOWrapper(printed, encoding=ENCODING, errors="replace", write_through=True)
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = run(json.loads(line))
        seconds = time.monotonic() - begin
        text.flush()
        shown = printed.getvalue().decode(ENCODING)
        answers.write(json.dumps({"code": code, "printed": shown, "seconds": seconds}) + "\n")
        answers.flush()
