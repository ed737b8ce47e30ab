#!/bin/sh
# Makes the stubs in the folder stubs beside this file, of the bundle that `npm run build:protos` makes:
#   sh generate.sh FOLDER_OF_THE_BUNDLE
# What lies under google/ comes with requirements.txt and is not made again.
set -eu
bundle=$(cd "${1:?give the folder of the bundle of protos, such as dist/protos/plantroom-protos-0.2.0}" && pwd)
cd "$(dirname "$0")"
rm -rf stubs
mkdir stubs
cd "$bundle"
# shellcheck disable=SC2046 # the paths of protos hold no blanks
python3 -m grpc_tools.protoc --proto_path=. --python_out="$OLDPWD/stubs" --pyi_out="$OLDPWD/stubs" --grpc_python_out="$OLDPWD/stubs" \
  $(find . -name '*.proto' ! -path './google/*' ! -path './grpc/*' ! -path './chirpstack/*')
