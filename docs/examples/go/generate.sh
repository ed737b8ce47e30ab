#!/bin/sh
# Generates the stubs into the folder stubs next to this file, from the bundle of `npm run build:protos`:
#   sh generate.sh FOLDER_OF_THE_BUNDLE
# Requires buf and go. A Go module contains the stubs of google/, so they are not generated.
set -eu
bundle=$(cd "${1:?FOLDER_OF_THE_BUNDLE is required, such as dist/protos/plantroom-protos-0.3.0}" && pwd)
cd "$(dirname "$0")"
rm -rf stubs
buf generate "$bundle" --template buf.gen.yaml --exclude-path "$bundle/google"
