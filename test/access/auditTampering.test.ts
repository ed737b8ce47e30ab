import type { AuditLog as Trail } from '../../src/access';
import { createAccessRepositories, AuditArchive, AuditQueries, AuditLog, openCursors } from '../../src/access';
import { UnitOfWork } from '../../src/database';
import { computeEventHash, type HashedColumns } from '../../src/access/audit/auditEvent';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';

const A_DAY = 86_400_000;
const CHAIN = '01900000-0000-7000-8000-000000000001';
const KEY = { keyId: 'key-1', keyPrefix: 'plr_abcdef', organizationId: CHAIN, ownerUserId: 'user-1', isAdmin: false };
const findCall = (requestId: string): Parameters<Trail['begin']>[0] => ({
  method: '/Devices/Update',
  requestId,
  peer: '192.0.2.7',
  key: KEY,
  keyPrefix: '',
  resource: 'devices/device-1',
  fields: ['name'],
});
const DONE = { outcome: 'succeeded', reason: '', resource: 'devices/device-1' } as const;
const NO_FILTER = {
  from: undefined,
  to: undefined,
  keyId: undefined,
  userId: undefined,
  methods: undefined,
  resource: undefined,
  outcome: undefined,
  requestId: undefined,
};
type Row = HashedColumns & { hash: string; subject: string };

