#!/bin/sh
# Mounts over a root file system what a container engine would: a /proc, a /dev of five devices, an empty /tmp of this size. Called in a mount
# namespace that nobody else sees (bareRoot.sh, container.sh).
#   rootMounts.sh ROOT SIZE
set -eu
root=$1 size=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o nosuid,noexec,size=64k,mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t tmpfs -o "nosuid,nodev,noexec,size=$size,mode=1777" tmpfs "$root/tmp"
