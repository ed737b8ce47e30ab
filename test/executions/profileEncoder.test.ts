import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import type { CommandDefinition } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { ProfileImports, ProfileRemoval } from '../../src/profiles';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';
import { type ExecutionFixture, prepare, startExecutionFixture, type Target } from './executionFixture';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const LEVEL = { level: { type: 2, enum: [] } } as never;
/**
 * Returns an encoder in each of the three forms. Its bytes are mark, level, port and the variable `gain`, if the form
 * provides them.
 */
const FORMS = {
  newest:
    'function encodeDownlink(input) { return { bytes: [1, input.data.level, input.fPort, Number(input.variables.gain || 0)], fPort: input.fPort }; }',
  older: 'function Encode(fPort, obj, variables) { return [2, obj.level, fPort, Number(variables.gain || 0)]; }',
  oldest: 'function Encoder(obj, fPort) { return [3, obj.level, fPort]; }',
};
/** Imports profiles with these encoders, by the name of the model. The profiles are `halmwind/<name>/1.0/EU868`. */
const importVendor = (encoders: Readonly<Record<string, string>>) =>
  getVendor({
    id: 'halmwind',
    name: 'Halmwind',
    models: Object.keys(encoders).map((id) => getModel({ id, name: id, profiles: [getProfile({ codec: id })] })),
    codecs: Object.entries(encoders).map(([id, encoder]) => createCodec(id, { encoder })),
  });
const fromProfile = (name: string, overrides: Partial<CommandDefinition> = {}): Partial<CommandDefinition> => ({
  mode: 2,
  directPayload: undefined,
  paramsSchema: LEVEL,
  encoderProfileId: `halmwind/${name}/1.0/EU868`,
  fPort: 42,
  ...overrides,
});
const listBytes = async (gateway: TestGateway, count: number): Promise<number[]> => [
  ...((await gateway.command(count)).payload as { value: Uint8Array }).value,
];