describe.each(engines())('an audit trail that was changed in the database, on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let log: MemoryLog;
  let trail: AuditLog;
  beforeEach(async () => {
    db = await engine.createDatabase();
    clock = new TestClock();
    log = new MemoryLog();
    trail = new AuditLog({ database: db.database, clock, log, retentionDays: 30 });
    await trail.start();
  });
  afterEach(async () => {
    await trail.close();
    await db.drop();
  });

  const rows = async (): Promise<Row[]> =>
    await db.database.db.knex('audit_events').where({ chain: CHAIN }).orderBy('seq').select<Row[]>('*');
  const archive = (): AuditArchive => new AuditArchive(db.database);
  const faults = async (expected?: { seq: number; hash: string }): Promise<string[]> =>
    (await archive().verify(CHAIN, expected, () => {})).errors.map(({ what, seq }) => `${what} ${seq}`);
  const listMissingChains = async (): Promise<string[]> => {
    const found: string[] = [];
    for await (const chain of archive().listOrganizationsWithoutChain()) found.push(chain);
    return found;
  };
  const listed = async (): Promise<number[]> =>
    (await archive().listNewest(CHAIN, NO_FILTER, 1000)).map(({ seq }) => seq);
  const change = async (count: number): Promise<void> => {
    for (let i = 1; i <= count; i++) trail.end(await trail.begin(findCall(`request-${i}`)), DONE);
    await trail.flush();
  };

  it('seals a change whose begin event was deleted, and reports it', async () => {
    const entry = await trail.begin(findCall('request'));
    await db.database.db.knex('audit_pending').delete();
    trail.end(entry, DONE);
    trail.end(entry, { ...DONE, outcome: 'failed' }); // of two end events the first one counts
    await trail.flush();
    trail.end(entry, { ...DONE, outcome: 'failed' });
    await trail.flush();
    expect((await rows()).map((row) => [row.seq, row.request_id, row.outcome])).toEqual([[1, 'request', 'succeeded']]);
    expect(log.of('audit.chain_truncated')).toEqual([expect.objectContaining({ request_id: 'request' })]);
    expect(await faults()).toEqual([]);
  });

  it('detects events that were inserted before the beginning or after the end, and lists none of them', async () => {
    await change(3);
    const { knex } = db.database.db;
    const [row] = await rows();
    for (const seq of [-7, 0, 9]) await knex('audit_events').insert({ ...row, seq, id: `inserted ${seq}` });
    expect((await faults()).toSorted()).toEqual(['inserted -7', 'inserted 0', 'inserted 4']);
    expect(await listed()).toEqual([3, 2, 1]);
    await knex('audit_events').whereIn('seq', [-7, 0, 9]).delete();
    const before = await rows();
    clock.advance(32 * A_DAY);
    await trail.runMaintenance();
    expect((await rows()).map(({ seq }) => seq)).toEqual([4]);
    // as while the retention deletes events
    await knex('audit_events').insert(before.slice(1).map((one) => ({ ...one })));
    expect([await faults(), await listed()]).toEqual([[], [4]]);
    await knex('audit_events').where({ seq: 2 }).update({ seq: 1 });
    expect(await faults()).toEqual(['inserted 1']);
    await knex('audit_events')
      .where({ seq: 3 })
      .update({ hash: '1'.repeat(64) });
    expect(await faults()).toEqual(['inserted 3', 'inserted 1']);
  });

  it('rejects a retention that deleted too recent events, and a head from before the beginning', async () => {
    await change(4);
    const stored = await rows();
    const [, second, third, last] = stored as [Row, Row, Row, Row];
    const { knex } = db.database.db;
    const fake = async (resource: string): Promise<void> => {
      const columns = {
        ...last,
        seq: 5,
        id: `fake ${resource}`,
        at: clock.now(),
        actor: 'server',
        key_id: null,
        key_prefix: '',
        user_id: null,
        peer: '',
        method: 'audit retention',
        resource,
        fields: '[]',
      };
      const event = {
        ...columns,
        subject: resource.split('/', 2).join('/'),
        hash: computeEventHash(last.hash, columns),
      };
      await knex('audit_events').where({ chain: CHAIN }).delete();
      await knex('audit_events').insert(event);
      await knex('audit_chains')
        .where({ chain: CHAIN })
        .update({ first_seq: 5, first_previous: last.hash, last_seq: 5, last_hash: event.hash });
    };
    for (const rest of ['', `/${new Date(last.at).toISOString()}/30d`, `/${new Date(last.at).toISOString()}/0d`]) {
      await fake(`audit-events/1..4/${last.hash}${rest}`);
      expect(await faults()).toEqual(['beginning mismatch 5']);
    }
    // only a noted head detects a forged event of retention too
    await fake(`audit-events/1..4/${last.hash}/${new Date(last.at - 40 * A_DAY).toISOString()}/30d`);
    expect(await faults()).toEqual([]);
    expect(await faults({ seq: 3, hash: third.hash })).toEqual(['not verifiable 3']);
    expect(await faults({ seq: 4, hash: second.hash })).toEqual(['head mismatch 4']);
    expect(await faults({ seq: 4, hash: last.hash })).toEqual([]);
  });

  it('lets only one of two processes shorten a chain', async () => {
    await change(3);
    clock.advance(32 * A_DAY);
    const otherDatabase = await db.open();
    const other = new AuditLog({ database: otherDatabase, clock, log, retentionDays: 30 });
    await Promise.all([trail.runMaintenance(), other.runMaintenance()]);
    await other.close();
    await otherDatabase.close();
    expect((await rows()).map(({ seq, method }) => [seq, method])).toEqual([[4, 'audit retention']]);
    expect(await faults()).toEqual([]);
  });

  it('stores no half character in an event that a stopped server began', async () => {
    const stoppedLog = new AuditLog({ database: db.database, clock, log, retentionDays: 30 });
    await stoppedLog.begin({ ...findCall('request'), resource: `devices/${'x'.repeat(291)}\u{1F600}` });
    await trail.recordAbandonedChanges();
    expect((await rows()).map(({ outcome }) => outcome)).toEqual(['unknown']);
    expect(await faults()).toEqual([]);
  });

  it('lists the sealed events while nothing can be sealed', async () => {
    await change(2);
    const entry = await trail.begin(findCall('waits'));
    const { knex } = db.database.db;
    const queries = new AuditQueries({
      database: db.database,
      trail,
      cursors: await openCursors(new UnitOfWork(db.database, createAccessRepositories)),
      findMethodPaths: (name) => [name],
    });
    const list = async (): Promise<number[]> =>
      (await queries.list(CHAIN, { ...NO_FILTER, method: undefined }, 10, '', new AbortController().signal)).events.map(
        ({ seq }) => seq,
      );
    await knex.raw('alter table audit_pending rename to audit_away');
    trail.end(entry, DONE);
    expect(await list()).toEqual([2, 1]);
    await knex.raw('alter table audit_away rename to audit_pending');
    expect(await list()).toEqual([3, 2, 1]);
  });

  it('reports a missing chain of an organization', async () => {
    const at = clock.now();
    await db.database.db.knex('organizations').insert({
      id: CHAIN,
      name: 'x',
      name_folded: 'x',
      created_at: at,
      updated_at: at,
      revision: 1,
      reading_retention_days: 30,
    });
    expect(await listMissingChains()).toEqual([CHAIN]);
    const next = async (): Promise<void> => {
      const server = new AuditLog({ database: db.database, clock, log, retentionDays: 30 });
      await server.start();
      await server.close();
    };
    await next(); // happens only once, for organizations older than the audit trail
    expect([await listMissingChains(), await faults(), (await rows()).map(({ method }) => method)]).toEqual([
      [],
      [],
      ['audit trail begins'],
    ]);
    for (const table of ['audit_events', 'audit_chains'])
      await db.database.db.knex(table).where({ chain: CHAIN }).delete();
    await next();
    expect(await faults()).toEqual(['removed 1']);
    await change(1);
    expect([await listMissingChains(), await faults()]).toEqual([[], []]);
    expect((await archive().verify('', undefined, () => {})).errors).toEqual([]); // no event has happened in it yet
  });
});
