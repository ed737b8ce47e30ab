#!/bin/sh
# Runs a bash script in a root file system and in separate namespaces: only the loopback network, its own processes,
# /dev and /tmp. All processes that the script started are killed at its end. scripts/ship/bareRoot.mjs calls it with
# unshare(1).
#   bareRoot.sh ROOT SCRIPT [ARGUMENT ...]
set -eu
root=$1
shift
sh "$(dirname "$0")/rootMounts.sh" "$root" 256m
ip link set lo up
exec unshare --root="$root" --wd=/ bash "$@"
