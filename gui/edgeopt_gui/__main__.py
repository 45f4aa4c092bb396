"""`python -m edgeopt_gui` is the desktop app, where the script `edgeopt-gui` is not on the PATH."""

import sys

from edgeopt_gui.main import main

if __name__ == "__main__":
    sys.exit(main())
