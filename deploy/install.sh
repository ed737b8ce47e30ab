#!/bin/sh
# Installs or upgrades Plantroom. docs/install.md describes each step.
set -eu
umask 022 # The umask of root may be 077. Private files get their mode explicitly.

usage() {
  cat <<'END'
install.sh FILE [--no-start] [--wait SECONDS] [--root DIR]    install plantroom-<version>-linux-<arch>, or upgrade to it
install.sh --uninstall [--root DIR]                           remove the program; data, backups and settings stay

FILE.sha256 must be in the same folder as FILE. An upgrade tests the migration, stops the server, makes a backup, switches to the
new version and waits until it is healthy (--wait, default 300 s). If it does not become healthy, the previous version is restored.
After an interruption, run the script again with the same file.
--no-start: leave the server stopped. After an upgrade, the health of the new version is not checked.
--root: install below DIR as the current user, for testing.
END
}

say() { printf 'install: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage_error() { say "$*"; usage >&2; exit 2; }

file='' root='' start=yes uninstall=no health_timeout=300
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --uninstall) uninstall=yes ;;
    --no-start) start=no ;;
    --wait) health_timeout=${2:-}; [ $# -eq 1 ] || shift ;;
    --root) root=${2:-}; [ -n "$root" ] || usage_error '--root needs a folder'; shift ;;
    -*) usage_error "unknown option $1" ;;
    *) [ -z "$file" ] || usage_error 'only one FILE is allowed'; file=$1 ;;
  esac
  shift
done
case $health_timeout in '' | *[!0-9]*) usage_error '--wait needs a number of seconds: --wait 1200' ;; esac
[ "$uninstall" = yes ] || [ -n "$file" ] || usage_error 'FILE is required'
if [ -n "$root" ]; then root=$(mkdir -p "$root" && cd "$root" && pwd); fi
root=${root%/}

here=$(cd "$(dirname "$0")" && pwd)
opt=$root/opt/plantroom etc=$root/etc/plantroom data=$root/var/lib/plantroom backups=$root/var/backups/plantroom
link=$root/usr/local/bin/plantroom unit=$root/etc/systemd/system/plantroom.service
user=plantroom
# State of the upgrade in progress. It exists from before the stop until the upgrade is complete or rolled back, so that an interrupted
# upgrade can be resumed.
state=$opt/.upgrade
old='' new='' target='' running=no backup='' aside='' database='' phase=''

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail 'run this script as root (sudo), or set --root DIR'

has_systemd() { [ -d "$root/run/systemd/system" ] && command -v systemctl >/dev/null; }
control() { systemctl "$@" 9>&-; } # Processes that it starts must not hold the lock.

# Runs a command as the server user, in the settings folder, with the variables of plantroom.env.
as_server() {
  (
    cd "$etc"
    if [ -f plantroom.env ]; then
      while IFS= read -r line || [ -n "$line" ]; do
        case $line in [A-Z]*=*) export "${line?}" ;; esac
      done <plantroom.env
    fi
    if [ -n "$root" ]; then exec "$@"; else exec runuser -u "$user" -- "$@"; fi
  )
}

set_owner() { [ -n "$root" ] || chown "$user:$user" "$@"; }

# Prints the value of a string member of single-line JSON from stdin.
value_of() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

take_lock() {
  mkdir -p "$root/opt"
  exec 9<"$root/opt"
  flock -n 9 || fail 'another install.sh is at work; wait until it ends'
}

remove() {
  if has_systemd; then control disable --now plantroom.service || true; fi
  rm -rf "$unit" "$link" "$opt"
  if has_systemd; then control daemon-reload; fi
  say "removed the program. Not removed: $data, $backups, $etc and the user $user"
}

check_file() {
  [ -f "$file" ] || fail "$file does not exist"
  [ -f "$file.sha256" ] || fail "$file.sha256 does not exist: copy it from the release, next to the binary"
  wanted=$(cut -d ' ' -f 1 "$file.sha256")
  found=$(sha256sum "$file" | cut -d ' ' -f 1)
  [ "$wanted" = "$found" ] || fail "$file is corrupt (SHA-256 $found, expected $wanted): copy it again"
}

# Copies a program into a folder for its version and sets $stored to that folder.
# A different build of an installed version gets its own folder.
store_program() {
  mkdir -p "$opt" "$root/usr/local/bin"
  draft=$opt/.new
  rm -rf "$draft"
  mkdir "$draft"
  install -m 0755 "$1" "$draft/plantroom"
  reported=$(cd "$draft" && ./plantroom version --json | value_of version) || reported=''
  [ -n "$reported" ] || { rm -rf "$draft"; fail "$1 does not start here; this machine is $(uname -s) $(uname -m): use the binary for it"; }
  stored=$opt/$reported
  if [ -f "$stored/plantroom" ] && ! cmp -s "$stored/plantroom" "$draft/plantroom"; then stored=$opt/$reported-$(sha256sum "$draft/plantroom" | cut -c 1-8); fi
  if [ -f "$stored/plantroom" ]; then rm -rf "$draft"; else rm -rf "$stored"; mv "$draft" "$stored"; fi
}

