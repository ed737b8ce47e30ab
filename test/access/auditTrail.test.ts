import type { AuditTrail as Trail } from '../../src/access';
import { AuditArchive, AuditTrail, CommandLineAudit } from '../../src/access';
import { AuditListRepository, type AuditFilter } from '../../src/access/audit/auditListRepository';
import type { Database } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { planOf } from '../support/planOf';
import { TestClock } from '../support/testClock';

const A_DAY = 86_400_000;
const ORGANIZATION = '01900000-0000-7000-8000-000000000001';
const KEY = { keyId: 'key-1', keyPrefix: 'plr_abcdef', organizationId: ORGANIZATION, ownerUserId: 'user-1', isAdmin: false };
const METHOD = '/digitaldevice.v2.DigitalDeviceService/UpdateDigitalDevice';
const callOf = (overrides: Partial<Parameters<Trail['begin']>[0]> = {}) => ({ method: METHOD, requestId: 'request-1', peer: '192.0.2.7', key: KEY, keyPrefix: '', resource: 'devices/device-1', fields: ['name'], ...overrides });
const DONE = { outcome: 'succeeded', reason: '', resource: 'devices/device-1' } as const;
const REFUSED = { outcome: 'refused' as const, reason: 'scope_missing', resource: '' };

describe.each(engines())('the audit trail on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let log: MemoryLog;
  let trail: AuditTrail;
  const open = (database: Database): AuditTrail => new AuditTrail({ database, clock, log, retentionDays: 30 });
  const rows = async (chain = ORGANIZATION): Promise<readonly Record<string, unknown>[]> => await db.database.db.knex('audit_events').where({ chain }).orderBy('seq').select('*');
  const pending = async (): Promise<number> => (await db.database.db.knex('audit_pending').select('id')).length;
  const faults = async (chain = ORGANIZATION, expected?: { seq: number; hash: string }): Promise<string[]> =>
    (await new AuditArchive(db.database).check(chain, expected, () => {})).faults.map(({ what, seq }) => `${what} ${seq}`);
  const change = async (overrides: Parameters<typeof callOf>[0] = {}): Promise<void> => trail.end(await trail.begin(callOf(overrides)), { ...DONE, resource: overrides.resource ?? DONE.resource });

  beforeEach(async () => {
    db = await engine.createDatabase();
    clock = new TestClock();
    log = new MemoryLog();
    trail = open(db.database);
    await trail.start();
  });
  afterEach(async () => {
    await trail.close();
    await db.drop();
  });

  it('has a change on disk before it begins, and its end in the chain with all that is known of it', async () => {
    const begun = await trail.begin(callOf());
    expect([await pending(), (await rows()).length]).toEqual([1, 0]);
    trail.end(begun, { outcome: 'refused', reason: 'device_not_found', resource: 'devices/device-1/sensors/sensor-1' });
    trail.end(begun, DONE); // there is only one end
    await trail.flush();
    expect(await pending()).toBe(0);
    expect(await rows()).toMatchObject([
      { seq: 1, at: clock.now(), actor: 'key', key_id: 'key-1', key_prefix: 'plr_abcdef', user_id: 'user-1', peer: '192.0.2.7', method: METHOD, resource: 'devices/device-1/sensors/sensor-1', subject: 'devices/device-1', fields: '["name"]', outcome: 'refused', reason: 'device_not_found', request_id: 'request-1', count: 1 },
    ]);
    expect(await faults()).toEqual([]);
  });

  it('says unknown of what a process that is gone had begun, but of no command that may still run', async () => {
    const gone = open(db.database);
    await gone.begin(callOf());
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const { promise: working, resolve: finish } = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const command = commands.change('keys revoke', { organizationId: ORGANIZATION, resource: 'api-keys/key-1' }, async () => {
      started.resolve();
      await working;
    });
    await started.promise;
    const mine = await trail.begin(callOf());
    await trail.recover();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['unknown']);
    expect(await pending()).toBe(2);
    clock.advance(11 * 60_000);
    await trail.recover();
    expect((await rows()).map((row) => row['actor'])).toEqual(['key', 'command_line']);
    finish(); // it lived after all: what was sealed stands
    await command;
    trail.end(mine, DONE);
    await trail.flush();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['unknown', 'unknown', 'succeeded']);
    expect(await pending()).toBe(0);
  });

  it('keeps what commands changed, what they were refused and what failed', async () => {
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const organization = { organizationId: ORGANIZATION };
    expect(await commands.change('keys create', { ...organization, resource: 'api-keys', fields: ['name'] }, async () => ({ id: ORGANIZATION }), ({ id }) => `api-keys/${id}`)).toEqual({ id: ORGANIZATION });
    await expect(commands.change('keys revoke', organization, () => Promise.reject(new DomainError('not_found', 'api_key_not_found', 'no')))).rejects.toThrow('no');
    await expect(commands.change('keys rotate', organization, () => Promise.reject(new Error('boom')))).rejects.toThrow('boom');
    expect(await rows()).toMatchObject([
      { actor: 'command_line', method: 'keys create', resource: `api-keys/${ORGANIZATION}`, fields: '["name"]', outcome: 'succeeded', key_id: null },
      { method: 'keys revoke', outcome: 'refused', reason: 'api_key_not_found' },
      { method: 'keys rotate', outcome: 'failed', reason: 'internal' },
    ]);
    expect((await rows())[0]?.['peer']).not.toBe('');
    expect(await faults()).toEqual([]);
  });

  it('keeps what commands change for all organizations in the trail of each, if they change anything', async () => {
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const [other, deleted] = ['01900000-0000-7000-8000-000000000002', '01900000-0000-7000-8000-000000000003'];
    for (const id of [ORGANIZATION, other, deleted]) await db.database.db.knex('organizations').insert({ id, name: id, name_folded: id, created_at: 1, updated_at: 1, deleted_at: id === deleted ? 2 : null });
    const change = { resource: 'device-profiles', fields: ['vendor'] };
    expect(await commands.changeOfAll('profiles import', change, async () => await Promise.resolve('as before'))).toBe('as before');
    expect([await pending(), (await rows()).length, (await rows('')).length]).toEqual([0, 0, 0]);
    await commands.changeOfAll('profiles import', change, async (begin) => {
      await Promise.all([begin(), begin()]);
      expect([await pending(), (await rows()).length]).toEqual([2, 0]);
    });
    await expect(commands.changeOfAll('profiles remove', { resource: 'device-profiles' }, async (begin) => await begin().then(() => Promise.reject(new Error('boom'))))).rejects.toThrow('boom');
    expect(await pending()).toBe(0);
    for (const chain of [ORGANIZATION, other]) {
      expect(await rows(chain)).toMatchObject([
        { actor: 'command_line', method: 'profiles import', resource: 'device-profiles', fields: '["vendor"]', outcome: 'succeeded' },
        { method: 'profiles remove', fields: '[]', outcome: 'failed', reason: 'internal' },
      ]);
      expect(await faults(chain)).toEqual([]);
    }
    expect([...(await rows(deleted)), ...(await rows(''))]).toEqual([]);
  });

  it('tells equal attempts of a minute once at first and then by their count, whoever floods', async () => {
    const attempt = (overrides: Parameters<typeof callOf>[0] = {}, end = REFUSED): void => trail.note(callOf({ key: undefined, ...overrides }), end);
    for (let i = 0; i < 100_000; i++) attempt();
    attempt({ peer: '192.0.2.8' });
    await trail.flush();
    expect((await rows('')).map((row) => [row['peer'], row['count']])).toEqual([['192.0.2.7', 1], ['192.0.2.8', 1]]);
    clock.advance(60_000);
    attempt();
    await trail.flush();
    expect((await rows('')).slice(2).map((row) => [row['peer'], row['count']])).toEqual([['192.0.2.7', 99_999], ['192.0.2.7', 1]]);
    clock.advance(60_000);
    for (let i = 0; i < 50_000; i++) attempt({ peer: `198.51.${Math.floor(i / 256)}.${i % 256}`, keyPrefix: `plr_${String(i).padStart(6, '0')}` });
    clock.advance(60_000);
    attempt({ key: KEY }); // another chain has room of its own
    attempt({}, { ...REFUSED, reason: 'api_key_missing' });
    await trail.flush();
    const flood = (await rows('')).slice(4);
    expect(flood.length).toBeLessThan(1010);
    expect(flood.reduce((total, row) => total + Number(row['count']), 0)).toBe(50_001);
    expect(flood.find((row) => Number(row['count']) > 1)).toMatchObject({ peer: '', method: METHOD, key_prefix: '', reason: 'scope_missing' });
    expect(await rows()).toHaveLength(1);
    expect(await faults('')).toEqual([]);
  });

  it('tells equal changes that were refused once and by their count, each thing by itself, and of those beyond what they have in common', async () => {
    const refuse = async (of: Parameters<typeof callOf>[0], outcome: 'refused' | 'failed' = 'refused'): Promise<void> => {
      const resource = of?.resource ?? 'devices';
      trail.end(await trail.begin(callOf({ resource, ...of })), { outcome, reason: 'device_not_found', resource });
    };
    for (let i = 0; i < 150; i++) await refuse({ requestId: `same-${i}`, fields: i % 2 ? ['name'] : ['name', 'etag'] });
    for (let i = 0; i < 50; i++) await refuse({ requestId: `gone-${i}` }, 'failed');
    for (let i = 0; i < 1200; i += 30) await Promise.all(Array.from({ length: 30 }, async (_, at) => await refuse({ requestId: `each-${i + at}`, resource: `devices/${i + at}` })));
    await change({ requestId: 'done' });
    await change({ requestId: 'done' });
    const rejected = { outcome: 'refused', reason: 'validation_failed', resource: 'devices/device-1/actuator-executions/execution-1' } as const; // it was stored
    for (let i = 0; i < 2; i++) trail.end(await trail.begin(callOf()), rejected);
    await refuse({ requestId: 'other-key', key: { ...KEY, keyId: 'key-2', ownerUserId: 'user-2' }, resource: 'devices/device-9' });
    await trail.flush();
    expect(await rows()).toHaveLength(1000 + 4); // no room of the kinds was left for the last
    clock.advance(60_000);
    trail.note(callOf({ requestId: 'later' }), REFUSED);
    await trail.flush();
    const counted = (await rows()).slice(1004).map((row) => [row['key_id'], row['user_id'], row['resource'], row['fields'], row['request_id'], row['outcome'], row['count']]);
    expect(counted).toEqual([
      ['key-1', 'user-1', 'devices', '[]', 'same-149', 'refused', 149],
      ['key-1', 'user-1', 'devices', '["name"]', 'gone-49', 'failed', 49],
      ['key-1', 'user-1', '', '["name"]', '', 'refused', 202],
      ['key-2', 'user-2', 'devices/device-9', '["name"]', 'other-key', 'refused', 1],
      ['key-1', 'user-1', '', '["name"]', 'later', 'refused', 1],
    ]);
    expect((await rows()).filter((row) => row['request_id'] === 'done')).toHaveLength(2);
    await trail.close(); // forgets what is left
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('finds whatever column was changed, a row that was removed, inserted or put in the place of another, and a head that was moved', async () => {
    for (let i = 1; i <= 12; i++) await change({ requestId: `request-${i}`, resource: `devices/device-${i}` });
    await trail.flush();
    const { knex } = db.database.db;
    const stored = await rows();
    const head = { seq: 12, hash: String(stored[11]?.['hash']) };
    const restore = async (): Promise<void> => {
      await knex('audit_events').delete();
      await knex('audit_events').insert(stored.map((row) => ({ ...row })));
      await knex('audit_chains').where({ chain: ORGANIZATION }).update({ last_seq: 12, last_hash: head.hash, first_seq: 1, first_previous: '0'.repeat(64) });
    };
    const at = (seq: number) => knex('audit_events').where({ chain: ORGANIZATION, seq });
    expect(await faults(ORGANIZATION, head)).toEqual([]);
    const values = { id: 'other', at: 1, actor: 'server', key_id: 'other', key_prefix: 'plr_zzzzzz', user_id: null, peer: '192.0.2.9', method: 'other', resource: 'devices/other', subject: 'devices/other', fields: '[ "name"]', outcome: 'refused', reason: 'x', request_id: 'other', count: 2, hash: '1'.repeat(64) };
    expect([...Object.keys(values), 'chain', 'seq'].toSorted()).toEqual(Object.keys(stored[0] ?? {}).toSorted());
    for (const [column, value] of Object.entries(values)) {
      await at(5).update({ [column]: value });
      expect([column, (await faults())[0]]).toEqual([column, 'changed 5']);
      await restore();
    }
    for (const seq of [1, 6, 11]) {
      await at(seq).delete();
      expect(await faults()).toEqual([`removed ${seq}`]);
      await restore();
    }
    await knex('audit_events').where('seq', '>', 9).delete();
    expect(await faults()).toEqual(['tail missing 10']);
    await knex('audit_chains').where({ chain: ORGANIZATION }).update({ last_seq: 9, last_hash: String(stored[8]?.['hash']) });
    expect(await faults()).toEqual([]); // whoever writes a whole new head is found by a head that was noted
    expect(await faults(ORGANIZATION, head)).toEqual(['tail missing 12']);
    await restore();
    await knex('audit_events').insert({ ...stored[11], seq: 13, id: 'inserted' });
    expect(await faults()).toEqual(['inserted 13']);
    await restore();
    await at(7).update({ seq: 99 });
    await at(8).update({ seq: 7 });
    await at(99).update({ seq: 8 });
    expect((await faults())[0]).toBe('changed 7');
    await restore();
    await knex('audit_events').where('seq', '<', 4).delete();
    await knex('audit_chains').where({ chain: ORGANIZATION }).update({ first_seq: 4, first_previous: String(stored[2]?.['hash']) });
    expect(await faults()).toEqual(['beginning does not fit 4']);
    await restore();
    await knex('audit_chains').where({ chain: ORGANIZATION }).update({ last_hash: '1'.repeat(64) });
    expect(await faults()).toEqual(['head does not fit 12']);
    await knex('audit_chains').where({ chain: ORGANIZATION }).delete();
    expect(await faults()).toEqual(['head does not fit 12']);
  });

  it('removes what is over its time from the beginning of each chain, with an event that says so', async () => {
    for (let i = 1; i <= 300; i++) await change({ requestId: `request-${i}` });
    await trail.flush();
    clock.advance(20 * A_DAY);
    await change({ requestId: 'younger' });
    await trail.flush();
    clock.advance(10 * A_DAY + A_DAY / 2);
    await trail.lookAfter();
    expect(await rows()).toHaveLength(301); // not yet a whole day over
    clock.advance(A_DAY);
    await trail.lookAfter();
    expect((await rows()).map((row) => [row['seq'], row['request_id'] === 'younger', row['method'], row['actor']])).toEqual([[301, true, METHOD, 'key'], [302, false, 'audit retention', 'server']]);
    expect((await rows())[1]?.['resource']).toMatch(/^audit-events\/1\.\.300\/[0-9a-f]{64}\/2026-01-02T03:04:05\.678Z\/30d$/);
    expect(await faults()).toEqual([]);
    clock.advance(60 * A_DAY);
    await trail.lookAfter();
    expect((await rows()).map((row) => [row['seq'], row['method']])).toEqual([[303, 'audit retention']]);
    expect(await faults()).toEqual([]);
    await change();
    await trail.flush();
    expect((await rows()).map((row) => row['seq'])).toEqual([303, 304]);
    expect(await faults()).toEqual([]);
  });

  it('keeps one chain without gaps when many write at once, from this process and from another', async () => {
    const elsewhere = await db.open();
    const other = open(elsewhere);
    await Promise.all(
      Array.from({ length: 64 }, async (_, i) => {
        const writer = i % 2 === 0 ? trail : other;
        for (let round = 0; round < 5; round++) {
          writer.end(await writer.begin(callOf({ requestId: `${i}-${round}` })), DONE);
          if (round % 2 === 0) await writer.flush();
        }
      }),
    );
    await Promise.all([trail.flush(), other.flush()]);
    await other.close();
    await elsewhere.close();
    expect((await rows()).map((row) => row['seq'])).toEqual(Array.from({ length: 320 }, (_, i) => i + 1));
    expect(new Set((await rows()).map((row) => row['request_id'])).size).toBe(320);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('refuses to begin what cannot be written down, and seals what has ended when the database is there again', async () => {
    const begun = await trail.begin(callOf());
    const { knex } = db.database.db;
    await knex.raw('alter table audit_pending rename to audit_away');
    await expect(trail.begin(callOf())).rejects.toThrow(/audit_pending/);
    trail.end(begun, DONE);
    trail.note(callOf(), REFUSED);
    await expect(trail.flush()).rejects.toThrow(/audit_pending/);
    expect(log.of('audit.sealing_failed')).toHaveLength(1);
    await knex.raw('alter table audit_away rename to audit_pending');
    await trail.flush();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['succeeded', 'refused']);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('goes on though the database refuses an event, and seals of it what can be', async () => {
    const begun = await trail.begin(callOf({ requestId: 'taken' }));
    const { knex } = db.database.db;
    await change();
    await trail.flush();
    await knex('audit_events').insert({ ...(await rows())[0], chain: 'elsewhere', id: begun.id }); // its id is taken: no attempt will ever do
    trail.end(begun, { ...DONE, resource: 'devices/naïve' });
    await change({ requestId: 'behind' });
    for (let refused = 1; refused <= 3; refused++) await expect(trail.flush()).rejects.toThrow(/audit_events/);
    await trail.flush();
    expect((await rows()).map((row) => [row['request_id'], row['resource'], row['outcome'], row['fields']])).toEqual([
      ['request-1', 'devices/device-1', 'succeeded', '["name"]'],
      ['taken', 'devices/na?ve', 'succeeded', '[]'],
      ['behind', 'devices/device-1', 'succeeded', '["name"]'],
    ]);
    expect(log.of('audit.event_reduced')).toMatchObject([{ event_id: begun.id, request_id: 'taken' }]);
    expect([await pending(), await faults()]).toEqual([0, []]);

    // Somebody has put an event behind the end of a chain: it cannot go on, and the others do.
    await knex('audit_events').insert({ ...(await rows())[0], seq: 4, id: 'inserted' });
    await change({ requestId: 'held' });
    for (let refused = 1; refused <= 3; refused++) await expect(trail.flush()).rejects.toThrow(/audit_events/);
    await trail.flush();
    expect(log.of('audit.event_not_sealed')).toMatchObject([{ event: { requestId: 'held', outcome: 'succeeded' } }]);
    expect((await rows('')).map((row) => [row['actor'], row['method']])).toEqual([['server', 'audit set aside']]);
    expect([await pending(), await faults()]).toEqual([1, ['inserted 4']]);
    await knex('audit_events').where({ id: 'inserted' }).delete();
    await change({ requestId: 'again' });
    await trail.flush();
    expect((await rows()).slice(3).map((row) => [row['request_id'], row['outcome']])).toEqual([['again', 'succeeded']]);
    const next = open(db.database); // as after a start
    await next.recover();
    expect((await rows()).slice(4).map((row) => [row['request_id'], row['outcome']])).toEqual([['held', 'unknown']]);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('finds by each filter through an index', async () => {
    const none: AuditFilter = { from: undefined, to: undefined, keyId: undefined, userId: undefined, methods: undefined, resource: undefined, outcome: undefined, requestId: undefined };
    const indexes: [string, Partial<AuditFilter>][] = [
      ['audit_events_at', {}],
      ['audit_events_at', { from: 1, to: 2 }],
      ['audit_events_at', { resource: 'devices' }],
      ['audit_events_key', { keyId: 'a', outcome: 'refused' }],
      ['audit_events_user', { userId: 'a' }],
      ['audit_events_method', { methods: [METHOD] }],
      ['audit_events_subject', { resource: 'devices/device-1/commands/command-1' }],
      ['audit_events_outcome', { outcome: 'refused', from: 1 }],
      ['audit_events_request', { requestId: 'request-1', keyId: 'a' }],
    ];
    for (const [index, filter] of indexes) {
      const plan = await planOf(db.database, async (of) => await new AuditListRepository(of).find(ORGANIZATION, { ...none, ...filter }, { at: 5, seq: 5 }, 51, 2000));
      expect([index, plan.includes(index)]).toEqual([index, true]);
      if (engine.name === 'sqlite') expect(plan).not.toMatch(/SCAN audit_events|USE TEMP B-TREE/);
      else expect(plan).not.toMatch(/Seq Scan on audit_events/);
    }
  });
});
