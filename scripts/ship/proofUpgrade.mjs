// Part 2: a site that a program of an earlier schema kept and that was killed, taken over by the binary.
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inside } from './bareRoot.mjs';
import { OLD, oldProgram, oldSite } from './oldRelease.mjs';
import { gateway, must, REST, serving, STOPPED, until } from './proofParts.mjs';
import { countOf, lostRows, rowsOf } from './rows.mjs';

const LISTS = ['who-am-i', 'organizations', 'members', 'roles', 'api-keys', 'audit-events', 'connections', 'connectors', 'devices/sensor-templates', 'devices/sensor-templates/normalized-keys', 'devices/sensor-templates/unit-measurements', 'devices'].map((path) => `/api/v2/${path}`);
const ofDevice = (id) => [`/api/v2/devices/${id}`, `/api/v2/devices/${id}/commands`, `/api/v2/devices/${id}/actuator-executions`, `/api/v2/readings:latest?deviceIds=${id}`];
/** What migrations after OLD say anew, `table.column`. */
const CHANGED_COLUMNS = [];
/** Links to pictures name the address of the server, and until when they are good. */
const plain = (value) => (typeof value === 'string' ? value.replace(/^https:\/\/[^/]+(\/media\/.*)&expires=.*$/, '$1') : value);

/** The old program, its site in `folder`, and its answers. */
export async function keepOldSite(folder, cache) {
  const program = oldProgram(cache);
  return await oldSite(program, folder, LISTS, (answers) => answers.get('/api/v2/devices').devices.flatMap(({ id }) => ofDevice(id)));
}

export async function upgrade({ root, folder, answers }) {
  const place = join(root, 'srv/old');
  mkdirSync(place);
  for (const name of ['data', 'key.json']) cpSync(join(folder, name), join(place, name), { recursive: true });
  const database = join(place, 'data/plantroom.db');
  const before = rowsOf(join(folder, 'data/plantroom.db'));
  await inside(root, 'cd /srv/old; PATH=/srv/site:$PATH; plantroom migrate --dry-run');
  const tried = rowsOf(database);
  must(lostRows(before, tried).length + lostRows(tried, before).length === 0, 'the dry run must change no row', lostRows(before, tried));
  const migrated = JSON.parse(await inside(root, 'cd /srv/old; PATH=/srv/site:$PATH; plantroom migrate --json'));
  const after = rowsOf(database);
  const lost = lostRows(before, after, CHANGED_COLUMNS);
  must(lost.length === 0, 'every row must be there as it was', lost);
  must(existsSync(join(place, 'data/backups')), 'a copy of the database must have been made before', migrated);
  const goesOn = await goingOn(root, folder, answers);
  return `${OLD.schema} to ${schemaOf(migrated)}: ${countOf(before)} rows of ${before.size} tables as they were; ${goesOn}`;
}

const schemaOf = (migrated) => migrated.schema?.after ?? migrated.to ?? migrated.schema ?? JSON.stringify(migrated).slice(0, 60);

async function goingOn(root, folder, answers) {
  const valve = answers.get('/api/v2/devices').devices.find(({ name }) => name === 'Heating valve');
  const command = answers.get(ofDevice(valve.id)[1]).commands.find(({ name }) => name === 'Set and see');
  const open = answers.get(ofDevice(valve.id)[2]).items.find(({ state }) => state === 'enqueued');
  must(open !== undefined, 'the old program must have left a command that waits for its gateway');
  const [picture] = [...answers.values()].flatMap(({ images = [] }) => images.map(({ id }) => id));
  const paths = [...answers.keys()];
  await inside(root, `
cd /srv/old; PATH=/srv/site:$PATH
field() { sed -n "s/.*\\"$1\\": *\\"\\([^\\"]*\\)\\".*/\\1/p" key.json; }
export PLANTROOM_API_KEY=$(field apiKey) PLANTROOM_ORGANIZATION_ID=$(field organizationId)
CONNECTION=${valve.physicalDevice.connectionId} DEVICE=${valve.id} COMMAND=${command.id}
${REST}
${serving('plantroom serve', 'serve.log')}
mkdir answers
${paths.map((path, number) => `rest 'https://localhost:8443${path}' > answers/${number}.json`).join('\n')}
rest --write-out '' 'https://localhost:8443/api/v2/media/${picture}/content' > answers/picture
${gateway('gateway.log')}
EXECUTION=$(execute 30)
${until('converged', 'execution $EXECUTION')}
execution ${open.id} > answers/open.json
kill $GATEWAY
${STOPPED}
`);
  const read = (name) => JSON.parse(readFileSync(join(root, 'srv/old/answers', `${name}.json`), 'utf8'));
  const faults = paths.flatMap((path, number) => differences(answers.get(path), read(number), path));
  must(faults.length === 0, 'every answer must say what the old program said', faults.join('\n'));
  must(readFileSync(join(root, 'srv/old/answers/picture')).equals(readFileSync(join(folder, 'dot.png'))), 'the picture must be the one that was sent');
  const now = read('open');
  return `${paths.length} GETs answer the same with the old key; the command that waited is ${now.state ?? now.execution?.state}, a new one converges`;
}

/** Where `after` does not say what `before` said; more members are no fault. */
function differences(before, after, path) {
  if (before === null || typeof before !== 'object') return plain(before) === plain(after) ? [] : [`${path}: ${JSON.stringify(before)} became ${JSON.stringify(after)}`];
  if (Array.isArray(before) && before.length !== after?.length) return [`${path}: ${before.length} became ${after?.length}`];
  return Object.entries(before).flatMap(([name, value]) => differences(value, after?.[name], `${path} ${name}`));
}
