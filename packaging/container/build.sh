#!/bin/sh
# Builds the agent's image with podman, of the Debian package in dist.
#   build.sh [BASE [OPTION...]]   BASE: an image of Debian 12; OPTIONs are those of podman build
# Without a BASE, debootstrap makes one as root, so that nothing comes from a registry of images.
set -eu

own_base=localhost/edgeopt-debian:bookworm
base="${1:-$own_base}"
[ $# -eq 0 ] || shift
if ! command -v podman >/dev/null 2>&1; then
    echo "podman is missing: apt install podman" >&2
    exit 1
fi
if [ "$base" = "$own_base" ] && ! podman image exists "$base"; then
    if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
        echo "The base image needs root and debootstrap. Or name one: make container BASE=docker.io/library/debian:bookworm-slim" >&2
        exit 1
    fi
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase bookworm "$root" >"$root.log" || { cat "$root.log" >&2; exit 1; }
    rm "$root.log"
    tar -C "$root" -c --exclude=./dev --exclude='./var/cache/apt/archives/*.deb' . | podman import - "$base"
fi
cd "$(dirname "$0")/../.."
# The OCI format has no health check.
podman build --format docker --build-arg "TARGETARCH=$(dpkg --print-architecture)" --from "$base" \
    -f packaging/container/Containerfile -t edgeopt-agent "$@" .
podman images edgeopt-agent