# Installs the program and its unit, and sets $new to its folder. Also installs the native SQLite module if it is next to FILE: then the
# data folder may be noexec.
install_program() {
  store_program "$file"
  new=$stored version=$(basename "$stored")
  install -m 0644 "$here/systemd/plantroom.service" "$new/plantroom.service"
  engine=$(dirname "$file")/linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/better_sqlite3.node
  if [ -f "$engine" ] && ! cmp -s "$engine" "$new/better_sqlite3.node"; then install -m 0644 "$engine" "$new/better_sqlite3.node"; fi
}

prepare_system() {
  if [ -z "$root" ] && ! id "$user" >/dev/null 2>&1; then
    nologin=$(command -v nologin || echo /usr/sbin/nologin)
    useradd --system --user-group --home-dir "$data" --no-create-home --shell "$nologin" "$user"
  fi
  mkdir -p "$etc" "$(dirname "$unit")"
  for folder in "$data" "$backups"; do
    [ -d "$folder" ] || { mkdir -p "$folder"; chmod 0700 "$folder"; set_owner "$folder"; }
  done
  if [ ! -f "$etc/plantroom.yaml" ]; then
    sed "s#: /#: $(printf '%s' "$root" | sed 's/[\\#&]/\\&/g')/#" "$here/systemd/plantroom.yaml" >"$etc/plantroom.yaml"
    chmod 0640 "$etc/plantroom.yaml"
    [ -n "$root" ] || chown "root:$user" "$etc/plantroom.yaml"
  fi
}