describe.each(sqliteOnly())('executing with the encoder of a profile on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let encoder: TestEncoder;
  let fixture: ExecutionFixture;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    encoder = startEncoder();
    fixture = await startExecutionFixture(db.database, undefined, encoder);
    await importEncoders(FORMS);
  });
  beforeEach(() => encoder.runs.splice(0));
  afterAll(async () => {
    await fixture.stop();
    await encoder.stop();
    await db.drop();
  });
  const importEncoders = async (encoders: Readonly<Record<string, string>>) =>
    await new ProfileImports({ database: db.database, clock: fixture.clock }).store(
      'lorawan-devices',
      importVendor(encoders),
    );
  async function configureDevice({ deviceId }: Target, configuration: Record<string, unknown>): Promise<void> {
    const physicalDevice = { clientDeviceId: undefined, connectionId: undefined, configuration };
    await fixture.devices.update(
      'org-1',
      deviceId,
      { name: undefined, physicalDevice, dataSendingInterval: undefined },
      undefined,
    );
  }

  it.each([
    ['encodeDownlink', 'newest', [1, 5, 42, 9]],
    ['Encode', 'older', [2, 5, 42, 9]],
    ['Encoder', 'oldest', [3, 5, 42]],
  ])('sends its bytes to the gateway, written as %s, with the variables of the device', async (_name, name, bytes) => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, command: fromProfile(name) });
    await configureDevice(target, { variables: { gain: '9' } });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    expect(await fixture.execute(target, { params: { level: 5 } })).toMatchObject({ accepted: true, violations: [] });
    expect([await listBytes(gateway, 1), (await gateway.command(1)).fPort]).toEqual([bytes, 42]);
    await gateway.cut();
  });

  it('uses the stored copy after another import and a removal of the profile', async () => {
    const connectionId = await fixture.connection();
    await importEncoders({ copied: FORMS.newest });
    const target = await fixture.target({ connectionId, command: fromProfile('copied') });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    expect(await importEncoders({ copied: 'function encodeDownlink() { return { bytes: [99] }; }' })).toMatchObject({
      changed: 1,
    });
    const { executionId } = await fixture.execute(target, { params: { level: 6 } });
    expect(await listBytes(gateway, 1)).toEqual([1, 6, 42, 0]);
    await gateway.result(executionId, ACCEPTED);
    const removal = new ProfileRemoval({ database: db.database, uses: async () => new Map() });
    expect(await removal.remove({ ids: ['halmwind/copied/1.0/EU868'] })).toMatchObject({ removed: 1, codecs: 1 });
    await fixture.execute(target, { params: { level: 7 } });
    expect(await listBytes(gateway, 2)).toEqual([1, 7, 42, 0]);
    await gateway.cut();
  });

  it('passes the variables to a query command too, for both tries', async () => {
    const connectionId = await fixture.connection({ policy: { queueLimit: 1 } });
    const queryTarget = await fixture.target({
      connectionId,
      command: fromProfile('older', { name: 'Ask', fPort: 11 }),
    });
    await configureDevice(queryTarget, { variables: { gain: '4' } });
    const target = {
      ...queryTarget,
      commandId: await fixture.addCommand(
        queryTarget.deviceId,
        fromProfile('newest', { verificationStrategy: 3, queryCommandId: queryTarget.commandId }),
      ),
    };
    const { executionId } = await fixture.execute(target, { params: { level: 8 } });
    expect(encoder.runs.map((run) => run.variables)).toEqual([{ gain: '4' }, { gain: '4' }]);
    const { query } = await new ExecutionRepository(db.database.db).get('org-1', executionId);
    expect(query?.tries.map(({ payload }) => payload.kind === 'bytes' && [...payload.bytes])).toEqual([
      [2, 8, 11, 4],
      [2, 8, 11, 4],
    ]);
    const gateway = await TestGateway.attach(fixture, { connectionId });
    expect(await listBytes(gateway, 1)).toEqual([1, 8, 42, 4]);
    await gateway.result(executionId, ACCEPTED);
    expect(await listBytes(gateway, 2)).toEqual([2, 8, 11, 4]);
    await gateway.cut();
  });

  it('passes only variables that are strings, from a device that predates their rules, and none where there are none', async () => {
    const target = await fixture.target({ command: fromProfile('newest') });
    const many = Object.fromEntries(Array.from({ length: 80 }, (_, at) => [`v${at}`, 'x']));
    const stored = async (configuration: object) =>
      await db.database.db
        .knex('physical_devices')
        .where('device_id', target.deviceId)
        .update({ configuration: JSON.stringify(configuration) });
    const given = [
      {},
      { variables: null },
      { variables: 'gain' },
      { variables: ['a'] },
      { variables: { gain: 3, more: { a: 'b' }, mode: 'eco' } },
      { variables: many },
    ];
    const variablesSeen: unknown[] = [];
    for (const [level, configuration] of given.entries()) {
      await stored(configuration);
      await fixture.execute(target, { params: { level } });
      variablesSeen.push(encoder.runs.at(-1)?.variables);
    }
    expect(variablesSeen).toEqual([
      {},
      {},
      {},
      {},
      { mode: 'eco' },
      Object.fromEntries(Object.entries(many).slice(0, 64)),
    ]);
  });

  it('runs the encoder again when the variables change while it waits', async () => {
    const target = await fixture.target({ command: fromProfile('newest') });
    await configureDevice(target, { variables: { gain: '1' } });
    const { encode } = encoder;
    let changes = 1;
    encoder.encode = async (...run) => {
      const result = await encode(...run);
      if (changes-- > 0) await configureDevice(target, { variables: { gain: '2' } });
      return result;
    };
    const { executionId } = await fixture.execute(target, { params: { level: 3 } });
    encoder.encode = encode;
    const { payload } = await new ExecutionRepository(db.database.db).get('org-1', executionId);
    expect(payload?.kind === 'bytes' && [...payload.bytes]).toEqual([1, 3, 42, 2]);
    expect(encoder.runs.map((run) => run.variables)).toEqual([{ gain: '1' }, { gain: '2' }]);
  });
});
