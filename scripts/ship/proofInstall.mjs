// Part 4: the install script on a minimal Debian, and the server with restrictions: separate user, read-only root, /tmp
// noexec.
import { copyFileSync, cpSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { runInRoot } from './bareRoot.mjs';
import { assertThat, startServer } from './proofParts.mjs';

export async function testInstallation({ root, binary }) {
  const release = join(root, 'srv/release');
  mkdirSync(release);
  for (const file of [binary, `${binary}.sha256`]) copyFileSync(file, join(release, basename(file)));
  cpSync('deploy', join(release, 'deploy'), { recursive: true });
  const name = basename(binary);
  const output = await runInRoot(
    root,
    `
cd /srv/release
sh deploy/install.sh ${name}
for folder in /var/lib/plantroom /var/backups/plantroom; do mount --bind $folder $folder; mount -o remount,bind,nosuid,nodev $folder; done
mount -o remount,bind,ro /
if touch /etc/plantroom/x 2>/dev/null; then echo 'the root file system is writable'; exit 1; fi
cd /etc/plantroom
run() { runuser -u plantroom -- /usr/local/bin/plantroom "$@"; }
${startServer('run serve', '/tmp/serve.log')}
run health
run call --key-file /var/lib/plantroom/first-key.json ConnectionService/CreateConnection '{"connectorId": "gateway", "name": "Boiler room"}' > /dev/null
PROCESS=$(sed -n 's/.*"server.ready".*"pid":\\([0-9]*\\).*/\\1/p; s/.*"pid":\\([0-9]*\\).*"server.ready".*/\\1/p' /tmp/serve.log | head -n 1)
[ "$(stat -c %U /proc/$PROCESS)" = plantroom ]
run backup
kill -TERM $PROCESS; wait $SERVER
if grep -E 'plr_[0-9A-Za-z]{20}' /tmp/serve.log; then echo 'the log contains the API key'; exit 1; fi
echo STOPPED
`,
  );
  assertThat(output.includes('STOPPED'), 'the server must stop cleanly', output);
  const upgraded = await runInRoot(
    root,
    `
cd /srv/release
cp ${name} newer; echo >> newer; sha256sum newer > newer.sha256
sh deploy/install.sh newer 2>&1
readlink /usr/local/bin/plantroom
printf '#!/bin/sh\\nexit 1\\n' > broken; chmod +x broken; sha256sum broken > broken.sha256
if sh deploy/install.sh broken; then echo 'a program that does not start was installed'; exit 1; fi
readlink /usr/local/bin/plantroom
ls /var/backups/plantroom
`,
  );
  const links = upgraded.split('\n').filter((line) => /^\/opt\/plantroom\/.*\/plantroom$/.test(line));
  const backups = upgraded.split('\n').filter((line) => /^plantroom-.*\.tar\.zst$/.test(line));
  assertThat(
    links.length === 2 && links[0] === links[1] && /-[0-9a-f]{8}\/plantroom$/.test(links[0]) && backups.length === 2,
    'an upgrade must create a backup and switch the link, and a broken program must change nothing',
    upgraded,
  );
  return 'install.sh; runs as its user, root read-only, /tmp noexec, key only in its file, backup created; upgrade: backup first, link switched; a broken program changes nothing';
}
