#!/bin/sh
# Lays what the image adds to its base: OUT/root with the binary and, beside it, its native module; OUT/empty for the volumes.
# The Dockerfile's build stage runs it, and scripts/ship/image.mjs where there is no container engine: so both lay the same.
#   imageRoot.sh <folder of binaries> <amd64|arm64> <out>
set -eu
case $2 in
  amd64) arch=x64 ;;
  arm64) arch=arm64 ;;
  *) echo "imageRoot: there is no binary for the architecture '$2'; take amd64 or arm64" >&2; exit 2 ;;
esac
binary=$(ls "$1"/plantroom-*-linux-"$arch" 2>/dev/null || true)
engine=$1/linux-$arch/better_sqlite3.node
if [ ! -f "$binary" ] || [ ! -f "$engine" ]; then
  echo "imageRoot: $1 must hold just one plantroom-<version>-linux-$arch, and $engine; make them with npm run build:binary" >&2
  exit 1
fi
mkdir -p "$3/root/usr/local/bin" "$3/root/etc/plantroom" "$3/empty"
install -m 0755 "$binary" "$3/root/usr/local/bin/plantroom"
install -m 0644 "$engine" "$3/root/usr/local/bin/better_sqlite3.node"
