#!/bin/sh
# Mounts what a container engine mounts into a root file system: /proc, /dev with five devices, an empty /tmp of this
# size. bareRoot.sh and container.sh call it in a private mount namespace.
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
