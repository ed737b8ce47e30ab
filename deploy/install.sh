#!/bin/sh
# Installs Plantroom, or brings an installation to a newer version. docs/install.md tells what it does, step by step.
set -eu
umask 022 # root's own may be 077; what only the server may read is given its mode by name

usage() {
  cat <<'END'
install.sh FILE [--no-start] [--wait SECONDS] [--root DIR]    install this plantroom-<version>-linux-<arch>; again with a newer one: upgrade
install.sh --uninstall [--root DIR]                           remove the program; data, backups and settings stay

FILE.sha256 must lie beside FILE. An upgrade tries the migration first, stops the server, makes a backup, switches and waits until
the new version is healthy (--wait, 300 s unless said); if it is not, the version before comes back. Interrupted, run it again.
--no-start: leave the server stopped. After an upgrade nothing looks then whether the new version gets healthy.
--root: everything below DIR, as the user who runs this: to try it out.
END
}

say() { printf 'install: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
misused() { say "$*"; usage >&2; exit 2; }

file='' root='' start=yes uninstall=no patience=300
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --uninstall) uninstall=yes ;;
    --no-start) start=no ;;
    --wait) patience=${2:-}; [ $# -eq 1 ] || shift ;;
    --root) root=${2:-}; [ -n "$root" ] || misused '--root needs a folder'; shift ;;
    -*) misused "there is no option $1" ;;
    *) [ -z "$file" ] || misused 'give one file'; file=$1 ;;
  esac
  shift
done
case $patience in '' | *[!0-9]*) misused '--wait needs a number of seconds: --wait 1200' ;; esac
[ "$uninstall" = yes ] || [ -n "$file" ] || misused 'which file?'
if [ -n "$root" ]; then root=$(mkdir -p "$root" && cd "$root" && pwd); fi
root=${root%/}

here=$(cd "$(dirname "$0")" && pwd)
opt=$root/opt/plantroom etc=$root/etc/plantroom data=$root/var/lib/plantroom backups=$root/var/backups/plantroom
link=$root/usr/local/bin/plantroom unit=$root/etc/systemd/system/plantroom.service
user=plantroom
# What an upgrade knows, from before the stop until it is healthy or undone: for the run after one that was interrupted.
state=$opt/.upgrade
old='' new='' target='' running=no backup='' aside='' database='' phase=''

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail 'run it as root (sudo), or give --root DIR'

has_systemd() { [ -d "$root/run/systemd/system" ] && command -v systemctl >/dev/null; }
control() { systemctl "$@" 9>&-; } # what it starts must not hold the lock

# As the user of the server, in the folder with its settings.
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

own() { [ -n "$root" ] || chown "$user:$user" "$@"; }

# The value of a text in JSON that stands on one line: member, separator, text.
value_of() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

take_lock() {
  mkdir -p "$root/opt"
  exec 9<"$root/opt"
  flock -n 9 || fail 'another install.sh is at work; wait for its end'
}

remove() {
  if has_systemd; then control disable --now plantroom.service || true; fi
  rm -rf "$unit" "$link" "$opt"
  if has_systemd; then control daemon-reload; fi
  say "removed the program. Kept: $data, $backups, $etc and the user $user"
}

check_file() {
  [ -f "$file" ] || fail "$file is not there"
  [ -f "$file.sha256" ] || fail "$file.sha256 is not there; it comes with the binary, and says whether that is whole"
  wanted=$(cut -d ' ' -f 1 "$file.sha256")
  found=$(sha256sum "$file" | cut -d ' ' -f 1)
  [ "$wanted" = "$found" ] || fail "$file is damaged (SHA-256 $found, not $wanted); get it again"
}

# Lays a program into a folder of its version, $kept. Another build of a version that is there comes beside it.
keep() {
  mkdir -p "$opt" "$root/usr/local/bin"
  draft=$opt/.new
  rm -rf "$draft"
  mkdir "$draft"
  install -m 0755 "$1" "$draft/plantroom"
  says=$(cd "$draft" && ./plantroom version --json | value_of version) || says=''
  [ -n "$says" ] || { rm -rf "$draft"; fail "$1 does not start here; this machine is $(uname -s) $(uname -m): is it the binary for that?"; }
  kept=$opt/$says
  if [ -f "$kept/plantroom" ] && ! cmp -s "$kept/plantroom" "$draft/plantroom"; then kept=$opt/$says-$(sha256sum "$draft/plantroom" | cut -c 1-8); fi
  if [ -f "$kept/plantroom" ]; then rm -rf "$draft"; else rm -rf "$kept"; mv "$draft" "$kept"; fi
}

