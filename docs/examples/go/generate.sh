#!/bin/sh
# Makes the stubs in the folder stubs beside this file, of the bundle that `npm run build:protos` makes:
#   sh generate.sh FOLDER_OF_THE_BUNDLE
# It needs buf and go. What lies under google/ comes as a module and is not made again.
set -eu
bundle=$(cd "${1:?give the folder of the bundle of protos, such as dist/protos/plantroom-protos-0.2.0}" && pwd)
cd "$(dirname "$0")"
rm -rf stubs
buf generate "$bundle" --template buf.gen.yaml --exclude-path "$bundle/google"
