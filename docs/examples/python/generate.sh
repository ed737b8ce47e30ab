#!/bin/sh
# Generates the stubs into the folder stubs next to this file, from the bundle of `npm run build:protos`:
#   sh generate.sh FOLDER_OF_THE_BUNDLE
# The packages in requirements.txt contain the stubs of google/, so they are not generated.
set -eu
bundle=$(cd "${1:?FOLDER_OF_THE_BUNDLE is required, such as dist/protos/plantroom-protos-0.3.0}" && pwd)
cd "$(dirname "$0")"
rm -rf stubs
mkdir stubs
cd "$bundle"
# shellcheck disable=SC2046 # proto paths contain no spaces
python3 -m grpc_tools.protoc --proto_path=. --python_out="$OLDPWD/stubs" --pyi_out="$OLDPWD/stubs" --grpc_python_out="$OLDPWD/stubs" \
  $(find . -name '*.proto' ! -path './google/*' ! -path './grpc/*' ! -path './chirpstack/*')
