// Part 3: a backup while clients write, kill -9, loss of the data folder, and restore.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { runInRoot } from './bareRoot.mjs';
import { startGateway, assertThat, REST, startServer, STOP_SERVER, repeatUntil } from './proofParts.mjs';
import { countRows, findLostRows, readRows } from './rows.mjs';

const SITE = `cd /srv/site; PATH=$PWD:$PATH; . ./tour.vars; export PLANTROOM_API_KEY PLANTROOM_ORGANIZATION_ID\n${REST}`;

/** The columns that change when a restore ends an execution (transition T37). */
const COLUMNS_OF_ENDED = [
  'state',
  'final',
  'version',
  'detail',
  'detail_message',
  'dedupe_key',
  'holds_slot',
  'not_before',
  'next_deadline',
  't_delivery',
  't_ack',
  't_conv',
  't_query',
  'finished_at',
  'updated_at',
  'event_count',
].map((column) => `executions.${column}`);

export async function testRestore({ root }) {
  await runInRoot(
    root,
    `${SITE}
${startServer('plantroom serve', 'serve.log')}
${startGateway('gateway.log')}
: > acknowledged
load() { while :; do execute $1 >> acknowledged; done; }
load 20 & load 60 &
for try in $(seq 300); do if [ "$(wc -l < acknowledged)" -ge 20 ]; then break; fi; sleep 0.1; done
kill $GATEWAY # so that some executions stay open
taken=$(wc -l < acknowledged)
for try in $(seq 300); do if [ "$(wc -l < acknowledged)" -ge $((taken + 5)) ]; then break; fi; sleep 0.1; done
cp acknowledged before
mkdir /srv/backups
plantroom backup --output /srv/backups
[ "$(wc -l < acknowledged)" -gt "$(wc -l < before)" ]
kill -KILL $SERVER
rm -r data
plantroom restore /srv/backups/*.tar.zst
`,
  );
  const { rows, differing } = compareWithBackup(root);
  const before = readFileSync(join(root, 'srv/site/before'), 'utf8').trim().split('\n');
  const executions = new Set(rows.get('executions').map(({ id }) => id));
  const missing = before.filter((id) => !executions.has(id));
  assertThat(missing.length === 0, 'the backup must contain what was acknowledged before it started', missing);
  await runInRoot(
    root,
    `${SITE}
${startServer('plantroom serve', 'serve.log')}
${startGateway('gateway.log')}
EXECUTION=$(execute 50)
${repeatUntil('converged', 'execution $EXECUTION')}
kill $GATEWAY
${STOP_SERVER}
`,
  );
  return `backup under load, kill -9, data lost, restored: ${countRows(rows)} rows of ${rows.size} tables unchanged, except ${differing} open executions, which the restore ended (T37); ${before.length} executions acknowledged before the backup exist; a new one converges`;
}

/** Checks that the restored database contains all rows of the backup, except for open executions. */
function compareWithBackup(root) {
  const backups = join(root, 'srv/backups');
  const [file] = readdirSync(backups);
  const unpacked = join(root, 'srv/unpacked');
  mkdirSync(unpacked);
  writeFileSync(join(unpacked, 'backup.tar'), zstdDecompressSync(readFileSync(join(backups, file))));
  execFileSync('tar', ['--extract', '--file', 'backup.tar', 'plantroom.db'], { cwd: unpacked });
  const rows = readRows(join(unpacked, 'plantroom.db'));
  const restored = readRows(join(root, 'srv/site/data/plantroom.db'));
  const now = new Map(restored.get('executions').map((row) => [row.id, row]));
  const ended = rows
    .get('executions')
    .filter(({ id, final }) => !final && now.get(id)?.final && now.get(id).detail === 'restored')
    .map(({ id }) => id);
  assertThat(
    ended.length > 0 && restored.get('executions').every(({ final }) => final),
    'the restore must end all open executions (T37)',
    [...now.values()].filter(({ final }) => !final),
  );
  // A restore skips event numbers, and adds itself to the audit trail of each organization.
  const changedByRestore = ['organization_counters.value', 'audit_chains.last_seq', 'audit_chains.last_hash'];
  const wasEnded = (table, row) => table === 'executions' && ended.includes(row.id);
  const lost = [
    ...findLostRows(rows, restored, changedByRestore, wasEnded),
    ...findLostRows(
      new Map([['executions', rows.get('executions').filter(({ id }) => ended.includes(id))]]),
      restored,
      COLUMNS_OF_ENDED,
    ), // all other columns are unchanged
  ];
  assertThat(lost.length === 0, 'every row must exist unchanged', lost);
  return { rows, differing: ended.length };
}
