import type { AuditTrail as Trail } from '../../src/access';
import { accessRepositories, AuditArchive, AuditQueries, AuditTrail, openCursors } from '../../src/access';
import { UnitOfWork } from '../../src/database';
import { eventHash, type HashedColumns } from '../../src/access/audit/auditEvent';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';

const A_DAY = 86_400_000;
const CHAIN = '01900000-0000-7000-8000-000000000001';
const KEY = { keyId: 'key-1', keyPrefix: 'plr_abcdef', organizationId: CHAIN, ownerUserId: 'user-1', isAdmin: false };
const callOf = (requestId: string): Parameters<Trail['begin']>[0] => ({ method: '/Devices/Update', requestId, peer: '192.0.2.7', key: KEY, keyPrefix: '', resource: 'devices/device-1', fields: ['name'] });
const DONE = { outcome: 'succeeded', reason: '', resource: 'devices/device-1' } as const;
const NO_FILTER = { from: undefined, to: undefined, keyId: undefined, userId: undefined, methods: undefined, resource: undefined, outcome: undefined, requestId: undefined };
type Row = HashedColumns & { hash: string; subject: string };

describe.each(engines())('what somebody does to the trail in the database, on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let log: MemoryLog;
  let trail: AuditTrail;
  beforeEach(async () => {
    db = await engine.createDatabase();
    clock = new TestClock();
    log = new MemoryLog();
    trail = new AuditTrail({ database: db.database, clock, log, retentionDays: 30 });
    await trail.start();
  });
  afterEach(async () => {
    await trail.close();
    await db.drop();
  });

  const rows = async (): Promise<Row[]> => await db.database.db.knex('audit_events').where({ chain: CHAIN }).orderBy('seq').select<Row[]>('*');
  const archive = (): AuditArchive => new AuditArchive(db.database);
  const faults = async (expected?: { seq: number; hash: string }): Promise<string[]> => (await archive().check(CHAIN, expected, () => {})).faults.map(({ what, seq }) => `${what} ${seq}`);
  const without = async (): Promise<string[]> => {
    const found: string[] = [];
    for await (const chain of archive().organizationsWithout()) found.push(chain);
    return found;
  };
  const listed = async (): Promise<number[]> => (await archive().newest(CHAIN, NO_FILTER, 1000)).map(({ seq }) => seq);
  const change = async (count: number): Promise<void> => {
    for (let i = 1; i <= count; i++) trail.end(await trail.begin(callOf(`request-${i}`)), DONE);
    await trail.flush();
  };

  it('seals a change whose beginning was removed, and says so', async () => {
    const begun = await trail.begin(callOf('request'));
    await db.database.db.knex('audit_pending').delete();
    trail.end(begun, DONE);
    trail.end(begun, { ...DONE, outcome: 'failed' }); // of two ends the first counts
    await trail.flush();
    trail.end(begun, { ...DONE, outcome: 'failed' });
    await trail.flush();
    expect((await rows()).map((row) => [row.seq, row.request_id, row.outcome])).toEqual([[1, 'request', 'succeeded']]);
    expect(log.of('audit.beginning_gone')).toEqual([expect.objectContaining({ request_id: 'request' })]);
    expect(await faults()).toEqual([]);
  });

  it('finds events that were put before the beginning or behind the end, and lists none of them', async () => {
    await change(3);
    const { knex } = db.database.db;
    const [row] = await rows();
    for (const seq of [-7, 0, 9]) await knex('audit_events').insert({ ...row, seq, id: `inserted ${seq}` });
    expect((await faults()).toSorted()).toEqual(['inserted -7', 'inserted 0', 'inserted 4']);
    expect(await listed()).toEqual([3, 2, 1]);
    await knex('audit_events').whereIn('seq', [-7, 0, 9]).delete();
    const before = await rows();
    clock.advance(32 * A_DAY);
    await trail.lookAfter();
    expect((await rows()).map(({ seq }) => seq)).toEqual([4]);
    await knex('audit_events').insert(before.slice(1).map((one) => ({ ...one }))); // as it is while the retention removes
    expect([await faults(), await listed()]).toEqual([[], [4]]);
    await knex('audit_events').where({ seq: 2 }).update({ seq: 1 });
    expect(await faults()).toEqual(['inserted 1']);
    await knex('audit_events').where({ seq: 3 }).update({ hash: '1'.repeat(64) });
    expect(await faults()).toEqual(['inserted 3', 'inserted 1']);
  });

  it('takes no retention that removed what was younger than it may, and no head from before the beginning', async () => {
    await change(4);
    const stored = await rows();
    const [, second, third, last] = stored as [Row, Row, Row, Row];
    const { knex } = db.database.db;
    const fake = async (resource: string): Promise<void> => {
      const columns = { ...last, seq: 5, id: `fake ${resource}`, at: clock.now(), actor: 'server', key_id: null, key_prefix: '', user_id: null, peer: '', method: 'audit retention', resource, fields: '[]' };
      const event = { ...columns, subject: resource.split('/', 2).join('/'), hash: eventHash(last.hash, columns) };
      await knex('audit_events').where({ chain: CHAIN }).delete();
      await knex('audit_events').insert(event);
      await knex('audit_chains').where({ chain: CHAIN }).update({ first_seq: 5, first_previous: last.hash, last_seq: 5, last_hash: event.hash });
    };
    for (const rest of ['', `/${new Date(last.at).toISOString()}/30d`, `/${new Date(last.at).toISOString()}/0d`]) {
      await fake(`audit-events/1..4/${last.hash}${rest}`);
      expect(await faults()).toEqual(['beginning does not fit 5']);
    }
    await fake(`audit-events/1..4/${last.hash}/${new Date(last.at - 40 * A_DAY).toISOString()}/30d`); // whoever lies about this too is found by a head alone
    expect(await faults()).toEqual([]);
    expect(await faults({ seq: 3, hash: third.hash })).toEqual(['cannot be told 3']);
    expect(await faults({ seq: 4, hash: second.hash })).toEqual(['head does not fit 4']);
    expect(await faults({ seq: 4, hash: last.hash })).toEqual([]);
  });

  it('lets of two who shorten a chain only one do it', async () => {
    await change(3);
    clock.advance(32 * A_DAY);
    const elsewhere = await db.open();
    const other = new AuditTrail({ database: elsewhere, clock, log, retentionDays: 30 });
    await Promise.all([trail.lookAfter(), other.lookAfter()]);
    await other.close();
    await elsewhere.close();
    expect((await rows()).map(({ seq, method }) => [seq, method])).toEqual([[4, 'audit retention']]);
    expect(await faults()).toEqual([]);
  });

  it('keeps no half of a character in an event that was begun by a server that is gone', async () => {
    const gone = new AuditTrail({ database: db.database, clock, log, retentionDays: 30 });
    await gone.begin({ ...callOf('request'), resource: `devices/${'x'.repeat(291)}\u{1F600}` });
    await trail.recover();
    expect((await rows()).map(({ outcome }) => outcome)).toEqual(['unknown']);
    expect(await faults()).toEqual([]);
  });

  it('lists what is sealed while nothing can be sealed', async () => {
    await change(2);
    const begun = await trail.begin(callOf('waits'));
    const { knex } = db.database.db;
    const queries = new AuditQueries({ database: db.database, trail, cursors: await openCursors(new UnitOfWork(db.database, accessRepositories)), methodsNamed: (name) => [name] });
    const list = async (): Promise<number[]> => (await queries.list(CHAIN, { ...NO_FILTER, method: undefined }, 10, '', new AbortController().signal)).events.map(({ seq }) => seq);
    await knex.raw('alter table audit_pending rename to audit_away');
    trail.end(begun, DONE);
    expect(await list()).toEqual([2, 1]);
    await knex.raw('alter table audit_away rename to audit_pending');
    expect(await list()).toEqual([3, 2, 1]);
  });

  it('misses the chain of an organization that has none', async () => {
    const at = clock.now();
    await db.database.db.knex('organizations').insert({ id: CHAIN, name: 'x', name_folded: 'x', created_at: at, updated_at: at, revision: 1, reading_retention_days: 30 });
    expect(await without()).toEqual([CHAIN]);
    const next = async (): Promise<void> => {
      const server = new AuditTrail({ database: db.database, clock, log, retentionDays: 30 });
      await server.start();
      await server.close();
    };
    await next(); // once ever, for those from before there was a trail
    expect([await without(), await faults(), (await rows()).map(({ method }) => method)]).toEqual([[], [], ['audit trail begins']]);
    for (const table of ['audit_events', 'audit_chains']) await db.database.db.knex(table).where({ chain: CHAIN }).delete();
    await next();
    expect(await faults()).toEqual(['removed 1']);
    await change(1);
    expect([await without(), await faults()]).toEqual([[], []]);
    expect((await archive().check('', undefined, () => {})).faults).toEqual([]); // nothing has happened there yet
  });
});
