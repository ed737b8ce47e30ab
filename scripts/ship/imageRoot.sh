#!/bin/sh
# Creates the files that the image adds to its base: OUT/root with the binary, its native module, the third-party
# notices and the SBOM; OUT/empty for the volumes. The build stage of the Dockerfile and scripts/ship/image.mjs both run
# it, so that they create the same files.
#   imageRoot.sh <folder of binaries> <amd64|arm64> <out>
set -eu
case $2 in
  amd64) arch=x64 ;;
  arm64) arch=arm64 ;;
  *) echo "imageRoot: unknown architecture '$2': use amd64 or arm64" >&2; exit 2 ;;
esac
binary=$(ls "$1"/plantroom-*-linux-"$arch" 2>/dev/null || true)
engine=$1/linux-$arch/better_sqlite3.node
if [ ! -f "$binary" ] || [ ! -f "$engine" ]; then
  echo "imageRoot: $1 must contain exactly one plantroom-<version>-linux-$arch, and $engine. Create them with npm run build:binary" >&2
  exit 1
fi
notices=$1/linux-$arch/THIRD_PARTY_NOTICES.txt
sbom=$binary.cdx.json
if [ ! -f "$notices" ] || [ ! -f "$sbom" ]; then
  echo "imageRoot: $notices and $sbom are missing. Create them with npm run build:binary" >&2
  exit 1
fi
mkdir -p "$3/root/usr/local/bin" "$3/root/etc/plantroom" "$3/root/usr/share/doc/plantroom" "$3/empty"
install -m 0755 "$binary" "$3/root/usr/local/bin/plantroom"
install -m 0644 "$engine" "$3/root/usr/local/bin/better_sqlite3.node"
install -m 0644 "$notices" "$3/root/usr/share/doc/plantroom/THIRD_PARTY_NOTICES.txt"
install -m 0644 "$sbom" "$3/root/usr/share/doc/plantroom/sbom.cdx.json"
