import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { type CommandDefinition, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionRoom, prepare, startExecutionRoom, type Target } from './executionRoom';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const number = (more: object = {}): object => ({ type: 3, enum: [], ...more });
const asks = (paramsSchema: object, overrides: Partial<CommandDefinition> = {}): Partial<CommandDefinition> => ({ name: 'Ask', paramsSchema: paramsSchema as never, ...overrides });

describe.each(engines())('query commands at submit on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let encoder: TestEncoder;
  let room: ExecutionRoom;
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    encoder = startEncoder();
    room = await startExecutionRoom(db.database, undefined, encoder);
  });
  beforeEach(() => encoder.runs.splice(0));
  afterAll(async () => {
    await room.stop();
    await encoder.stop();
    await db.drop();
  });

  /** A command with parameters a and b, and the query command of this definition. */
  async function parent(query: Partial<CommandDefinition>, schema: object = { a: number(), b: number({ default: 2 }) }): Promise<Target> {
    const target = await room.target({ command: query });
    const commandId = await room.addCommand(target.deviceId, { verificationStrategy: 3, queryCommandId: target.commandId, paramsSchema: schema as never });
    return { ...target, commandId };
  }
  const stored = async (id: string) => await new ExecutionRepository(db.database.db).get('org-1', id);

  it('are frozen with their parent: the parameters that they share, the defaults, and two tries with ids of their own', async () => {
    const directPayload = '{"b": {{params.b}}, "c": {{params.c}}, "id": {{execution.id}}, "for": {{execution.triggerId}}, "at": {{execution.enqueuedAt}}}';
    const target = await parent(asks({ b: number(), c: number({ default: 7 }) }, { directPayload, fPort: 8, confirmed: true, mqttTopic: 'ask', expectedSensorStates: [], verificationStrategy: 2 }));
    const { executionId } = await room.execute(target, { params: { a: 1 }, triggerId: 'trigger' });
    const { query } = await stored(executionId);
    expect(query).toMatchObject({ commandName: 'Ask', commandRevision: 1, params: { b: 2, c: 7 }, paramsHash: expect.stringMatching(/^[0-9a-f]{64}$/), kind: 'gateway', fPort: 8, confirmed: true, topic: 'ask' });
    const ids = query?.tries.map((one) => one.executionId) ?? [];
    expect(new Set([...ids, executionId]).size).toBe(3);
    expect(query?.tries.map((one) => one.payload)).toEqual(ids.map((id) => ({ kind: 'json', value: { b: 2, c: 7, id, for: 'trigger', at: new Date(room.clock.now()).toISOString() } })));
  });

  const script = 'function encodeDownlink(input) { return { bytes: [input.data.b || 0], fPort: 11 }; }';
  it('are encoded once if both tries say the same', async () => {
    const target = await parent(asks({ b: number() }, { mode: 2, directPayload: undefined, customEncoder: script }));
    const { executionId } = await room.execute(target, { params: { a: 1, b: 9 } });
    expect(encoder.runs).toHaveLength(1);
    const { query } = await stored(executionId);
    expect(query).toMatchObject({ fPort: 11, tries: [{ payload: { kind: 'bytes' } }, { payload: { kind: 'bytes' } }] });
    expect(query?.tries.map(({ payload }) => payload.kind === 'bytes' && [...payload.bytes])).toEqual([[9], [9]]);
  });

  it('go out after the acknowledgement, as the bytes that were frozen', async () => {
    const connectionId = await room.connection({ policy: { queueLimit: 1 } });
    const target = await room.target({ connectionId, command: asks({ b: number() }, { mode: 2, directPayload: undefined, customEncoder: script }) });
    const set = { verificationStrategy: 3, queryCommandId: target.commandId, mode: 2, directPayload: undefined, customEncoder: 'function encodeDownlink(input) { return { bytes: [1, input.data.b] }; }', paramsSchema: { b: number() } as never };
    const commandId = await room.addCommand(target.deviceId, set);
    const same = await Promise.all([1, 2, 3].map(async () => await room.execute({ ...target, commandId }, { params: { b: 200 } })));
    const [executionId = ''] = [...new Set(same.map((answer) => answer.executionId))];
    expect(same.map((answer) => answer.executionId)).toEqual([executionId, executionId, executionId]);
    const gateway = await TestGateway.attach(room, { connectionId });
    const [first, second] = [await gateway.command(1), await gateway.result(executionId, ACCEPTED).then(async () => await gateway.command(2))];
    expect([first, second].map((command) => [command.fPort, [...(command.payload as { value: Uint8Array }).value]])).toEqual([[undefined, [1, 200]], [11, [200]]]);
    expect(second.executionId).toBe((await stored(executionId)).query?.tries[0]?.executionId);
    await gateway.result(second.executionId, ACCEPTED);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: 3 });
    await gateway.cut();
  });

  it('are encoded for each try if its id is in what is sent', async () => {
    const customEncoder = 'function encodeDownlink(input) { return { bytes: [input.data.id.length] }; }';
    const target = await parent(asks({}, { mode: 2, directPayload: undefined, encodedParamsTemplate: { id: '{{execution.id}}' }, customEncoder }));
    const { executionId } = await room.execute(target, { params: { a: 1 } });
    const { query } = await stored(executionId);
    expect(encoder.runs.map((run) => run.data)).toEqual(query?.tries.map((one) => ({ id: one.executionId })));
  });

  it.each<[string, Partial<CommandDefinition>, RegExp]>([
    ['a parameter that the parent does not have', asks({ z: number() }), /^names the command "Ask", whose params\.z is required/],
    ['a parameter that the parent has otherwise', asks({ a: number({ max: 0 }) }), /^names the command "Ask", whose params\.a is greater than 0/],
    ['an encoder that fails', asks({}, { mode: 2, directPayload: undefined, customEncoder: 'function encodeDownlink() { throw new Error("dead"); }' }), /^names the command "Ask", whose command\.customEncoder fails with runtime_error in line 1: .*dead/],
  ])('refuse their parent for %s', async (_name, query, words) => {
    const target = await parent(query, { a: number() });
    expect(await room.execute(target, { params: { a: 1 } })).toMatchObject({ accepted: false, violations: [{ field: 'command.queryCommandId', description: expect.stringMatching(words) }] });
  });

  it('name no more of what has no value than a person reads', async () => {
    const directPayload = `[${Array.from({ length: 3000 }, (_, at) => `{{params.x.q${at}}}`).join(', ')}]`;
    const target = await parent(asks({ x: { enum: [] } }, { directPayload }), { x: { enum: [] } });
    const { violations } = await room.execute(target, { params: { x: {} } });
    expect(violations).toHaveLength(100);
  });

  it('are named beside all else that is wrong', async () => {
    const target = await parent(asks({ z: number() }));
    const off = await room.connection({ enabled: false });
    await room.devices.update('org-1', target.deviceId, { name: undefined, physicalDevice: { connectionId: off }, unbindPhysicalDevice: false, dataSendingInterval: undefined } as never, undefined);
    const { violations } = await room.execute(target, { params: { a: 1 } });
    expect(violations.map(({ field }) => field).toSorted()).toEqual(['command.queryCommandId', 'id']);
  });
});
