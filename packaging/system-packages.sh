#!/bin/sh
# Installs the Debian packages that pip cannot bring, and only those that are missing.
#   system-packages.sh venv PYTHON    what PYTHON needs to make environments
#   system-packages.sh gui            the libraries that Qt loads
set -eu

missing=""

need_library() {
    if ! ldconfig -p 2>/dev/null | grep -qF "$1 "; then
        missing="$missing $2"
    fi
}

case "${1:-}" in
venv)
    missing=$("$2" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    ;;
gui)
    [ "$(uname -s)" = Linux ] || exit 0
    PATH="$PATH:/usr/sbin:/sbin" # ldconfig is there, and users who are not root do not look there
    need_library libEGL.so.1 libegl1
    need_library libGL.so.1 libgl1
    need_library libxkbcommon.so.0 libxkbcommon0
    need_library libdbus-1.so.3 libdbus-1-3
    need_library libfontconfig.so.1 libfontconfig1
    ;;
*)
    echo "usage: system-packages.sh venv PYTHON | gui" >&2
    exit 2
    ;;
esac

if [ -z "$missing" ]; then
    exit 0
fi

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif sudo -n true 2>/dev/null || [ -t 0 ]; then
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    else
        return 1
    fi
}

# The lists of packages may be old or absent, as in most containers; an unreachable mirror shows at the install.
# shellcheck disable=SC2086 # one word a package
if command -v apt-get >/dev/null 2>&1; then
    as_root apt-get -qq update >&2 || true
    if as_root apt-get -qq -y --no-install-recommends install $missing >&2; then
        exit 0
    fi
fi
echo "edgeopt needs these system packages, under their Debian names:$(printf ' %s' $missing); install them and run make again." >&2
exit 1
