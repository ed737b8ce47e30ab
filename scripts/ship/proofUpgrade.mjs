// Part 2: the binary upgrades the data of an older program that was killed.
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInRoot } from './bareRoot.mjs';
import { OLD, buildOldProgram, createOldSite } from './oldRelease.mjs';
import { startGateway, assertThat, REST, startServer, STOP_SERVER, repeatUntil } from './proofParts.mjs';
import { countRows, findLostRows, readRows } from './rows.mjs';

const LIST_PATHS = [
  'who-am-i',
  'organizations',
  'members',
  'roles',
  'api-keys',
  'audit-events',
  'connections',
  'connectors',
  'devices/sensor-templates',
  'devices/sensor-templates/normalized-keys',
  'devices/sensor-templates/unit-measurements',
  'devices',
].map((path) => `/api/v2/${path}`);
const listDevicePaths = (id) => [
  `/api/v2/devices/${id}`,
  `/api/v2/devices/${id}/commands`,
  `/api/v2/devices/${id}/actuator-executions`,
  `/api/v2/readings:latest?deviceIds=${id}`,
];
/** Columns that migrations after OLD change, `table.column`. */
const CHANGED_COLUMNS = [];

// Intended differences of the responses of 0.3.0, see CHANGELOG.md.
const INTENDED_CHANGES = [
  /(scopes|effectiveScopes): "(commands:execute|dashboards:read|dashboards:write)" is new$/,
  /roles 2 scopes: "commands:write" is missing$/, // operators execute commands and do not change them
  / thinReadingsAfterDays: .* became undefined$/,
  / capabilities: ("withdraw" is missing|"cancel_command" is new)$/,
  /sensorTemplates \d+ (description|updatedAt): /,
  / roles \d+ description: /,
  / connectors .* (description|title)( \d+)?: /, // reworded texts
];
/** Removes the server address and the expiry from image links. */
const normalize = (value) =>
  typeof value === 'string' ? value.replace(/^https:\/\/[^/]+(\/media\/.*)&expires=.*$/, '$1') : value;

/** Creates data with the old program in `folder`, and returns its responses. */
export async function createSiteData(folder, cache) {
  const program = buildOldProgram(cache);
  return await createOldSite(program, folder, LIST_PATHS, (responses) =>
    responses.get('/api/v2/devices').devices.flatMap(({ id }) => listDevicePaths(id)),
  );
}

export async function testUpgrade({ root, folder, responses }) {
  const siteFolder = join(root, 'srv/old');
  mkdirSync(siteFolder);
  for (const name of ['data', 'key.json']) cpSync(join(folder, name), join(siteFolder, name), { recursive: true });
  const database = join(siteFolder, 'data/plantroom.db');
  const before = readRows(join(folder, 'data/plantroom.db'));
  await runInRoot(root, 'cd /srv/old; PATH=/srv/site:$PATH; plantroom migrate --dry-run');
  const afterDryRun = readRows(database);
  assertThat(
    findLostRows(before, afterDryRun).length + findLostRows(afterDryRun, before).length === 0,
    'the dry run must change no row',
    findLostRows(before, afterDryRun),
  );
  const migrated = JSON.parse(await runInRoot(root, 'cd /srv/old; PATH=/srv/site:$PATH; plantroom migrate --json'));
  const after = readRows(database);
  const lost = findLostRows(before, after, CHANGED_COLUMNS);
  assertThat(lost.length === 0, 'every row must exist unchanged', lost);
  assertThat(
    existsSync(join(siteFolder, 'data/backups')),
    'a backup of the database must have been created before',
    migrated,
  );
  const summary = await testServer(root, folder, responses);
  return `${OLD.schema} to ${readSchema(migrated)}: ${countRows(before)} rows of ${before.size} tables unchanged; ${summary}`;
}

const readSchema = (migrated) =>
  migrated.schema?.after ?? migrated.to ?? migrated.schema ?? JSON.stringify(migrated).slice(0, 60);

async function testServer(root, folder, responses) {
  const valve = responses.get('/api/v2/devices').devices.find(({ name }) => name === 'Heating valve');
  const command = responses.get(listDevicePaths(valve.id)[1]).commands.find(({ name }) => name === 'Set and see');
  const open = responses.get(listDevicePaths(valve.id)[2]).items.find(({ state }) => state === 'enqueued');
  assertThat(open !== undefined, 'the old program must have left a command that is queued for its gateway');
  const [imageId] = [...responses.values()].flatMap(({ images = [] }) => images.map(({ id }) => id));
  const paths = [...responses.keys()];
  await runInRoot(
    root,
    `
cd /srv/old; PATH=/srv/site:$PATH
field() { sed -n "s/.*\\"$1\\": *\\"\\([^\\"]*\\)\\".*/\\1/p" key.json; }
export PLANTROOM_API_KEY=$(field apiKey) PLANTROOM_ORGANIZATION_ID=$(field organizationId)
CONNECTION=${valve.physicalDevice.connectionId} DEVICE=${valve.id} COMMAND=${command.id}
${REST}
${startServer('plantroom serve', 'serve.log')}
mkdir answers
${paths.map((path, number) => `rest 'https://localhost:8443${path}' > answers/${number}.json`).join('\n')}
rest --write-out '' 'https://localhost:8443/api/v2/media/${imageId}/content' > answers/picture
${startGateway('gateway.log')}
EXECUTION=$(execute 30)
${repeatUntil('converged', 'execution $EXECUTION')}
execution ${open.id} > answers/open.json
kill $GATEWAY
${STOP_SERVER}
`,
  );
  const read = (name) => JSON.parse(readFileSync(join(root, 'srv/old/answers', `${name}.json`), 'utf8'));
  const unexpected = paths
    .flatMap((path, number) => listDifferences(responses.get(path), read(number), path))
    .filter((difference) => !INTENDED_CHANGES.some((pattern) => pattern.test(difference)));
  assertThat(unexpected.length === 0, 'every response must equal that of the old program', unexpected.join('\n'));
  assertThat(
    readFileSync(join(root, 'srv/old/answers/picture')).equals(readFileSync(join(folder, 'dot.png'))),
    'the image must be unchanged',
  );
  const now = read('open');
  return `${paths.length} GET responses are equal, with the old API key; the queued command is ${now.state ?? now.execution?.state}, a new one converges`;
}

/** Lists the differences of `after` from `before`; additional fields are ignored. */
function listDifferences(before, after, path) {
  if (before === null || typeof before !== 'object')
    return normalize(before) === normalize(after)
      ? []
      : [`${path}: ${JSON.stringify(before)} became ${JSON.stringify(after)}`];
  if (Array.isArray(before)) {
    const changedTexts = listChangedTexts(before, after ?? []).map((change) => `${path}: ${change}`);
    if (changedTexts.length > 0) return changedTexts;
    if (before.length !== after?.length) return [`${path}: ${before.length} became ${after?.length}`];
  }
  return Object.entries(before).flatMap(([name, value]) => listDifferences(value, after?.[name], `${path} ${name}`));
}

/** Lists the texts that only one of two arrays contains. */
function listChangedTexts(before, after) {
  return [
    ...listMissingTexts(before, after).map((text) => `"${text}" is missing`),
    ...listMissingTexts(after, before).map((text) => `"${text}" is new`),
  ];
}

const listMissingTexts = (from, others) => from.filter((one) => typeof one === 'string' && !others.includes(one));
