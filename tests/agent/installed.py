"""A program as its script calls it: `python -m tests.agent.installed SCRIPT ARGUMENTS`, which can begin warm."""

import runpy
import sys


def main():
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
