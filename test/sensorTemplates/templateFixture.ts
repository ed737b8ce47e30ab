import {
  NormalizedKeyService,
  seedSystemRecords,
  sensorTemplateHandlers,
  createSensorTemplateRepositories,
  SensorTemplateService,
  type SensorTemplateRepositories,
} from '../../src/sensorTemplates';
import { normalizeForSearch, UnitOfWork } from '../../src/database';
import {
  SensorTemplateServiceClient,
  SensorTemplateServiceService,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { newId } from '../../src/kernel/ids';
import { Cursors } from '../../src/kernel/pages';
import { startEdge } from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** A server with its own database; a key has the name of its organization. */
export interface TemplateFixture {
  readonly db: TestDatabase;
  readonly uow: UnitOfWork<SensorTemplateRepositories>;
  readonly clock: TestClock;
  readonly templates: SensorTemplateService;
  readonly client: SensorTemplateServiceClient;
  /** The number of commands that expect a state of a sensor of a template. */
  readonly expected: Map<string, number>;
  /** Gives a new device this number of sensors of a template. */
  addSensors(organizationId: string, templateId: string, count: number): Promise<void>;
  stop(): Promise<void>;
}

/** Starts such a server with its own database and these organizations. */
export async function startTemplateFixture(
  engine: TestEngine,
  organizations: readonly string[],
): Promise<TemplateFixture> {
  const db = await engine.createDatabase();
  const { knex } = db.database.db;
  const clock = new TestClock();
  const times = { created_at: clock.now(), updated_at: clock.now() };
  for (const id of organizations)
    await knex('organizations').insert({ id, name: id, name_folded: normalizeForSearch(id), ...times });
  const uow = new UnitOfWork(db.database, createSensorTemplateRepositories);
  await seedSystemRecords(uow, clock);
  const cursors = new Cursors(Buffer.alloc(32));
  const expected = new Map<string, number>();
  const countSensorUses = async (organizationId: string, templateId: string): Promise<number> =>
    (await knex('sensors').where({ organization_id: organizationId, sensor_template_id: templateId })).length;
  const templates = new SensorTemplateService({
    uow,
    clock,
    cursors,
    countSensorUses,
    countCommandUses: async (_db, _organizationId, templateId) => expected.get(templateId) ?? 0,
  });
  const keys = new NormalizedKeyService({ uow, clock, cursors });
  const edge = await startEdge((server) =>
    server.addService(SensorTemplateServiceService, sensorTemplateHandlers(templates, keys, cursors)),
  );
  for (const id of organizations) edge.keys.add(id, { organizationId: id });
  return {
    db,
    uow,
    clock,
    templates,
    client: edge.client(SensorTemplateServiceClient),
    expected,
    addSensors: async (organizationId, templateId, count) => {
      const device = newId();
      await knex('digital_devices').insert({
        id: device,
        organization_id: organizationId,
        name: 'Boiler',
        name_folded: 'boiler',
        revision: 1,
        ...times,
      });
      for (let position = 0; position < count; position += 1) {
        await knex('sensors').insert({
          id: newId(),
          organization_id: organizationId,
          device_id: device,
          sensor_template_id: templateId,
          position,
          ...times,
        });
      }
    },
    stop: async () => {
      await edge.stop();
      await db.drop();
    },
  };
}
