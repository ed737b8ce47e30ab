#!/bin/sh
# Runs a script of bash inside a bare root, in namespaces of its own: no network but loopback, no processes but its own, a /dev and a /tmp of
# its own. When the script ends, everything that it started ends. Called below unshare(1) by scripts/ship/bareRoot.mjs.
#   bareRoot.sh ROOT SCRIPT [ARGUMENT ...]
set -eu
root=$1
shift
sh "$(dirname "$0")/rootMounts.sh" "$root" 256m
ip link set lo up
exec unshare --root="$root" --wd=/ bash "$@"
