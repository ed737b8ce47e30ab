#!/bin/sh
# Runs a command like a container engine: on the read-only root file system of the image, /tmp and volumes noexec,
# without capabilities. scripts/ship/container.mjs calls it with unshare(1).
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
