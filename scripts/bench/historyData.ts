import { join } from 'node:path';
import { openDatabase, type Database } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { print } from './measure';
import type { Site, Valve } from './site';

/** The amount of data that exists in addition to what is measured. */
export interface History {
  readonly devices: number;
  readonly finished: number;
}

/** SQL expressions for the columns that differ from the copied row. */
type Columns = Readonly<Record<string, string>>;

const CHUNK = 20_000;
const createIdExpression = (kind: string, number: string): string =>
  `'${kind}0000000-0000-7000-8000-' || substr(cast(1000000000000 + (${number}) as text), 2)`;
const createValveId = (number: number): string => `0000000-0000-7000-8000-${String(number).padStart(12, '0')}`;

/**
 * Copies the only valve of a site, and its only execution with its events, by SQL, into many devices and finished
 * executions, which are distributed over the valves. No server may be running. Returns the valves.
 */
export async function createHistory(site: Site, { devices, finished }: History): Promise<Valve[]> {
  const database = await openDatabase({ url: '', dataDir: join(site.server.folder, 'data'), log: silentLogger });
  try {
    await copyDevices(database, site, devices);
    await copyExecutions(database, site, devices, finished);
  } finally {
    await database.close();
  }
  return Array.from({ length: devices }, (_, at) => ({
    deviceId: `d${createValveId(at)}`,
    commandId: `c${createValveId(at)}`,
  }));
}

async function copyDevices(
  database: Database,
  { valves: [valve], connectionId }: Site,
  devices: number,
): Promise<void> {
  const deviceId = valve?.deviceId;
  const device = createIdExpression('d', 'n.n - 1');
  await copyRows(database, 'digital_devices', { id: deviceId }, devices, {
    id: device,
    name: `'History ' || n.n`,
    name_folded: `'history ' || n.n`,
  });
  await copyRows(database, 'physical_devices', { device_id: deviceId }, devices, {
    id: createIdExpression('b', 'n.n - 1'),
    device_id: device,
    client_device_id: `'history-' || n.n`,
  });
  await copyRows(database, 'commands', { device_id: deviceId }, devices, {
    id: createIdExpression('c', 'n.n - 1'),
    device_id: device,
  });
  await database.transaction(
    async ({ knex }) =>
      await knex('organization_counters')
        .whereIn('name', ['devices', `devices:${connectionId}`])
        .increment('value', devices),
  );
}

async function copyExecutions(
  database: Database,
  { valves: [valve] }: Site,
  devices: number,
  finished: number,
): Promise<void> {
  const { knex } = database.db;
  const [{ id, organization_id }] = (await knex('executions')
    .where({ device_id: valve?.deviceId, final: 1 })
    .limit(1)) as [{ id: string; organization_id: string }];
  const events = Number(
    (await knex('execution_events').where({ execution_id: id }).count({ rows: '*' }).first())?.['rows'],
  );
  const counter = { organization_id, name: 'execution_events' };
  const { value } = (await knex('organization_counters').where(counter).first()) as { value: number };
  const deviceNumber = `(n.n - 1) % ${devices}`;
  const device = createIdExpression('d', deviceNumber);
  const ago = (column: string): string => `t.${column} - (${finished} - n.n) * 10`; // 10 ms apart
  const times = Object.fromEntries(
    ['enqueued_at', 'dispatched_at', 'delivered_at', 'finished_at', 'updated_at'].map((column) => [
      column,
      ago(column),
    ]),
  );
  const order = `${value} + (n.n - 1) * ${events}`;
  await copyRows(database, 'executions', { id }, finished, {
    id: createIdExpression('e', 'n.n'),
    device_id: device,
    physical_device_id: createIdExpression('b', deviceNumber),
    command_id: createIdExpression('c', deviceNumber),
    queue_order: `${order} + 1`,
    ...times,
  });
  await copyRows(database, 'execution_events', { execution_id: id }, finished, {
    execution_id: createIdExpression('e', 'n.n'),
    device_id: device,
    position: `${order} + t.sequence`,
    time: ago('time'),
  });
  await database.transaction(
    async (db) =>
      await db
        .knex('organization_counters')
        .where(counter)
        .increment('value', finished * events),
  );
}

/** Adds `count` copies of the matching rows; in expressions, `n.n` is the number of the copy, from 1. */
async function copyRows(
  database: Database,
  table: string,
  match: Readonly<Record<string, unknown>>,
  count: number,
  columns: Columns,
): Promise<void> {
  const sample = (await database.db.knex(table).where(match).first()) as Record<string, unknown>;
  const names = Object.keys(sample).filter((name) => name !== 'seq');
  const [where, value] = Object.entries(match)[0] as [string, string];
  const started = performance.now();
  for (let first = 1; first <= count; first += CHUNK) {
    const last = Math.min(count, first + CHUNK - 1);
    const numbers = `with recursive n(n) as (select ${first} union all select n.n + 1 from n where n.n < ${last})`;
    const sql = `insert into ${table} (${names.join(', ')}) ${numbers} select ${names.map((name) => columns[name] ?? `t.${name}`).join(', ')} from n cross join ${table} t where t.${where} = ?`;
    await database.transaction(async ({ knex }) => await knex.raw(sql, [value]));
  }
  const seconds = (performance.now() - started) / 1000;
  if (seconds > 3) print(`  ${table}: ${count} copies in ${seconds.toFixed(0)} s`);
}
