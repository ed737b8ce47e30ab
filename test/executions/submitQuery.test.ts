import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { type CommandDefinition, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, prepare, startExecutionFixture, type Target } from './executionFixture';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const number = (more: object = {}): object => ({ type: 3, enum: [], ...more });
const createQueryCommand = (
  paramsSchema: object,
  overrides: Partial<CommandDefinition> = {},
): Partial<CommandDefinition> => ({
  name: 'Ask',
  paramsSchema: paramsSchema as never,
  ...overrides,
});

describe.each(sqliteOnly())('query commands at submit on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let encoder: TestEncoder;
  let fixture: ExecutionFixture;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    encoder = startEncoder();
    fixture = await startExecutionFixture(db.database, undefined, encoder);
  });
  beforeEach(() => encoder.runs.splice(0));
  afterAll(async () => {
    await fixture.stop();
    await encoder.stop();
    await db.drop();
  });

  /** Creates a command with parameters a and b, and the query command of this definition. */
  async function createParent(
    query: Partial<CommandDefinition>,
    schema: object = { a: number(), b: number({ default: 2 }) },
  ): Promise<Target> {
    const target = await fixture.target({ command: query });
    const commandId = await fixture.addCommand(target.deviceId, {
      verificationStrategy: 3,
      queryCommandId: target.commandId,
      paramsSchema: schema as never,
    });
    return { ...target, commandId };
  }
  const stored = async (id: string) => await new ExecutionRepository(db.database.db).get('org-1', id);

  it('are frozen with their parent: the shared parameters, the defaults, and two tries with separate ids', async () => {
    const directPayload =
      '{"b": {{params.b}}, "c": {{params.c}}, "id": {{execution.id}}, "for": {{execution.triggerId}}, "at": {{execution.enqueuedAt}}}';
    const target = await createParent(
      createQueryCommand(
        { b: number(), c: number({ default: 7 }) },
        {
          directPayload,
          fPort: 8,
          confirmed: true,
          mqttTopic: 'ask',
          expectedSensorStates: [],
          verificationStrategy: 2,
        },
      ),
    );
    const { executionId } = await fixture.execute(target, { params: { a: 1 }, triggerId: 'trigger' });
    const { query } = await stored(executionId);
    expect(query).toMatchObject({
      commandName: 'Ask',
      commandRevision: 1,
      params: { b: 2, c: 7 },
      paramsHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      kind: 'gateway',
      fPort: 8,
      confirmed: true,
      topic: 'ask',
    });
    const ids = query?.tries.map((one) => one.executionId) ?? [];
    expect(new Set([...ids, executionId]).size).toBe(3);
    expect(query?.tries.map((one) => one.payload)).toEqual(
      ids.map((id) => ({
        kind: 'json',
        value: { b: 2, c: 7, id, for: 'trigger', at: new Date(fixture.clock.now()).toISOString() },
      })),
    );
  });

  const script = 'function encodeDownlink(input) { return { bytes: [input.data.b || 0], fPort: 11 }; }';
  it('are encoded once if both tries have the same content', async () => {
    const target = await createParent(
      createQueryCommand({ b: number() }, { mode: 2, directPayload: undefined, customEncoder: script }),
    );
    const { executionId } = await fixture.execute(target, { params: { a: 1, b: 9 } });
    expect(encoder.runs).toHaveLength(1);
    const { query } = await stored(executionId);
    expect(query).toMatchObject({ fPort: 11, tries: [{ payload: { kind: 'bytes' } }, { payload: { kind: 'bytes' } }] });
    expect(query?.tries.map(({ payload }) => payload.kind === 'bytes' && [...payload.bytes])).toEqual([[9], [9]]);
  });

  it('are sent after the acknowledgement, as the frozen bytes', async () => {
    const connectionId = await fixture.connection({ policy: { queueLimit: 1 } });
    const target = await fixture.target({
      connectionId,
      command: createQueryCommand({ b: number() }, { mode: 2, directPayload: undefined, customEncoder: script }),
    });
    const set = {
      verificationStrategy: 3,
      queryCommandId: target.commandId,
      mode: 2,
      directPayload: undefined,
      customEncoder: 'function encodeDownlink(input) { return { bytes: [1, input.data.b] }; }',
      paramsSchema: { b: number() } as never,
    };
    const commandId = await fixture.addCommand(target.deviceId, set);
    const same = await Promise.all(
      [1, 2, 3].map(async () => await fixture.execute({ ...target, commandId }, { params: { b: 200 } })),
    );
    const [executionId = ''] = [...new Set(same.map((answer) => answer.executionId))];
    expect(same.map((answer) => answer.executionId)).toEqual([executionId, executionId, executionId]);
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const [first, second] = [
      await gateway.command(1),
      await gateway.result(executionId, ACCEPTED).then(async () => await gateway.command(2)),
    ];
    expect(
      [first, second].map((command) => [command.fPort, [...(command.payload as { value: Uint8Array }).value]]),
    ).toEqual([
      [undefined, [1, 200]],
      [11, [200]],
    ]);
    expect(second.executionId).toBe((await stored(executionId)).query?.tries[0]?.executionId);
    await gateway.result(second.executionId, ACCEPTED);
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: 3,
    });
    await gateway.cut();
  });

  it('are encoded for each try if the content includes its id', async () => {
    const customEncoder = 'function encodeDownlink(input) { return { bytes: [input.data.id.length] }; }';
    const target = await createParent(
      createQueryCommand(
        {},
        { mode: 2, directPayload: undefined, encodedParamsTemplate: { id: '{{execution.id}}' }, customEncoder },
      ),
    );
    const { executionId } = await fixture.execute(target, { params: { a: 1 } });
    const { query } = await stored(executionId);
    expect(encoder.runs.map((run) => run.data)).toEqual(query?.tries.map((one) => ({ id: one.executionId })));
  });

  it.each<[string, Partial<CommandDefinition>, RegExp]>([
    [
      'a parameter that the parent does not have',
      createQueryCommand({ z: number() }),
      /^names the command "Ask", whose params\.z is required/,
    ],
    [
      'a parameter that the parent defines differently',
      createQueryCommand({ a: number({ max: 0 }) }),
      /^names the command "Ask", whose params\.a is greater than 0/,
    ],
    [
      'an encoder that fails',
      createQueryCommand(
        {},
        { mode: 2, directPayload: undefined, customEncoder: 'function encodeDownlink() { throw new Error("dead"); }' },
      ),
      /^names the command "Ask", whose command\.customEncoder failed with runtime_error in line 1: .*dead/,
    ],
  ])('reject their parent for %s', async (_name, query, words) => {
    const target = await createParent(query, { a: number() });
    expect(await fixture.execute(target, { params: { a: 1 } })).toMatchObject({
      accepted: false,
      violations: [{ field: 'command.queryCommandId', description: expect.stringMatching(words) }],
    });
  });

  it('report a limited number of paths without a value', async () => {
    const directPayload = `[${Array.from({ length: 3000 }, (_, at) => `{{params.x.q${at}}}`).join(', ')}]`;
    const target = await createParent(createQueryCommand({ x: { enum: [] } }, { directPayload }), { x: { enum: [] } });
    const { violations } = await fixture.execute(target, { params: { x: {} } });
    expect(violations).toHaveLength(100);
  });

  it('are reported together with all other faults', async () => {
    const target = await createParent(createQueryCommand({ z: number() }));
    const off = await fixture.connection({ enabled: false });
    await fixture.devices.update(
      'org-1',
      target.deviceId,
      {
        name: undefined,
        physicalDevice: { connectionId: off },
        unbindPhysicalDevice: false,
        dataSendingInterval: undefined,
      } as never,
      undefined,
    );
    const { violations } = await fixture.execute(target, { params: { a: 1 } });
    expect(violations.map(({ field }) => field).toSorted()).toEqual(['command.queryCommandId', 'id']);
  });
});
