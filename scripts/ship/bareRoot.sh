#!/bin/sh
# Runs a script of bash inside a bare root, in namespaces of its own: no network but loopback, no processes but its own, a /dev and a /tmp of
# its own. When the script ends, everything that it started ends. Called below unshare(1) by scripts/ship/bareRoot.mjs.
#   bareRoot.sh ROOT SCRIPT [ARGUMENT ...]
set -eu
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o nosuid,noexec,size=64k,mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t tmpfs -o nosuid,nodev,noexec,size=256m,mode=1777 tmpfs "$root/tmp"
ip link set lo up
exec unshare --root="$root" --wd=/ bash "$@"