# Sets $old to the folder of the installed program; empty if there is none. A manually installed program gets a folder first.
find_old() {
  [ -x "$link" ] || return 0
  case $(readlink "$link" || true) in
    "$opt"/*/plantroom) old=$(dirname "$(readlink "$link")") ;;
    *) store_program "$link"; old=$stored ;;
  esac
}

# Reads the settings that this script needs from the installed program.
read_settings() {
  as_server test -r "$etc/plantroom.yaml" || fail "the user $user cannot read $etc/plantroom.yaml: run chmod 0755 $etc, chgrp $user $etc/plantroom.yaml"
  settings=$(as_server "${old:-$new}/plantroom" config print --json || as_server "$new/plantroom" config print --json) ||
    fail "the settings in $etc are invalid, so nothing was changed"
  setting() { printf '%s' "$settings" | value_of "setting\":\"$1\",\"value"; }
  data=$(setting data.dir) database=$(setting database.url)
}

has_data() { [ -e "$data/plantroom.db" ] || [ -e "$data/secrets.key" ] || [ -e "$data/tls" ]; }

# Writes the state atomically and durably, because the machine may lose power at any time.
save_state() {
  printf '%s\n' "old=$old" "target=$target" "running=$running" "backup=$backup" "aside=$aside" >"$state.new"
  mv "$state.new" "$state"
  sync -f "$opt"
}
load_state() {
  read_field() { sed -n "s/^$1=//p" "$state"; }
  old=$(read_field old) target=$(read_field target) running=$(read_field running) backup=$(read_field backup) aside=$(read_field aside)
}
clear_state() { rm -f "$state"; phase=''; }

# Switches the link and the unit to the program in folder $1.
switch_to() {
  sync -f "$opt"
  [ -f "$unit" ] && first=no || first=yes
  install -m 0644 "$1/plantroom.service" "$unit"
  ln -sf "$1/plantroom" "$link.new"
  mv -f "$link.new" "$link"
  if has_systemd; then
    control daemon-reload
    [ "$first" = no ] || control enable plantroom.service
  fi
}

restart_server() {
  [ "$running" = yes ] || return 0
  control reset-failed plantroom.service || true
  control start plantroom.service || true
}

# Starts the server again if the script exits in the middle of an upgrade.
handle_exit() {
  trap '' INT TERM HUP PIPE
  case $phase in
    stopped) restart_server; clear_state ;; # The previous program, with unchanged data.
    switched) restart_server ;;
  esac
  if [ -f "$state" ]; then say 'interrupted: run the script again with the same file to resume' || true; fi
}

# systemd keeps restarting a failed server. Two restarts count as a failure.
has_failed() {
  shown=$(control show --property=ActiveState,NRestarts plantroom.service)
  case $shown in *ActiveState=failed* | *ActiveState=inactive*) return 0 ;; esac
  restarts=$(printf '%s\n' "$shown" | sed -n 's/^NRestarts=//p')
  [ "${restarts:-0}" -ge 2 ]
}

# Succeeds if the server becomes healthy in time. Fails early if the server has stopped or has restarted twice.
is_healthy() {
  until=$(($(date +%s) + health_timeout))
  until as_server "$link" health >/dev/null 2>&1; do
    if [ "$(date +%s)" -ge "$until" ] || has_failed; then return 1; fi
    sleep 1
  done
}

first_start() {
  cmp -s "$new/plantroom.service" "$unit" && way=start || way=restart
  switch_to "$new"
  if ! has_systemd; then
    say "installed version $version. There is no systemd here, so nothing was started and the server does not start at boot. Start it manually:"
    say "  cd $etc && runuser -u $user -- $link serve"
    return
  fi
  if [ "$start" = no ]; then say "installed version $version; start it: systemctl start plantroom"; return; fi
  control reset-failed plantroom.service || true # This also resets the restart counter.
  control "$way" plantroom.service
  is_healthy || fail 'it is installed, but not healthy: check journalctl -u plantroom -n 50'
  say "version $version runs.$([ ! -f "$data/first-key.json" ] || echo " The first API key and its organization are in $data/first-key.json")"
}

# Upgrades to $new. If data exists but no program ($old is empty), rollback is not possible.
upgrade() {
  target=$new backup='' aside=''
  say "upgrading from ${old:-no program} to $new"
  as_server "$new/plantroom" migrate --dry-run >&2 || fail 'the migration would fail, so nothing was changed'
  if has_systemd && { [ -z "$old" ] || control is-active --quiet plantroom.service; }; then running=yes; fi
  if [ ! -f "$state" ] && [ -n "$old" ] && [ -f "$unit" ]; then cp "$unit" "$old/plantroom.service"; fi
  save_state
  phase=stopped
  if [ "$running" = yes ]; then control stop plantroom.service || true; fi
  report=$(as_server "${old:-$new}/plantroom" backup --json) || fail 'no backup could be made, so nothing was changed'
  backup=$(printf '%s' "$report" | value_of file)
  say "backup before the upgrade: $backup"
  save_state
  phase=switched
  switch_to "$new"
  if [ "$running" = no ] || [ "$start" = no ]; then
    clear_state
    say "version $version is installed and the server is stopped; start it: systemctl start plantroom"
    return
  fi
  restart_server
  complete_or_roll_back
}

# Completes the upgrade if the new version is healthy; otherwise rolls back.
complete_or_roll_back() {
  is_healthy || roll_back
  clear_state
  say "version $(basename "$target") runs.${old:+ The previous version stays in $old; you can delete it}"
}

# Starts the previous version on the current database, because most versions do not change the schema. Restores the backup only if the
# previous version cannot read the database.
roll_back() {
  say "version $(basename "$target") did not become healthy; its last log lines:"
  if command -v journalctl >/dev/null; then journalctl -u plantroom.service -n 20 --no-pager >&2 || true; fi
  [ -n "$old" ] || { clear_state; fail "there is no previous version to roll back to; backup before the upgrade: $backup"; }
  control stop plantroom.service || true
  switch_to "$old"
  restart_server
  if is_healthy; then clear_state; fail "$(basename "$old") runs again, with all data; nothing was lost"; fi
  control stop plantroom.service || true
  restore_backup
}

# Restores into a separate folder, then renames both folders, so that the server never starts on a partial restore. An interrupted restore
# is repeated.
restore_backup() {
  phase='' restored=$data.restored
  if [ -z "$backup" ] || [ -n "$database" ] || mountpoint -q "$data"; then require_manual_restore; fi
  aside=${aside:-$data.of-$(basename "$target")-$(date -u +%Y%m%dT%H%M%SZ)}
  save_state
  if [ ! -e "$aside" ]; then
    say "$(basename "$old") cannot read the database any more: moving $data to $aside and restoring $backup"
    rm -rf "$restored"
    mkdir "$restored" && chmod 0700 "$restored" && set_owner "$restored"
    as_server "$old/plantroom" restore "$backup" --data-dir "$restored" >&2 || { rm -rf "$restored"; require_manual_restore; }
    sync -f "$restored"
    mv "$data" "$aside" || require_manual_restore
  fi
  if [ -d "$restored" ]; then mv -T "$restored" "$data" || require_manual_restore; fi
  restart_server
  is_healthy || require_manual_restore
  clear_state
  fail "$(basename "$old") runs again with its data from before the upgrade; the data of $(basename "$target") is in $aside"
}

require_manual_restore() {
  clear_state
  fail "$(basename "$old") is installed but does not run; restore the backup manually (docs/restore.md): ${backup:-in the folder backup.dir}"
}

# Resumes an interrupted upgrade.
resume() {
  say "resuming the interrupted upgrade from ${old:-no program} to $target"
  if [ -n "$aside" ]; then restore_backup; fi
  if [ "$(readlink "$link")" != "$target/plantroom" ]; then return 0; fi
  if [ "$running" = no ]; then old=$target; clear_state; return 0; fi
  # After an hour the new version may have stored data that the backup does not have, so do not restore it automatically.
  [ -z "$(find "$state" -mmin +60)" ] || backup=''
  if [ "$new" = "$old" ]; then roll_back; fi
  phase=switched
  restart_server
  complete_or_roll_back
  running=no old=''
  find_old
}

if [ "$uninstall" = yes ]; then take_lock; remove; exit 0; fi
check_file
take_lock
trap handle_exit EXIT
trap 'exit 130' INT TERM HUP
install_program
prepare_system
if [ -f "$state" ]; then load_state; else find_old; fi
read_settings
if [ -f "$state" ]; then resume; fi
if [ "$old" = "$new" ]; then
  clear_state
  first_start
elif [ -n "$old" ] || has_data; then upgrade; else first_start; fi
