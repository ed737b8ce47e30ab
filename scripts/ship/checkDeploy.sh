#!/bin/sh
# Has the scripts that operators run judged by shellcheck, and the unit by systemd itself. Says what could not be done here.
set -eu
cd "$(dirname "$0")/../.."

if command -v shellcheck >/dev/null; then
  shellcheck deploy/install.sh scripts/ship/*.sh
  shellcheck --shell=sh deploy/compose/chirpstack/mosquitto/start.sh
  echo 'deploy: shellcheck finds nothing'
else
  echo 'NOT HERE: no shellcheck on this machine (apt-get install shellcheck): nothing looked at deploy/install.sh'
fi

if command -v systemd-analyze >/dev/null; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # The program and its user are not on this machine: what starts here is another one.
  sed 's#/usr/local/bin/plantroom#/bin/true#; s/=plantroom$/=daemon/; s#^StateDirectory=.*#StateDirectory=plantroom#' deploy/systemd/plantroom.service >"$work/plantroom.service"
  found=$(systemd-analyze verify --man=no "$work/plantroom.service" 2>&1) || { echo "$found" >&2; exit 1; }
  [ -z "$found" ] || { echo "$found" >&2; exit 1; }
  # 0 is closed, 10 is open. What it serves, and what compiles at run time, leave about 2.
  systemd-analyze security --offline=true --threshold=25 --no-pager "$work/plantroom.service" | tail -n 1
else
  echo 'NOT HERE: no systemd-analyze on this machine (apt-get install systemd): nothing looked at deploy/systemd/plantroom.service'
fi
