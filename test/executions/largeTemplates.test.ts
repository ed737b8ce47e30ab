import { countCommandUses } from '../../src/commands';
import { UnitOfWork } from '../../src/database';
import { SensorService } from '../../src/devices';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import type { ExpectedSensorState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { MAX_INSERTION_LENGTH } from '../../src/kernel/jsonTemplate';
import { Cursors } from '../../src/kernel/pages';
import { createSensorTemplateRepositories, SensorTemplateService } from '../../src/sensorTemplates';
import { noDeviceHooks } from '../support/deviceHooks';
import { noEncoder } from '../support/encoders';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, prepare, startExecutionFixture, type Target } from './executionFixture';

const STATES = 50;
const ANY = { p: { enum: [] } } as never;
// As a parameter: 16 characters less than a quarter of the limit, with its quotes.
const QUARTER = 'x'.repeat(MAX_INSERTION_LENGTH / 4 - 18);

describe.each(engines())('the total size of the templates of one execution on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let target: Target;
  let sensorIds: readonly string[];
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    fixture = await startExecutionFixture(db.database, undefined, noEncoder);
    target = await fixture.target({ command: { paramsSchema: ANY, directPayload: '{"p": {{params.p}}}' } });
    sensorIds = await addSensors(target.deviceId);
  });
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });

  async function addSensors(deviceId: string): Promise<string[]> {
    const uow = new UnitOfWork(db.database, createSensorTemplateRepositories);
    const sensors = new SensorService({ database: db.database, clock: fixture.clock, hooks: noDeviceHooks });
    const templates = new SensorTemplateService({
      uow,
      clock: fixture.clock,
      cursors: new Cursors(Buffer.alloc(32)),
      countSensorUses: async () => 0,
      countCommandUses,
    });
    const [key] = await uow.repos.keys.listSystem();
    const templateIds: string[] = [];
    for (let at = 0; at < STATES; at++) {
      const template = await templates.create('org-1', {
        keyNameId: key?.id ?? '',
        sensorType: `v${at}`,
        valueType: 'json',
        unitMeasurementId: undefined,
        description: undefined,
      });
      templateIds.push(template.id);
    }
    const device = await sensors.add('org-1', deviceId, templateIds);
    return device.sensors.map((sensor) => sensor.id);
  }
  const expecting = (count: number, valueTemplate: string): ExpectedSensorState[] =>
    sensorIds.slice(0, count).map((sensorId) => ({ sensorId, valueTemplate }));
  const stored = async (id: string) => await new ExecutionRepository(db.database.db).get('org-1', id);

  it('is limited like that of a single template, and an execution beyond it stores no more', async () => {
    const commandId = await fixture.addCommand(target.deviceId, {
      paramsSchema: ANY,
      directPayload: '{}',
      expectedSensorStates: expecting(STATES, '[{{params.p}},{{params.p}},{{params.p}},{{params.p}}]'),
    });
    const answer = await fixture.execute(
      { ...target, commandId },
      { params: { p: Array.from({ length: 5000 }, (_, at) => ({ a: at % 10 })) } },
    );
    expect(answer.accepted).toBe(false);
    expect(answer.violations).toHaveLength(STATES - 1);
    expect(answer.violations[0]).toEqual({
      field: 'command.expectedSensorStates[1].valueTemplate',
      description: expect.stringMatching(/more than 262144 characters .* into all templates together/),
    });
    expect((await stored(answer.executionId)).expected).toEqual([]);
  });

  it('includes the payload, the states and both tries of the query', async () => {
    const queryOptions = { verificationStrategy: 3, queryCommandId: target.commandId, paramsSchema: ANY };
    const withStates = async (count: number): Promise<string> =>
      await fixture.addCommand(target.deviceId, {
        ...queryOptions,
        directPayload: '{{params.p}}',
        expectedSensorStates: expecting(count, '{{params.p}}'),
      });
    const fits = await fixture.execute({ ...target, commandId: await withStates(1) }, { params: { p: QUARTER } });
    expect(fits).toMatchObject({ accepted: true, violations: [] });
    const tooLarge = await fixture.execute({ ...target, commandId: await withStates(2) }, { params: { p: QUARTER } });
    expect(tooLarge).toMatchObject({
      accepted: false,
      violations: [
        { field: 'command.queryCommandId', description: expect.stringContaining('into all templates together') },
      ],
    });
  });
});
