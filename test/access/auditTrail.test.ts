import type { AuditLog as Trail } from '../../src/access';
import { AuditArchive, AuditLog, CommandLineAudit } from '../../src/access';
import { AuditListRepository, type AuditFilter } from '../../src/access/audit/auditListRepository';
import type { Database } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { TestClock } from '../support/testClock';

const A_DAY = 86_400_000;
const ORGANIZATION = '01900000-0000-7000-8000-000000000001';
const KEY = {
  keyId: 'key-1',
  keyPrefix: 'plr_abcdef',
  organizationId: ORGANIZATION,
  ownerUserId: 'user-1',
  isAdmin: false,
};
const METHOD = '/digitaldevice.v2.DigitalDeviceService/UpdateDigitalDevice';
const findCall = (overrides: Partial<Parameters<Trail['begin']>[0]> = {}) => ({
  method: METHOD,
  requestId: 'request-1',
  peer: '192.0.2.7',
  key: KEY,
  keyPrefix: '',
  resource: 'devices/device-1',
  fields: ['name'],
  ...overrides,
});
const DONE = { outcome: 'succeeded', reason: '', resource: 'devices/device-1' } as const;
const REFUSED = { outcome: 'refused' as const, reason: 'insufficient_scope', resource: '' };

describe.each(engines())('the audit trail on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let log: MemoryLog;
  let trail: AuditLog;
  const open = (database: Database): AuditLog => new AuditLog({ database, clock, log, retentionDays: 30 });
  const rows = async (chain = ORGANIZATION): Promise<readonly Record<string, unknown>[]> =>
    await db.database.db.knex('audit_events').where({ chain }).orderBy('seq').select('*');
  const pending = async (): Promise<number> => (await db.database.db.knex('audit_pending').select('id')).length;
  const faults = async (chain = ORGANIZATION, expected?: { seq: number; hash: string }): Promise<string[]> =>
    (await new AuditArchive(db.database).verify(chain, expected, () => {})).errors.map(
      ({ what, seq }) => `${what} ${seq}`,
    );
  const change = async (overrides: Parameters<typeof findCall>[0] = {}): Promise<void> =>
    trail.end(await trail.begin(findCall(overrides)), { ...DONE, resource: overrides.resource ?? DONE.resource });

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

  it('stores a change before it begins, and its complete result in the chain afterwards', async () => {
    const entry = await trail.begin(findCall());
    expect([await pending(), (await rows()).length]).toEqual([1, 0]);
    trail.end(entry, { outcome: 'refused', reason: 'device_not_found', resource: 'devices/device-1/sensors/sensor-1' });
    trail.end(entry, DONE); // there is only one end event
    await trail.flush();
    expect(await pending()).toBe(0);
    expect(await rows()).toMatchObject([
      {
        seq: 1,
        at: clock.now(),
        actor: 'key',
        key_id: 'key-1',
        key_prefix: 'plr_abcdef',
        user_id: 'user-1',
        peer: '192.0.2.7',
        method: METHOD,
        resource: 'devices/device-1/sensors/sensor-1',
        subject: 'devices/device-1',
        fields: '["name"]',
        outcome: 'refused',
        reason: 'device_not_found',
        request_id: 'request-1',
        count: 1,
      },
    ]);
    expect(await faults()).toEqual([]);
  });

  it('records an unknown outcome for changes of a stopped process, but not for a command that may still run', async () => {
    const stoppedLog = open(db.database);
    await stoppedLog.begin(findCall());
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const { promise: working, resolve: finish } = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const command = commands.recordChange(
      'keys revoke',
      { organizationId: ORGANIZATION, resource: 'api-keys/key-1' },
      async () => {
        started.resolve();
        await working;
      },
    );
    await started.promise;
    const ownEntry = await trail.begin(findCall());
    await trail.recordAbandonedChanges();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['unknown']);
    expect(await pending()).toBe(2);
    clock.advance(11 * 60_000);
    await trail.recordAbandonedChanges();
    expect((await rows()).map((row) => row['actor'])).toEqual(['key', 'command_line']);
    finish(); // the process was still running: the sealed event does not change
    await command;
    trail.end(ownEntry, DONE);
    await trail.flush();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['unknown', 'unknown', 'succeeded']);
    expect(await pending()).toBe(0);
  });

  it('records the changes, rejections and failures of commands', async () => {
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const organization = { organizationId: ORGANIZATION };
    expect(
      await commands.recordChange(
        'keys create',
        { ...organization, resource: 'api-keys', fields: ['name'] },
        async () => ({ id: ORGANIZATION }),
        ({ id }) => `api-keys/${id}`,
      ),
    ).toEqual({ id: ORGANIZATION });
    await expect(
      commands.recordChange('keys revoke', organization, () =>
        Promise.reject(new DomainError('not_found', 'api_key_not_found', 'no')),
      ),
    ).rejects.toThrow('no');
    await expect(
      commands.recordChange('keys rotate', organization, () => Promise.reject(new Error('boom'))),
    ).rejects.toThrow('boom');
    expect(await rows()).toMatchObject([
      {
        actor: 'command_line',
        method: 'keys create',
        resource: `api-keys/${ORGANIZATION}`,
        fields: '["name"]',
        outcome: 'succeeded',
        key_id: null,
      },
      { method: 'keys revoke', outcome: 'refused', reason: 'api_key_not_found' },
      { method: 'keys rotate', outcome: 'failed', reason: 'internal' },
    ]);
    expect((await rows())[0]?.['peer']).not.toBe('');
    expect(await faults()).toEqual([]);
  });

  it('records changes that a command makes for all organizations in the trail of each organization that it changes', async () => {
    const commands = new CommandLineAudit({ database: db.database, clock, log });
    const [other, deleted] = ['01900000-0000-7000-8000-000000000002', '01900000-0000-7000-8000-000000000003'];
    for (const id of [ORGANIZATION, other, deleted])
      await db.database.db
        .knex('organizations')
        .insert({ id, name: id, name_folded: id, created_at: 1, updated_at: 1, deleted_at: id === deleted ? 2 : null });
    const change = { resource: 'device-profiles', fields: ['vendor'] };
    expect(
      await commands.recordChangeOfAll('profiles import', change, async () => await Promise.resolve('as before')),
    ).toBe('as before');
    expect([await pending(), (await rows()).length, (await rows('')).length]).toEqual([0, 0, 0]);
    await commands.recordChangeOfAll('profiles import', change, async (begin) => {
      await Promise.all([begin(), begin()]);
      expect([await pending(), (await rows()).length]).toEqual([2, 0]);
    });
    await expect(
      commands.recordChangeOfAll(
        'profiles remove',
        { resource: 'device-profiles' },
        async (begin) => await begin().then(() => Promise.reject(new Error('boom'))),
      ),
    ).rejects.toThrow('boom');
    expect(await pending()).toBe(0);
    for (const chain of [ORGANIZATION, other]) {
      expect(await rows(chain)).toMatchObject([
        {
          actor: 'command_line',
          method: 'profiles import',
          resource: 'device-profiles',
          fields: '["vendor"]',
          outcome: 'succeeded',
        },
        { method: 'profiles remove', fields: '[]', outcome: 'failed', reason: 'internal' },
      ]);
      expect(await faults(chain)).toEqual([]);
    }
    expect([...(await rows(deleted)), ...(await rows(''))]).toEqual([]);
  });

  it('records equal attempts of a minute once and then by their count, for each caller', async () => {
    const attempt = (overrides: Parameters<typeof findCall>[0] = {}, end = REFUSED): void =>
      trail.recordAttempt(findCall({ key: undefined, ...overrides }), end);
    for (let i = 0; i < 100_000; i++) attempt();
    attempt({ peer: '192.0.2.8' });
    await trail.flush();
    expect((await rows('')).map((row) => [row['peer'], row['count']])).toEqual([
      ['192.0.2.7', 1],
      ['192.0.2.8', 1],
    ]);
    clock.advance(60_000);
    attempt();
    await trail.flush();
    expect((await rows('')).slice(2).map((row) => [row['peer'], row['count']])).toEqual([
      ['192.0.2.7', 99_999],
      ['192.0.2.7', 1],
    ]);
    clock.advance(60_000);
    for (let i = 0; i < 50_000; i++)
      attempt({ peer: `198.51.${Math.floor(i / 256)}.${i % 256}`, keyPrefix: `plr_${String(i).padStart(6, '0')}` });
    clock.advance(60_000);
    attempt({ key: KEY }); // another chain has its own limit
    attempt({}, { ...REFUSED, reason: 'api_key_missing' });
    await trail.flush();
    const repeatedEvents = (await rows('')).slice(4);
    expect(repeatedEvents.length).toBeLessThan(1010);
    expect(repeatedEvents.reduce((total, row) => total + Number(row['count']), 0)).toBe(50_001);
    expect(repeatedEvents.find((row) => Number(row['count']) > 1)).toMatchObject({
      peer: '',
      method: METHOD,
      key_prefix: '',
      reason: 'insufficient_scope',
    });
    expect(await rows()).toHaveLength(1);
    expect(await faults('')).toEqual([]);
  });

  it('records equal rejected changes once and then by their count per target, and merges those above the limit', async () => {
    const refuse = async (
      of: Parameters<typeof findCall>[0],
      outcome: 'refused' | 'failed' = 'refused',
    ): Promise<void> => {
      const resource = of?.resource ?? 'devices';
      trail.end(await trail.begin(findCall({ resource, ...of })), { outcome, reason: 'device_not_found', resource });
    };
    for (let i = 0; i < 150; i++) await refuse({ requestId: `same-${i}`, fields: i % 2 ? ['name'] : ['name', 'etag'] });
    for (let i = 0; i < 50; i++) await refuse({ requestId: `gone-${i}` }, 'failed');
    for (let i = 0; i < 1200; i += 30)
      await Promise.all(
        Array.from(
          { length: 30 },
          async (_, at) => await refuse({ requestId: `each-${i + at}`, resource: `devices/${i + at}` }),
        ),
      );
    await change({ requestId: 'done' });
    await change({ requestId: 'done' });
    const rejected = {
      outcome: 'refused',
      reason: 'validation_failed',
      resource: 'devices/device-1/actuator-executions/execution-1',
    } as const; // the event was stored
    for (let i = 0; i < 2; i++) trail.end(await trail.begin(findCall()), rejected);
    await refuse({
      requestId: 'other-key',
      key: { ...KEY, keyId: 'key-2', ownerUserId: 'user-2' },
      resource: 'devices/device-9',
    });
    await trail.flush();
    expect(await rows()).toHaveLength(1000 + 4); // the limit of kinds left no space for the last one
    clock.advance(60_000);
    trail.recordAttempt(findCall({ requestId: 'later' }), REFUSED);
    await trail.flush();
    const countedEvents = (await rows())
      .slice(1004)
      .map((row) => [
        row['key_id'],
        row['user_id'],
        row['resource'],
        row['fields'],
        row['request_id'],
        row['outcome'],
        row['count'],
      ]);
    expect(countedEvents).toEqual([
      ['key-1', 'user-1', 'devices', '[]', 'same-149', 'refused', 149],
      ['key-1', 'user-1', 'devices', '["name"]', 'gone-49', 'failed', 49],
      ['key-1', 'user-1', '', '["name"]', '', 'refused', 202],
      ['key-2', 'user-2', 'devices/device-9', '["name"]', 'other-key', 'refused', 1],
      ['key-1', 'user-1', '', '["name"]', 'later', 'refused', 1],
    ]);
    expect((await rows()).filter((row) => row['request_id'] === 'done')).toHaveLength(2);
    await trail.close(); // forgets the events that are left
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('detects any changed column, a deleted, inserted or replaced row, and a moved head', async () => {
    for (let i = 1; i <= 12; i++) await change({ requestId: `request-${i}`, resource: `devices/device-${i}` });
    await trail.flush();
    const { knex } = db.database.db;
    const stored = await rows();
    const head = { seq: 12, hash: String(stored[11]?.['hash']) };
    const restore = async (): Promise<void> => {
      await knex('audit_events').delete();
      await knex('audit_events').insert(stored.map((row) => ({ ...row })));
      await knex('audit_chains')
        .where({ chain: ORGANIZATION })
        .update({ last_seq: 12, last_hash: head.hash, first_seq: 1, first_previous: '0'.repeat(64) });
    };
    const at = (seq: number) => knex('audit_events').where({ chain: ORGANIZATION, seq });
    expect(await faults(ORGANIZATION, head)).toEqual([]);
    const values = {
      id: 'other',
      at: 1,
      actor: 'server',
      key_id: 'other',
      key_prefix: 'plr_zzzzzz',
      user_id: null,
      peer: '192.0.2.9',
      method: 'other',
      resource: 'devices/other',
      subject: 'devices/other',
      fields: '[ "name"]',
      outcome: 'refused',
      reason: 'x',
      request_id: 'other',
      count: 2,
      hash: '1'.repeat(64),
    };
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
    await knex('audit_chains')
      .where({ chain: ORGANIZATION })
      .update({ last_seq: 9, last_hash: String(stored[8]?.['hash']) });
    expect(await faults()).toEqual([]); // a completely rewritten head is detected by comparing it with a noted head
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
    await knex('audit_chains')
      .where({ chain: ORGANIZATION })
      .update({ first_seq: 4, first_previous: String(stored[2]?.['hash']) });
    expect(await faults()).toEqual(['beginning mismatch 4']);
    await restore();
    await knex('audit_chains')
      .where({ chain: ORGANIZATION })
      .update({ last_hash: '1'.repeat(64) });
    expect(await faults()).toEqual(['head mismatch 12']);
    await knex('audit_chains').where({ chain: ORGANIZATION }).delete();
    expect(await faults()).toEqual(['head mismatch 12']);
  });

  it('deletes expired events from the beginning of each chain, and records it as an event', async () => {
    for (let i = 1; i <= 300; i++) await change({ requestId: `request-${i}` });
    await trail.flush();
    clock.advance(20 * A_DAY);
    await change({ requestId: 'younger' });
    await trail.flush();
    clock.advance(10 * A_DAY + A_DAY / 2);
    await trail.runMaintenance();
    expect(await rows()).toHaveLength(301); // not yet a full day past the retention
    clock.advance(A_DAY);
    await trail.runMaintenance();
    expect(
      (await rows()).map((row) => [row['seq'], row['request_id'] === 'younger', row['method'], row['actor']]),
    ).toEqual([
      [301, true, METHOD, 'key'],
      [302, false, 'audit retention', 'server'],
    ]);
    expect((await rows())[1]?.['resource']).toMatch(
      /^audit-events\/1\.\.300\/[0-9a-f]{64}\/2026-01-02T03:04:05\.678Z\/30d$/,
    );
    expect(await faults()).toEqual([]);
    clock.advance(60 * A_DAY);
    await trail.runMaintenance();
    expect((await rows()).map((row) => [row['seq'], row['method']])).toEqual([[303, 'audit retention']]);
    expect(await faults()).toEqual([]);
    await change();
    await trail.flush();
    expect((await rows()).map((row) => row['seq'])).toEqual([303, 304]);
    expect(await faults()).toEqual([]);
  });

  it('keeps one chain without gaps when two processes write concurrently', async () => {
    const otherDatabase = await db.open();
    const other = open(otherDatabase);
    await Promise.all(
      Array.from({ length: 64 }, async (_, i) => {
        const writer = i % 2 === 0 ? trail : other;
        for (let round = 0; round < 5; round++) {
          writer.end(await writer.begin(findCall({ requestId: `${i}-${round}` })), DONE);
          if (round % 2 === 0) await writer.flush();
        }
      }),
    );
    await Promise.all([trail.flush(), other.flush()]);
    await other.close();
    await otherDatabase.close();
    expect((await rows()).map((row) => row['seq'])).toEqual(Array.from({ length: 320 }, (_, i) => i + 1));
    expect(new Set((await rows()).map((row) => row['request_id'])).size).toBe(320);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('rejects a change that cannot be recorded, and seals finished ones when the database is available again', async () => {
    const entry = await trail.begin(findCall());
    const { knex } = db.database.db;
    await knex.raw('alter table audit_pending rename to audit_away');
    await expect(trail.begin(findCall())).rejects.toThrow(/audit_pending/);
    trail.end(entry, DONE);
    trail.recordAttempt(findCall(), REFUSED);
    await expect(trail.flush()).rejects.toThrow(/audit_pending/);
    expect(log.of('audit.sealing_failed')).toHaveLength(1);
    await knex.raw('alter table audit_away rename to audit_pending');
    await trail.flush();
    expect((await rows()).map((row) => row['outcome'])).toEqual(['succeeded', 'refused']);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('continues when the database rejects an event, and seals what it can', async () => {
    const entry = await trail.begin(findCall({ requestId: 'taken' }));
    const { knex } = db.database.db;
    await change();
    await trail.flush();
    // its ID is taken: no attempt will ever succeed
    await knex('audit_events').insert({ ...(await rows())[0], chain: 'elsewhere', id: entry.id });
    trail.end(entry, { ...DONE, resource: 'devices/naïve' });
    await change({ requestId: 'behind' });
    for (let refused = 1; refused <= 3; refused++) await expect(trail.flush()).rejects.toThrow(/audit_events/);
    await trail.flush();
    expect((await rows()).map((row) => [row['request_id'], row['resource'], row['outcome'], row['fields']])).toEqual([
      ['request-1', 'devices/device-1', 'succeeded', '["name"]'],
      ['taken', 'devices/na?ve', 'succeeded', '[]'],
      ['behind', 'devices/device-1', 'succeeded', '["name"]'],
    ]);
    expect(log.of('audit.event_truncated')).toMatchObject([{ event_id: entry.id, request_id: 'taken' }]);
    expect([await pending(), await faults()]).toEqual([0, []]);

    // An event was inserted after the end of a chain. This chain cannot continue, the others do.
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
    await next.recordAbandonedChanges();
    expect((await rows()).slice(4).map((row) => [row['request_id'], row['outcome']])).toEqual([['held', 'unknown']]);
    expect([await pending(), await faults()]).toEqual([0, []]);
  });

  it('uses an index for each filter', async () => {
    const noFilter: AuditFilter = {
      from: undefined,
      to: undefined,
      keyId: undefined,
      userId: undefined,
      methods: undefined,
      resource: undefined,
      outcome: undefined,
      requestId: undefined,
    };
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
      const plan = await getPlan(
        db.database,
        async (of) =>
          await new AuditListRepository(of).find(ORGANIZATION, { ...noFilter, ...filter }, { at: 5, seq: 5 }, 51, 2000),
      );
      expect([index, plan.includes(index)]).toEqual([index, true]);
      if (engine.name === 'sqlite') expect(plan).not.toMatch(/SCAN audit_events|USE TEMP B-TREE/);
      else expect(plan).not.toMatch(/Seq Scan on audit_events/);
    }
  });
});
