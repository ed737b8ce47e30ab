import { ApiKeyRepository } from '../../src/access/keys/apiKeyRepository';
import { OrganizationRepository } from '../../src/access/organizations/organizationRepository';
import { AuditLog, OrganizationRemovalRepository } from '../../src/access';
import { ConnectionRepository } from '../../src/connections';
import type { Db } from '../../src/database';
import { ExecutionRemovalRepository } from '../../src/executions';
import { DeviceRepository } from '../../src/devices';
import { MediaRemovalRepository } from '../../src/media/mediaRemovalRepository';
import { OrganizationRemoval, type RemovalStep } from '../../src/organizationRemoval';
import { TemplateRemovalRepository } from '../../src/sensorTemplates';
import { TelemetryRemovalRepository } from '../../src/telemetry';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { TestClock } from '../support/testClock';

const SETTLED_MS = 600_000;

describe.each(engines())('the removal of organizations on $name', (engine) => {
  let test: TestDatabase;
  beforeAll(async () => void (test = await engine.createDatabase()));
  afterAll(async () => await test.drop());

  const getOrganizations = (): OrganizationRepository => new OrganizationRepository(test.database.db);
  const add = async (...ids: string[]): Promise<void> =>
    void (await test.database.db
      .knex('organizations')
      .insert(ids.map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 }))));

  it('retries a failed one a minute later, does not block others, and deletes the row when no new data can arrive', async () => {
    const clock = new TestClock();
    const log = new MemoryLog();
    const { knex } = test.database.db;
    const organizations = getOrganizations();
    await add('open', 'bad', 'good', 'alive');
    for (const [after, id] of ['open', 'bad', 'good'].entries())
      await organizations.markDeleted(id, clock.now() + after);
    const closed: string[] = [];
    const done: string[] = [];
    let isBroken = true;
    const closeLinks = async (id: string): Promise<void> => {
      await Promise.resolve();
      if (id === 'open' && isBroken) throw new Error('the link hangs');
      closed.push(id);
    };
    const remove: RemovalStep['remove'] = async (id) => {
      await Promise.resolve();
      if (id === 'bad' && isBroken) throw new Error('the disk is full');
      done.push(id);
    };
    const removal = new OrganizationRemoval({
      database: test.database,
      clock,
      log,
      closeConnections: closeLinks,
      steps: [{ name: 'all', remove }],
      onRemoved: async () => {},
    });
    removal.start();
    await log.until('organizations.removed');
    expect({ closed, done }).toEqual({ closed: ['bad', 'good'], done: ['good'] });
    expect(log.of('organizations.removal_failed')).toMatchObject([
      { organization_id: 'open' },
      { organization_id: 'bad' },
    ]);

    isBroken = false;
    await organizations.markDeleted('alive', clock.now() + 3); // a round before the minute is over
    removal.checkNow();
    await log.until('organizations.removed', 2);
    expect({ closed, done }).toEqual({ closed: ['bad', 'good', 'alive'], done: ['good', 'alive'] });
    clock.advance(60_000);
    removal.checkNow();
    await log.until('organizations.removed', 4);
    expect(log.of('organizations.removal_failed')).toHaveLength(2);
    expect(closed).toEqual(['bad', 'good', 'alive', 'open']);
    // a running call may still leave data
    expect((await organizations.listDeleted()).map(({ id }) => id)).toEqual(['open', 'bad', 'good', 'alive']);
    clock.advance(SETTLED_MS + 1);
    removal.checkNow();
    await log.until('organizations.purged', 4);
    expect(done.slice(-4)).toEqual(['open', 'bad', 'good', 'alive']);
    expect(await organizations.listDeleted()).toEqual([]);
    expect(await knex('organizations').where('id', 'good').select('name')).toEqual([{ name: '' }]);
    await removal.stop();
    expect(closed).toHaveLength(4);
    await organizations.deleteEmptied();
    expect(await knex('organizations').select('id')).toEqual([]);
  });

  it('is recorded once in the trail, however often the server starts, and with its complete details or not at all', async () => {
    const clock = new TestClock();
    const trail = new AuditLog({ database: test.database, clock, log: new MemoryLog(), retentionDays: 30 });
    const events = async (): Promise<unknown[]> =>
      await test.database.db.knex('audit_events').where('chain', 'told').select('method', 'actor', 'resource');
    await add('told');
    await getOrganizations().markDeleted('told', clock.now());
    let isBroken = true;
    const onRemoved = async (id: string, db: Db): Promise<void> => {
      await trail.recordServerEventIn(db, id, 'organization removal', `organizations/${id}`);
      if (isBroken) throw new Error('the disk is full');
    };
    const run = async (line: string): Promise<void> => {
      const log = new MemoryLog();
      const removal = new OrganizationRemoval({
        database: test.database,
        clock,
        log,
        closeConnections: async () => {},
        steps: [],
        onRemoved,
      });
      removal.start();
      await log.until(line);
      await removal.stop();
    };
    for (let start = 0; start < 3; start += 1) await run('organizations.removed');
    expect(await events()).toEqual([]);
    clock.advance(SETTLED_MS + 1);
    await run('organizations.removal_failed');
    expect(await events()).toEqual([]);
    isBroken = false;
    await run('organizations.purged');
    expect(await events()).toEqual([
      { method: 'organization removal', actor: 'server', resource: 'organizations/told' },
    ]);
    expect(await getOrganizations().listDeleted()).toEqual([]);
    await trail.close();
  });

  it('scans no table to find the data of an organization', async () => {
    const plan = await getPlan(test.database, async (db) => {
      await new DeviceRepository(db).listOldestIds('o', 4);
      await new MediaRemovalRepository(db).listBatch('o', 4);
      await new MediaRemovalRepository(db).remove({ organizationId: 'o', id: 'm', sha256: '' });
      for (const Removal of [
        TelemetryRemovalRepository,
        ExecutionRemovalRepository,
        TemplateRemovalRepository,
        OrganizationRemovalRepository,
      ])
        await new Removal(db).deleteBatch('o', 100);
      await new ApiKeyRepository(db).revokeOfOrganization('o', 1);
      await new OrganizationRemovalRepository(db).countKeys('o', 1);
      await new ConnectionRepository(db).count('o');
    });
    expect(plan).not.toMatch(/SCAN|Seq Scan/);
  });
});
