// Part 4: the install script on a bare machine, and its server as it is locked down: its own user, a root that nobody writes, nothing to run from /tmp.
import { copyFileSync, cpSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { inside } from './bareRoot.mjs';
import { must, serving } from './proofParts.mjs';

export async function install({ root, binary }) {
  const release = join(root, 'srv/release');
  mkdirSync(release);
  for (const file of [binary, `${binary}.sha256`]) copyFileSync(file, join(release, basename(file)));
  cpSync('deploy', join(release, 'deploy'), { recursive: true });
  const name = basename(binary);
  const said = await inside(root, `
cd /srv/release
sh deploy/install.sh ${name}
for folder in /var/lib/plantroom /var/backups/plantroom; do mount --bind $folder $folder; mount -o remount,bind,nosuid,nodev $folder; done
mount -o remount,bind,ro /
if touch /etc/plantroom/x 2>/dev/null; then echo 'the root can be written'; exit 1; fi
cd /etc/plantroom
run() { runuser -u plantroom -- /usr/local/bin/plantroom "$@"; }
${serving('run serve', '/tmp/serve.log')}
run health
run call --key-file /var/lib/plantroom/first-key.json ConnectionService/CreateConnection '{"connectorId": "gateway", "name": "Boiler room"}' > /dev/null
PROCESS=$(sed -n 's/.*"server.ready".*"pid":\\([0-9]*\\).*/\\1/p; s/.*"pid":\\([0-9]*\\).*"server.ready".*/\\1/p' /tmp/serve.log | head -n 1)
[ "$(stat -c %U /proc/$PROCESS)" = plantroom ]
run backup
kill -TERM $PROCESS; wait $SERVER
if grep -E 'plr_[0-9A-Za-z]{20}' /tmp/serve.log; then echo 'the key is in the log'; exit 1; fi
echo STOPPED
`);
  must(said.includes('STOPPED'), 'the server must stop in peace', said);
  const upgraded = await inside(root, `
cd /srv/release
cp ${name} newer; echo >> newer; sha256sum newer > newer.sha256
sh deploy/install.sh newer 2>&1
readlink /usr/local/bin/plantroom
printf '#!/bin/sh\\nexit 1\\n' > broken; chmod +x broken; sha256sum broken > broken.sha256
if sh deploy/install.sh broken; then echo 'a program that does not start was installed'; exit 1; fi
readlink /usr/local/bin/plantroom
ls /var/backups/plantroom
`);
  const links = upgraded.split('\n').filter((line) => /^\/opt\/plantroom\/.*\/plantroom$/.test(line));
  const backups = upgraded.split('\n').filter((line) => /^plantroom-.*\.tar\.zst$/.test(line));
  must(links.length === 2 && links[0] === links[1] && /-[0-9a-f]{8}\/plantroom$/.test(links[0]) && backups.length === 2, 'an upgrade must make a backup and switch the link, and a broken one must change nothing', upgraded);
  return 'install.sh; served by its user, root read-only, /tmp noexec, key in its file alone, backup made; upgraded to another build: backup first, link switched; a broken one changes nothing';
}