# Sets $new: the program, its unit, and SQLite's machine code where it lies beside FILE (then the data folder may be noexec).
lay_program() {
  keep "$file"
  new=$kept version=$(basename "$kept")
  install -m 0644 "$here/systemd/plantroom.service" "$new/plantroom.service"
  engine=$(dirname "$file")/linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/better_sqlite3.node
  if [ -f "$engine" ] && ! cmp -s "$engine" "$new/better_sqlite3.node"; then install -m 0644 "$engine" "$new/better_sqlite3.node"; fi
}

lay_surroundings() {
  if [ -z "$root" ] && ! id "$user" >/dev/null 2>&1; then
    nologin=$(command -v nologin || echo /usr/sbin/nologin)
    useradd --system --user-group --home-dir "$data" --no-create-home --shell "$nologin" "$user"
  fi
  mkdir -p "$etc" "$(dirname "$unit")"
  for folder in "$data" "$backups"; do
    [ -d "$folder" ] || { mkdir -p "$folder"; chmod 0700 "$folder"; own "$folder"; }
  done
  if [ ! -f "$etc/plantroom.yaml" ]; then
    sed "s#: /#: $(printf '%s' "$root" | sed 's/[\\#&]/\\&/g')/#" "$here/systemd/plantroom.yaml" >"$etc/plantroom.yaml"
    chmod 0640 "$etc/plantroom.yaml"
    [ -n "$root" ] || chown "root:$user" "$etc/plantroom.yaml"
  fi
}

