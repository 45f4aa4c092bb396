"""Entry point of worker processes: `python -m edgeopt.workers LIFELINE TASK`."""

import sys

from edgeopt.workers.protocol import serve
from edgeopt.workers.tasks import TaskRunner

if __name__ == "__main__":
    runner = TaskRunner()
    # Imports take longer than most requests, which may come later.
    runner.find(sys.argv[2])
    serve(runner.answer)
