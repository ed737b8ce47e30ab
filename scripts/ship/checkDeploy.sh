#!/bin/sh
# Checks the scripts for operators with shellcheck, and the systemd unit with systemd-analyze. Skips what is not
# installed.
set -eu
cd "$(dirname "$0")/../.."

if command -v shellcheck >/dev/null; then
  shellcheck deploy/install.sh scripts/ship/*.sh
  shellcheck --shell=sh deploy/compose/chirpstack/mosquitto/start.sh
  echo 'deploy: shellcheck found no problems'
else
  echo 'SKIPPED: shellcheck is not installed (apt-get install shellcheck): deploy/install.sh was not checked'
fi

if command -v systemd-analyze >/dev/null; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # The program and its user do not exist on this machine, so replace them.
  sed 's#/usr/local/bin/plantroom#/bin/true#; s/=plantroom$/=daemon/; s#^StateDirectory=.*#StateDirectory=plantroom#' deploy/systemd/plantroom.service >"$work/plantroom.service"
  found=$(systemd-analyze verify --man=no "$work/plantroom.service" 2>&1) || { echo "$found" >&2; exit 1; }
  [ -z "$found" ] || { echo "$found" >&2; exit 1; }
  # 0 is fully restricted, 10 is unrestricted. Network access and the JIT compiler leave about 2.
  systemd-analyze security --offline=true --threshold=25 --no-pager "$work/plantroom.service" | tail -n 1
else
  echo 'SKIPPED: systemd-analyze is not installed (apt-get install systemd): deploy/systemd/plantroom.service was not checked'
fi
