#!/bin/sh
# Makes .venv with the first Python here that is 3.11 or later; keeps one that already works.
set -eu
cd "$(dirname "$0")/.."

# Asking Python itself is the only sure way: version managers put names on the PATH that lead nowhere.
find_python() {
    for name in python3.11 python3 python3.12 python3.13 python3.14; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return 0
        fi
    done
    return 1
}

if .venv/bin/python -m pip --version >/dev/null 2>&1; then
    exit 0
fi

python=$(find_python) || {
    echo "edgeopt needs Python 3.11 or later, and none is on the PATH: install it (Debian: apt install python3 python3-venv) and run make again." >&2
    exit 1
}

# Debian keeps the part that gives a new environment its pip in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    sh packaging/system-packages.sh venv "$python"
fi

rm -rf .venv
"$python" -m venv .venv
