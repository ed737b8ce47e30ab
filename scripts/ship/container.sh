#!/bin/sh
# Runs a command as a container engine would: in namespaces of its own, on the image's root file system, read-only, /tmp and the volumes
# noexec, without capabilities. Called below unshare(1) by scripts/ship/container.mjs.
#   container.sh ROOT UID GID WORKDIR [VOLUME=PLACE ...] -- COMMAND ...
set -eu
root=$1 uid=$2 gid=$3 workdir=$4
shift 4
sh "$(dirname "$0")/rootMounts.sh" "$root" 16m
while [ "$1" != -- ]; do
  mount --bind "${1#*=}" "$root${1%%=*}"
  mount -o remount,bind,nosuid,nodev,noexec "$root${1%%=*}"
  shift
done
shift
mount -o remount,bind,ro "$root"
ip link set lo up
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid \
  unshare --root="$root" --wd="$workdir" --setgid="$gid" --setuid="$uid" "$@"
