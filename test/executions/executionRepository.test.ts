import type { Database } from '../../src/database';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { statements as common } from '../../src/executions/store/executionStatements';
import { ExecutionStore } from '../../src/executions/changes/executionStore';
import { openStatements } from '../../src/executions/store/openStatements';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';
import { type ExecutionFixture, prepare, startExecutionFixture } from './executionFixture';

const statements = { ...common, ...openStatements };
const SOURCE = { source: 'test' };

/** Returns the engine's query plan of a statement as text. */
async function getPlan(
  engine: TestEngine['name'],
  database: Database,
  sql: string,
  values: readonly (string | number)[],
): Promise<string> {
  const bound = values.reduce<string>(
    (text, value) => text.replace('?', typeof value === 'number' ? String(value) : `'${value}'`),
    sql,
  );
  if (engine === 'sqlite') {
    const rows: { detail: string }[] = await database.db.knex.raw(`explain query plan ${bound}`);
    return rows.map((row) => row.detail).join('\n');
  }
  const { rows } = (await database.db.knex.raw(`explain ${bound}`)) as { rows: Record<string, string>[] };
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

/** Creates a history: copies of one execution, most of them final, over several devices and connections. */
async function createHistory(database: Database, executionId: string): Promise<void> {
  const [row] = await database.db.knex('executions').where('id', executionId).select<Record<string, unknown>[]>('*');
  const copies = Array.from({ length: 4000 }, (_, at): Record<string, unknown> => {
    const open = at % 40 === 0;
    const place = {
      device_id: `d-${at % 20}`,
      physical_device_id: `p-${at}`,
      connection_id: `c-${at % 10}`,
      command_id: `k-${at % 50}`,
    };
    const end = open
      ? { final: 0, next_deadline: at }
      : { final: 1, next_deadline: null, state: 'unconfirmed', finished_at: at };
    return {
      ...row,
      ...place,
      ...end,
      id: `copy-${at}`,
      dedupe_key: open ? `key-${at}` : null,
      updated_at: at,
      queue_order: at,
    };
  });
  const events = copies.map(({ id }, at) => ({
    organization_id: 'org-2',
    position: at + 1,
    execution_id: id,
    device_id: 'd',
    sequence: 1,
    time: at,
    layer: 1,
    event: 'e',
    to_state: 'enqueued',
    source: 's',
    data: '{}',
  }));
  await database.transaction(async ({ knex }) => {
    for (let start = 0; start < copies.length; start += 100) {
      await knex('executions').insert(copies.slice(start, start + 100));
      await knex('execution_events').insert(events.slice(start, start + 100));
    }
  });
}

describe.each(engines())('the execution repository on $name', ({ name, createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    fixture = await startExecutionFixture(db.database);
    await createHistory(db.database, (await fixture.execute(await fixture.target())).executionId);
    // An installation with SQLite has no statistics.
    if (name === 'postgres') await db.database.db.knex.raw('analyze');
  });
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });

  it.each([
    ['page', ['org-1', 'd', 9, 'x', 50], ['executions_page']],
    ['head', ['org-1', 'c', 'p'], ['executions_queue', 'executions_slot']],
    ['queues', ['org-1', 'c'], ['executions_queue']],
    ['openCounts', ['org-1', 'd'], ['executions_open_device']],
    ['openOfDevice', ['org-1', 'd', 20], ['executions_open_device']],
    ['awaitingUplink', ['org-1', 'd', 'p'], ['executions_open_device']],
    ['verifyingBefore', ['org-1', 'd', 'org-1', 'e'], ['executions_open_device']],
    ['queriesOf', ['org-1', 'e'], ['executions_parent']],
    ['slot', ['org-1', 'p'], ['executions_slot']],
    ['inTransit', ['org-1', 'c', '', 100], ['executions_open_connection']],
    ['inTransitOnLostLink', ['org-1', 'c', '', 20], ['executions_open_connection']],
    ['duplicateCandidates', ['org-1', 'd'], ['executions_dedupe']],
    ['due', [9, 0, 100, 0], ['executions_deadline']],
    ['nextDeadline', [9], ['executions_deadline']],
    ['deleteFinished', [9, 200], ['executions_retention']],
    ['eventsOf', ['org-1', 'e'], ['execution_events_log']],
    ['eventsAfter', ['org-2', 9, 50], ['execution_events']],
  ] as const)('finds %s with an index', async (statement, values, indexes) => {
    const plan = await getPlan(name, db.database, statements[statement].sql(db.database.dialect), values);
    for (const index of indexes) expect(plan).toContain(index);
    expect(plan).not.toMatch(/^SCAN \w+$|Seq Scan on execution/m);
    if (statement === 'page') expect(plan).not.toMatch(/sort|b-tree/i);
  });

  it.each([
    ['page', ['params', 'payload_json', 'payload_bytes', 'expected', 'policy', 'violations']],
    ['view', ['payload_json', 'payload_bytes', 'expected']],
    ['openOfDevice', ['params', 'payload_json', 'payload_bytes', 'query']],
    ['withoutPayload', ['params', 'payload_json', 'payload_bytes', 'query']],
    ['verifyingBefore', ['params', 'payload_json', 'payload_bytes', 'query']],
    ['inTransitOnLostLink', ['params', 'payload_json', 'payload_bytes', 'query']],
    ['withExpiredTimers', ['params', 'payload_json', 'payload_bytes', 'query']],
  ] as const)('does not load large columns for %s without need', (statement, unneededColumns) => {
    const sql = statements[statement].sql(db.database.dialect);
    expect(unneededColumns.filter((column) => sql.includes(`e.${column},`))).toEqual([]);
  });

  it('stores a change only on the version that was read, together with its event', async () => {
    const { executionId } = await fixture.execute(await fixture.target());
    const executionStore = new ExecutionStore({ clock: new TestClock(), onCommitted: () => {} });
    const { database } = db;
    const execution = await new ExecutionRepository(database.db).get('org-1', executionId);
    const change = executionStore.plan(execution, { kind: 'cancelled' }, SOURCE);
    const store = async (): Promise<number> =>
      (await database.transaction(async (tx) => await executionStore.save(tx, 'org-1', change ? [change] : []))).length;
    expect(await Promise.all([store(), store()])).toEqual(expect.arrayContaining([1, 0]));
    expect((await fixture.get(executionId)).events.map((event) => event.event)).toEqual(['submitted', 'cancelled']);
  });

  it('has no gap in its positions when a change is rolled back', async () => {
    const positions = async (): Promise<number[]> =>
      await db.database.db
        .knex('execution_events')
        .where('organization_id', 'org-1')
        .orderBy('position')
        .pluck<number[]>('position');
    const { executionId } = await fixture.execute(await fixture.target());
    const executionStore = new ExecutionStore({ clock: new TestClock(), onCommitted: () => {} });
    const change = executionStore.plan(
      await new ExecutionRepository(db.database.db).get('org-1', executionId),
      { kind: 'cancelled' },
      SOURCE,
    );
    const failing = db.database.transaction(async (tx) => {
      await executionStore.save(tx, 'org-1', change ? [change] : []);
      throw new Error('on purpose');
    });
    await expect(failing).rejects.toThrow('on purpose');
    await fixture.execute(await fixture.target());
    const all = await positions();
    expect(all).toEqual(all.map((_, at) => at + 1));
  });

  it('allows one slot per physical device, across organizations', async () => {
    const target = await fixture.target({ command: { paramsSchema: { n: { type: 2, enum: [] } } as never } });
    const ids = await Promise.all(
      [1, 2].map(async (n) => (await fixture.execute(target, { params: { n } })).executionId),
    );
    const { knex } = db.database.db;
    await knex('executions')
      .where('id', ids[0] ?? '')
      .update({ holds_slot: 1 });
    await expect(
      knex('executions')
        .where('id', ids[1] ?? '')
        .update({ holds_slot: 1 }),
    ).rejects.toThrow(/unique/i);
  });

  it('preserves bytes and empty fields', async () => {
    const executions = new ExecutionRepository(db.database.db);
    const { executionId } = await fixture.execute(await fixture.target());
    const first = await executions.get('org-1', executionId);
    const copy = {
      ...first,
      id: `${first.id}-bytes`,
      payload: { kind: 'bytes', bytes: new Uint8Array([0, 255, 7]) } as const,
      params: { a: [null, { b: 'ü' }] },
      evidence: 'sensor' as const,
    };
    const executionStore = new ExecutionStore({ clock: new TestClock(), onCommitted: () => {} });
    await db.database.transaction(async (tx) => await executionStore.create(tx, copy, undefined, SOURCE));
    const { payload, ...rest } = await executions.get('org-1', copy.id);
    const { payload: _given, ...given } = copy;
    expect(rest).toEqual(given);
    expect(payload?.kind === 'bytes' && [...payload.bytes]).toEqual([0, 255, 7]);
  });
});