# Sets $old, the folder of the program in use; empty when there is none. One that was laid there by hand is kept like the others.
find_old() {
  [ -x "$link" ] || return 0
  case $(readlink "$link" || true) in
    "$opt"/*/plantroom) old=$(dirname "$(readlink "$link")") ;;
    *) keep "$link"; old=$kept ;;
  esac
}

# The settings that count here, by the program that serves with them.
ask_settings() {
  as_server test -r "$etc/plantroom.yaml" || fail "the user $user cannot read $etc/plantroom.yaml: chmod 0755 $etc, chgrp $user $etc/plantroom.yaml"
  settings=$(as_server "${old:-$new}/plantroom" config print --json || as_server "$new/plantroom" config print --json) ||
    fail "the settings in $etc are not right, so nothing was changed"
  setting() { printf '%s' "$settings" | value_of "setting\":\"$1\",\"value"; }
  data=$(setting data.dir) database=$(setting database.url)
}

has_data() { [ -e "$data/plantroom.db" ] || [ -e "$data/secrets.key" ] || [ -e "$data/tls" ]; }

# All at once, on the disk: the machine may lose its power at the next line.
remember() {
  printf '%s\n' "old=$old" "target=$target" "running=$running" "backup=$backup" "aside=$aside" >"$state.new"
  mv "$state.new" "$state"
  sync -f "$opt"
}
recall() {
  known() { sed -n "s/^$1=//p" "$state"; }
  old=$(known old) target=$(known target) running=$(known running) backup=$(known backup) aside=$(known aside)
}
forget() { rm -f "$state"; phase=''; }

# The program and its unit, together.
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

start_again() {
  [ "$running" = yes ] || return 0
  control reset-failed plantroom.service || true
  control start plantroom.service || true
}

# However this ends between the stop and the end of an upgrade: the server that ran runs again.
at_exit() {
  trap '' INT TERM HUP PIPE
  case $phase in
    stopped) start_again; forget ;; # the program before, on data that nobody touched
    switched) start_again ;;
  esac
  if [ -f "$state" ]; then say 'interrupted; run it again with the same file: it goes on where it was' || true; fi
}

# systemd starts what failed again and again: twice is enough to know.
has_ended() {
  shown=$(control show --property=ActiveState,NRestarts plantroom.service)
  case $shown in *ActiveState=failed* | *ActiveState=inactive*) return 0 ;; esac
  restarts=$(printf '%s\n' "$shown" | sed -n 's/^NRestarts=//p')
  [ "${restarts:-0}" -ge 2 ]
}

# Whether the server becomes healthy in time; no as soon as it has stopped, or failed twice.
is_healthy() {
  until=$(($(date +%s) + patience))
  until as_server "$link" health >/dev/null 2>&1; do
    if [ "$(date +%s)" -ge "$until" ] || has_ended; then return 1; fi
    sleep 1
  done
}

first_start() {
  cmp -s "$new/plantroom.service" "$unit" && way=start || way=restart
  switch_to "$new"
  if ! has_systemd; then
    say "installed version $version. There is no systemd here, so nothing was started and nothing starts it with the machine. By hand:"
    say "  cd $etc && runuser -u $user -- $link serve"
    return
  fi
  if [ "$start" = no ]; then say "installed version $version; start it: systemctl start plantroom"; return; fi
  control reset-failed plantroom.service || true # its count of failures too
  control "$way" plantroom.service
  is_healthy || fail 'it is installed, but not healthy; look at: journalctl -u plantroom -n 50'
  say "version $version runs.$([ ! -f "$data/first-key.json" ] || echo " The first key and its organization: $data/first-key.json")"
}

# Without $old there is data, but no program that could serve it: the same, without a way back.
upgrade() {
  target=$new backup='' aside=''
  say "from ${old:-nothing} to $new"
  as_server "$new/plantroom" migrate --dry-run >&2 || fail 'the migration would fail, so nothing was changed'
  if has_systemd && { [ -z "$old" ] || control is-active --quiet plantroom.service; }; then running=yes; fi
  if [ ! -f "$state" ] && [ -n "$old" ] && [ -f "$unit" ]; then cp "$unit" "$old/plantroom.service"; fi
  remember
  phase=stopped
  if [ "$running" = yes ]; then control stop plantroom.service || true; fi
  made=$(as_server "${old:-$new}/plantroom" backup --json) || fail 'no backup could be made, so nothing was changed'
  backup=$(printf '%s' "$made" | value_of file)
  say "the backup of before: $backup"
  remember
  phase=switched
  switch_to "$new"
  if [ "$running" = no ] || [ "$start" = no ]; then
    forget
    say "version $version is in place, and the server is stopped; start it: systemctl start plantroom"
    return
  fi
  start_again
  judge
}

# Whether what was switched to stays.
judge() {
  is_healthy || go_back
  forget
  say "version $(basename "$target") runs.${old:+ The version before stays in $old; remove it when you like}"
}

# The database first as it is: most versions do not change it. Only if the version before cannot read it any more, the backup.
go_back() {
  say "version $(basename "$target") did not become healthy; its last lines:"
  if command -v journalctl >/dev/null; then journalctl -u plantroom.service -n 20 --no-pager >&2 || true; fi
  [ -n "$old" ] || { forget; fail "there is no version before to go back to; the backup of before: $backup"; }
  control stop plantroom.service || true
  switch_to "$old"
  start_again
  if is_healthy; then forget; fail "$(basename "$old") runs again, with all data; nothing was lost"; fi
  control stop plantroom.service || true
  bring_back
}

# Into a folder beside, then two renames: the server is never started on half of a restore. Interrupted, it is done again.
bring_back() {
  phase='' restored=$data.restored
  if [ -z "$backup" ] || [ -n "$database" ] || mountpoint -q "$data"; then by_hand; fi
  aside=${aside:-$data.of-$(basename "$target")-$(date -u +%Y%m%dT%H%M%SZ)}
  remember
  if [ ! -e "$aside" ]; then
    say "$(basename "$old") cannot read the database any more: $data becomes $aside, and $backup is restored"
    rm -rf "$restored"
    mkdir "$restored" && chmod 0700 "$restored" && own "$restored"
    as_server "$old/plantroom" restore "$backup" --data-dir "$restored" >&2 || { rm -rf "$restored"; by_hand; }
    sync -f "$restored"
    mv "$data" "$aside" || by_hand
  fi
  if [ -d "$restored" ]; then mv -T "$restored" "$data" || by_hand; fi
  start_again
  is_healthy || by_hand
  forget
  fail "$(basename "$old") runs again with what it had when it was stopped; what $(basename "$target") had made of it is in $aside"
}

by_hand() {
  forget
  fail "$(basename "$old") is in place but does not run; restore the backup by hand (docs/restore.md): ${backup:-it is where backup.dir says}"
}

# An upgrade that ended midway goes on where it was.
resume() {
  say "an upgrade from ${old:-nothing} to $target was interrupted; going on with it"
  if [ -n "$aside" ]; then bring_back; fi
  if [ "$(readlink "$link")" != "$target/plantroom" ]; then return 0; fi
  if [ "$running" = no ]; then old=$target; forget; return 0; fi
  # Old enough that it may have served since: what it took in is no less than what is in the backup.
  [ -z "$(find "$state" -mmin +60)" ] || backup=''
  if [ "$new" = "$old" ]; then go_back; fi
  phase=switched
  start_again
  judge
  running=no old=''
  find_old
}

if [ "$uninstall" = yes ]; then take_lock; remove; exit 0; fi
check_file
take_lock
trap at_exit EXIT
trap 'exit 130' INT TERM HUP
lay_program
lay_surroundings
if [ -f "$state" ]; then recall; else find_old; fi
ask_settings
if [ -f "$state" ]; then resume; fi
if [ "$old" = "$new" ]; then
  forget
  first_start
elif [ -n "$old" ] || has_data; then upgrade; else first_start; fi
