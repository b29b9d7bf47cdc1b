#!/bin/sh
# Builds the image that test_image.py runs, with buildah and on a base that debootstrap makes: no
# registry is needed, but root, a Debian mirror and a package index. Further arguments are buildah's.
set -eu
cd "$(dirname "$0")/../.."
base=localhost/debian-python:bookworm
if ! podman image exists "$base"; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        bookworm "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar --directory "$root" --create . | podman import - "$base"
fi
buildah bud --isolation chroot --build-arg "BASE=$base" --file deploy/docker/Dockerfile \
    --tag "${TRACEML_TEST_IMAGE:-localhost/traceml-sidecar:test}" "$@" .
