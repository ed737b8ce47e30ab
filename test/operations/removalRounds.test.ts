import { OrganizationRepository } from '../../src/access/organizations/organizationRepository';
import { OrganizationRemovalRepository } from '../../src/access';
import { ConnectionRepository } from '../../src/connections';
import { ExecutionRemovalRepository } from '../../src/executions';
import { DeviceRepository } from '../../src/devices';
import { MediaRemovalRepository } from '../../src/media/mediaRemovalRepository';
import { OrganizationRemoval, type RemovalStep } from '../../src/operations';
import { TemplateRemovalRepository } from '../../src/sensorTemplates';
import { HeardRemovalRepository } from '../../src/telemetry';
import { MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { planOf } from '../support/planOf';
import { TestClock } from '../support/testClock';

const SETTLED_MS = 600_000;

describe.each(engines())('the removal of organizations on $name', (engine) => {
  let test: TestDatabase;
  beforeAll(async () => void (test = await engine.createDatabase()));
  afterAll(async () => await test.drop());

  it('tries again what failed, holds up no other, and lets the row go when nothing can come any more', async () => {
    const clock = new TestClock();
    const log = new MemoryLog();
    const { knex } = test.database.db;
    const organizations = new OrganizationRepository(test.database.db);
    await knex('organizations').insert(['bad', 'good', 'alive'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
    await organizations.markDeleted('bad', clock.now());
    await organizations.markDeleted('good', clock.now() + 1);
    const closed: string[] = [];
    const done: string[] = [];
    const told: string[] = [];
    let isBroken = true;
    const remove: RemovalStep['remove'] = async (id) => {
      await Promise.resolve();
      if (id === 'bad' && isBroken) throw new Error('the disk is full');
      done.push(id);
    };
    const removal = new OrganizationRemoval({ database: test.database, clock, log, closeLinks: async (id) => void closed.push(id), steps: [{ name: 'all', remove }], onRemoved: (id) => void told.push(id) });
    removal.start();
    await log.until('organizations.removed');
    expect({ closed, done }).toEqual({ closed: ['bad', 'good'], done: ['good'] });
    expect(log.of('organizations.removal_failed')).toMatchObject([{ organization_id: 'bad' }]);

    isBroken = false;
    removal.look();
    await log.until('organizations.removed', 2);
    expect(done).toEqual(['good', 'bad']);
    expect(await organizations.listDeleted()).toMatchObject([{ id: 'bad' }, { id: 'good' }]); // a call that was under way may still leave something
    clock.advance(SETTLED_MS + 1);
    removal.look();
    await log.until('organizations.emptied', 2);
    expect(done.slice(2)).toEqual(['bad', 'good']);
    expect(await organizations.listDeleted()).toEqual([]);
    expect(await knex('organizations').where('id', 'good').select('name')).toEqual([{ name: '' }]);
    await removal.stop();

    await organizations.removeEmptied();
    expect(await knex('organizations').select('id')).toEqual([{ id: 'alive' }]);
    expect({ closed, told }).toEqual({ closed: ['bad', 'good'], told: ['good', 'bad'] });
  });

  it('looks through no table to find what belongs to an organization', async () => {
    const plan = await planOf(test.database, async (db) => {
      await new DeviceRepository(db).oldest('o', 4);
      await new MediaRemovalRepository(db).some('o', 4);
      await new MediaRemovalRepository(db).remove({ organizationId: 'o', id: 'm', sha256: '' });
      for (const Removal of [HeardRemovalRepository, ExecutionRemovalRepository, TemplateRemovalRepository, OrganizationRemovalRepository]) await new Removal(db).removeSome('o', 100);
      await new OrganizationRemovalRepository(db).revokeKeys('o', 1);
      await new OrganizationRemovalRepository(db).countKeys('o', 1);
      await new ConnectionRepository(db).count('o');
    });
    expect(plan).not.toMatch(/SCAN|Seq Scan/);
  });
});
