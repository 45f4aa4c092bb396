#!/bin/sh
# Installs the Debian packages that pip cannot bring, and only those that are missing.
#   system-packages.sh venv PYTHON    what PYTHON needs to make environments
#   system-packages.sh gui            the libraries that Qt loads, and a font
#   system-packages.sh tests          the MQTT broker, the SSH server and the registry that tests start
#   system-packages.sh desktop        what its windows need on a screen
set -eu

missing=""
services="" # what the packages would start, and tests start for themselves

need_library() {
    if ! ldconfig -p 2>/dev/null | grep -qF "$1 "; then
        missing="$missing $2"
    fi
}

need_font() {
    for font in "$1"/*.[to]t[fc] "$1"/*/*.[to]t[fc] "$1"/*/*/*.[to]t[fc]; do
        if [ -e "$font" ]; then
            return
        fi
    done
    missing="$missing fonts-dejavu-core"
}

PATH="$PATH:${EDGEOPT_SBIN-/usr/sbin:/sbin}" # ldconfig is there, and users who are not root do not look there

case "${1:-}" in
venv)
    missing=$("$2" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    ;;
gui)
    [ "$(uname -s)" = Linux ] || exit 0
    need_library libEGL.so.1 libegl1
    need_library libGL.so.1 libgl1
    need_library libxkbcommon.so.0 libxkbcommon0
    need_library libdbus-1.so.3 libdbus-1-3
    need_library libfontconfig.so.1 libfontconfig1
    need_font "${EDGEOPT_FONTS:-/usr/share/fonts}"
    ;;
tests)
    [ "$(uname -s)" = Linux ] || exit 0
    command -v mosquitto >/dev/null 2>&1 || { missing=" mosquitto"; services="mosquitto.service"; }
    if ! command -v sshd >/dev/null 2>&1; then
        missing="$missing openssh-server"
        services="$services ssh.service ssh.socket"
    fi
    command -v ssh >/dev/null 2>&1 || missing="$missing openssh-client"
    if ! command -v docker-registry >/dev/null 2>&1; then
        missing="$missing docker-registry"
        services="$services docker-registry.service"
    fi
    ;;
desktop)
    [ "$(uname -s)" = Linux ] || exit 0
    need_library libxcb-cursor.so.0 libxcb-cursor0
    need_library libxcb-icccm.so.4 libxcb-icccm4
    need_library libxcb-image.so.0 libxcb-image0
    need_library libxcb-keysyms.so.1 libxcb-keysyms1
    need_library libxcb-render-util.so.0 libxcb-render-util0
    need_library libxcb-shape.so.0 libxcb-shape0
    need_library libxkbcommon-x11.so.0 libxkbcommon-x11-0
    ;;
*)
    echo "usage: system-packages.sh venv PYTHON | gui | tests | desktop" >&2
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

# Debian starts and enables the services of a package: nobody who runs tests asked for a server on this machine.
POLICY="${EDGEOPT_POLICY:-/usr/sbin/policy-rc.d}"
install_packages() {
    if [ -n "$services" ] && [ ! -e "$POLICY" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
        as_root chmod +x "$POLICY"
        trap 'as_root rm -f "$POLICY"' EXIT
    fi
    # shellcheck disable=SC2086 # one word a package
    as_root apt-get -qq -y --no-install-recommends install $missing >&2 || return 1
    if [ -n "$services" ] && [ -d /run/systemd/system ]; then
        # shellcheck disable=SC2086 # one word a service
        as_root systemctl disable --now $services >&2 || true
    fi
}

# The lists of packages may be old or absent, as in most containers; an unreachable mirror shows at the install.
if command -v apt-get >/dev/null 2>&1; then
    as_root apt-get -qq update >&2 || true
    if install_packages; then
        exit 0
    fi
fi
echo "edgeopt needs these system packages, under their Debian names:$(printf ' %s' $missing); install them and run make again." >&2
exit 1
