// Part 3: a backup while clients write, kill -9, the data folder lost, and back.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { inside } from './bareRoot.mjs';
import { gateway, must, REST, serving, STOPPED, until } from './proofParts.mjs';
import { countOf, lostRows, rowsOf } from './rows.mjs';

const SITE = `cd /srv/site; PATH=$PWD:$PATH; . ./tour.vars; export PLANTROOM_API_KEY PLANTROOM_ORGANIZATION_ID\n${REST}`;

/** What the end of an execution changes of it (T37): its state, why, when, and its place in queues. */
const ENDING = ['state', 'final', 'version', 'detail', 'detail_message', 'dedupe_key', 'holds_slot', 'not_before', 'next_deadline', 't_delivery', 't_ack', 't_conv', 't_query', 'finished_at', 'updated_at', 'event_count'].map((column) => `executions.${column}`);

export async function restore({ root }) {
  await inside(root, `${SITE}
${serving('plantroom serve', 'serve.log')}
${gateway('gateway.log')}
: > acknowledged
load() { while :; do execute $1 >> acknowledged; done; }
load 20 & load 60 &
for try in $(seq 300); do if [ "$(wc -l < acknowledged)" -ge 20 ]; then break; fi; sleep 0.1; done
kill $GATEWAY # so that some stay open
taken=$(wc -l < acknowledged)
for try in $(seq 300); do if [ "$(wc -l < acknowledged)" -ge $((taken + 5)) ]; then break; fi; sleep 0.1; done
cp acknowledged before
mkdir /srv/backups
plantroom backup --output /srv/backups
[ "$(wc -l < acknowledged)" -gt "$(wc -l < before)" ]
kill -KILL $SERVER
rm -r data
plantroom restore /srv/backups/*.tar.zst
`);
  const { rows, differing } = compare(root);
  const before = readFileSync(join(root, 'srv/site/before'), 'utf8').trim().split('\n');
  const executions = new Set(rows.get('executions').map(({ id }) => id));
  const missing = before.filter((id) => !executions.has(id));
  must(missing.length === 0, 'what was acknowledged before the backup began must be in it', missing);
  await inside(root, `${SITE}
${serving('plantroom serve', 'serve.log')}
${gateway('gateway.log')}
EXECUTION=$(execute 50)
${until('converged', 'execution $EXECUTION')}
kill $GATEWAY
${STOPPED}
`);
  return `backup under load, kill -9, data lost, restored: ${countOf(rows)} rows of ${rows.size} tables as they were, but ${differing} executions that were open and are restored (T37); ${before.length} acknowledged before are there; a new one converges`;
}

/** The rows of the backup, of which all but what was open must be in the restored database. */
function compare(root) {
  const backups = join(root, 'srv/backups');
  const [file] = readdirSync(backups);
  const unpacked = join(root, 'srv/unpacked');
  mkdirSync(unpacked);
  writeFileSync(join(unpacked, 'backup.tar'), zstdDecompressSync(readFileSync(join(backups, file))));
  execFileSync('tar', ['--extract', '--file', 'backup.tar', 'plantroom.db'], { cwd: unpacked });
  const rows = rowsOf(join(unpacked, 'plantroom.db'));
  const restored = rowsOf(join(root, 'srv/site/data/plantroom.db'));
  const now = new Map(restored.get('executions').map((row) => [row.id, row]));
  const ended = rows.get('executions').filter(({ id, final }) => !final && now.get(id)?.final && now.get(id).detail === 'restored').map(({ id }) => id);
  must(ended.length > 0 && restored.get('executions').every(({ final }) => final), 'executions that were open must be ended (T37), and none may be open', [...now.values()].filter(({ final }) => !final));
  // A restore leaves room in the numbers of events, and writes itself into the trail of each organization.
  const ownWords = ['organization_counters.value', 'audit_chains.last_seq', 'audit_chains.last_hash'];
  const wasEnded = (table, row) => table === 'executions' && ended.includes(row.id);
  const lost = [
    ...lostRows(rows, restored, ownWords, wasEnded),
    ...lostRows(new Map([['executions', rows.get('executions').filter(({ id }) => ended.includes(id))]]), restored, ENDING), // all else of them is as it was
  ];
  must(lost.length === 0, 'every row must be there as it was', lost);
  return { rows, differing: ended.length };
}
