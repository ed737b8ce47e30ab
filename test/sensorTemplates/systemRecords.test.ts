import { hash } from 'node:crypto';
import { UnitOfWork } from '../../src/database';
import {
  seedSystemRecords,
  createSensorTemplateRepositories,
  UNITS,
  type SensorTemplateRepositories,
} from '../../src/sensorTemplates';
import { SYSTEM_KEYS, SYSTEM_TEMPLATES } from '../../src/sensorTemplates/systemRecords';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';

describe('the records that come with the server', () => {
  it('have unique ids in the form of UUIDv7', () => {
    const ids = [...SYSTEM_KEYS, ...SYSTEM_TEMPLATES].map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  // Sensors on sites refer to these ids. New rows are added at the end, so that the hash of the first ones stays the
  // same.
  it('keep the ids that were assigned once', () => {
    const given = [
      ...SYSTEM_KEYS.slice(0, 107).map(({ id, name }) => `${id} ${name}`),
      ...SYSTEM_TEMPLATES.slice(0, 112).map(({ id, keyNameId }) => `${id} ${keyNameId}`),
    ];
    expect(hash('sha256', given.join('\n'))).toBe('7cfee57deb09e7244e32ace76fe0bae4e7e9c830efa064504962e65ee6d72725');
  });

  it('have unique keys, in snake_case, and only units that the server knows', () => {
    const names = SYSTEM_KEYS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/);
    const units = new Set(['', ...UNITS.map(({ id }) => id)]);
    expect(units.size).toBe(UNITS.length + 1);
    expect(SYSTEM_TEMPLATES.filter(({ unitMeasurementId }) => !units.has(unitMeasurementId))).toEqual([]);
    for (const { id } of UNITS) expect(id).toMatch(/^[\x21-\x7e]+$/);
  });

  it('have each key with a unit once', () => {
    const pairs = SYSTEM_TEMPLATES.map(({ keyNameId, unitMeasurementId }) => `${keyNameId} ${unitMeasurementId}`);
    expect(new Set(pairs).size).toBe(pairs.length);
  });
});

describe.each(engines())('seeding the records on $name', (engine) => {
  let db: TestDatabase;
  let uow: UnitOfWork<SensorTemplateRepositories>;
  const clock = new TestClock();
  beforeEach(async () => {
    db = await engine.createDatabase();
    uow = new UnitOfWork(db.database, createSensorTemplateRepositories);
  });
  afterEach(async () => await db.drop());

  it('writes all of them once and nothing the next time', async () => {
    expect(await seedSystemRecords(uow, clock)).toBe(SYSTEM_KEYS.length + SYSTEM_TEMPLATES.length);
    const before = await uow.repos.templates.listSystem();
    clock.advance(1000);
    expect(await seedSystemRecords(uow, clock)).toBe(0);
    expect(await uow.repos.templates.listSystem()).toEqual(before);
  });

  it('updates changed ones, adds missing ones and keeps those of an earlier server', async () => {
    await seedSystemRecords(uow, clock);
    const { knex } = db.database.db;
    const [key, template] = [SYSTEM_KEYS[0], SYSTEM_TEMPLATES[1]];
    await knex('normalized_keys').where({ id: key?.id }).update({ name: 'heat', name_folded: 'heat' });
    await knex('sensor_templates').where({ id: template?.id }).update({ description: 'old', unit_measurement_id: 'K' });
    await knex('sensor_templates').where({ id: SYSTEM_TEMPLATES[5]?.id }).delete();
    await uow.repos.keys.upsertSystem([{ id: 'earlier', name: 'earlier' }], clock.now());
    clock.advance(1000);
    expect(await seedSystemRecords(uow, clock)).toBe(3);
    const names = (await uow.repos.keys.listSystem()).map(({ name }) => name);
    expect(names.toSorted()).toEqual([...SYSTEM_KEYS.map(({ name }) => name), 'earlier'].toSorted());
    const templates = await uow.repos.templates.listSystem();
    expect(templates).toHaveLength(SYSTEM_TEMPLATES.length);
    expect(templates.find(({ id }) => id === template?.id)).toMatchObject({
      ...template,
      updatedAt: clock.now(),
      createdAt: clock.now() - 1000,
    });
  });

  it('works when two servers start at once on one database', async () => {
    const otherDatabase = await db.open();
    const servers = [uow, new UnitOfWork(otherDatabase, createSensorTemplateRepositories)];
    for (let round = 0; round < 8; round += 1) {
      for (const table of ['sensor_templates', 'normalized_keys']) await db.database.db.knex(table).delete();
      await Promise.all(servers.map(async (server) => await seedSystemRecords(server, clock)));
      expect(await uow.repos.templates.listSystem()).toHaveLength(SYSTEM_TEMPLATES.length);
      expect(await uow.repos.keys.listSystem()).toHaveLength(SYSTEM_KEYS.length);
    }
    await otherDatabase.close();
  });
});
