#!/bin/sh
# Checks that package-lock.json is complete and contains no download addresses, which would bind it to one registry.
set -eu
npm ci --dry-run --engine-strict=false --ignore-scripts >/dev/null
if grep -n '"resolved"' package-lock.json; then
  echo 'package-lock.json contains download addresses: remove the "resolved" lines above' >&2
  exit 1
fi
