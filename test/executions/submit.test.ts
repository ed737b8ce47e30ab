import type { EncodeResult } from '../../src/codec';
import type { Encoder } from '../../src/commands';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import {
  type Command,
  type CommandDefinition,
  ExecutionState,
  type ListExecutionsResponse,
  RejectionReason,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { DomainError } from '../../src/kernel/errors';
import { call } from '../support/edge';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, type ExecutionFixture, prepare, startExecutionFixture } from './executionFixture';
import { TestGateway } from './testGateway';

const { EXECUTION_STATE_ENQUEUED: ENQUEUED, EXECUTION_STATE_REQUEST_REJECTED: REQUEST_REJECTED } = ExecutionState;
const LEVEL = { level: { type: 2, enum: [] } } as never;
const INTERRUPTED: EncodeResult = {
  output: undefined,
  warnings: [],
  logs: [],
  executionTimeMs: 1,
  error: { code: 'timeout', message: 'the machine was too busy', lineNumber: undefined },
  isServerFault: true,
};
/** A command whose encoder returns its level. */
const encoded = (overrides: Partial<CommandDefinition> = {}): Partial<CommandDefinition> => ({
  mode: 2,
  directPayload: undefined,
  paramsSchema: LEVEL,
  customEncoder: 'function encodeDownlink(input) { return { bytes: [input.data.level] }; }',
  ...overrides,
});

describe.each(engines())('submitting on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let sandbox: TestEncoder;
  let during: (() => Promise<EncodeResult | void>) | undefined;
  let fixture: ExecutionFixture;
  // What a test does while the first encoder runs, or instead of running it.
  const encoder: Encoder = {
    encode: async (request) => {
      const action = during;
      during = undefined;
      return (await action?.()) ?? (await sandbox.encode(request));
    },
  };
  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
    sandbox = startEncoder();
    fixture = await startExecutionFixture(db.database, undefined, encoder);
  });
  beforeEach(() => sandbox.runs.splice(0));
  afterAll(async () => {
    await fixture.stop();
    await sandbox.stop();
    await db.drop();
  });
  const stored = async (id: string) => await new ExecutionRepository(db.database.db).get('org-1', id);

  it('runs the encoder once, and sends its bytes to the gateway unchanged', async () => {
    const connectionId = await fixture.connection();
    const bytes = [0, 1, 127, 128, 255, 10, 13];
    const target = await fixture.target({
      connectionId,
      command: encoded({
        customEncoder: `function encodeDownlink(input) { return { bytes: ${JSON.stringify(bytes)}.concat(input.data.level, input.fPort) }; }`,
        fPort: 42,
        confirmed: true,
        mqttTopic: 'a/b',
      }),
    });
    const answer = await fixture.execute(target, { params: { level: 3 } });
    expect(answer).toMatchObject({ accepted: true, state: ENQUEUED, violations: [] });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const command = await gateway.command(1);
    expect(command).toMatchObject({
      executionId: answer.executionId,
      fPort: 42,
      confirmed: true,
      topic: 'a/b',
      payload: { $case: 'bytes' },
    });
    expect([...(command.payload as { value: Uint8Array }).value]).toEqual([...bytes, 3, 42]);
    expect(sandbox.runs).toMatchObject([{ owner: 'org-1', data: { level: 3 }, fPort: 42 }]);
    await gateway.cut();
  });

  it.each([
    ['number', '"open"', /is "open", which a sensor of type number never reports/],
    ['string', '21', /is 21, which a sensor of type string never reports; use a string, in quotes/],
  ] as const)('rejects expected values that a sensor of type %s can never have', async (valueType, expects, words) => {
    const target = await fixture.target({ expects, valueType });
    const violations = [
      { field: 'command.expectedSensorStates[0].valueTemplate', description: expect.stringMatching(words) },
    ];
    expect(await fixture.execute(target)).toMatchObject({ accepted: false, state: REQUEST_REJECTED, violations });
  });

  it('prefers the port of the encoder, and passes it the rendered template', async () => {
    const encodedParamsTemplate = {
      deep: { values: ['{{params.level}}', 'n{{params.level}}', 7] },
      of: '{{device.clientDeviceId}}',
      by: '{{execution.id}}',
      for: '{{execution.triggerId}}',
      at: '{{execution.enqueuedAt}}',
    };
    const target = await fixture.target({
      command: encoded({
        encodedParamsTemplate,
        customEncoder: 'function encodeDownlink() { return { bytes: [], fPort: 9 }; }',
        fPort: 42,
      }),
    });
    const { executionId } = await fixture.execute(target, { params: { level: 5 }, triggerId: 'trigger-t' });
    expect(sandbox.runs[0]?.data).toEqual({
      deep: { values: [5, 'n5', 7] },
      of: target.clientDeviceId,
      by: executionId,
      for: 'trigger-t',
      at: new Date(fixture.clock.now()).toISOString(),
    });
    expect(await stored(executionId)).toMatchObject({ fPort: 9, payload: { kind: 'bytes' }, query: undefined });
  });

  it.each([
    [
      'throws',
      'function encodeDownlink() {\n  throw new Error("no valve");\n}',
      /^failed with runtime_error in line 2: .*no valve/,
    ],
    ['is not JavaScript', 'function encodeDownlink( {', /^failed with syntax_error/],
    [
      'reports an error',
      'function encodeDownlink() { return { bytes: [1], errors: ["level is wrong"] }; }',
      /^failed with encoder_errors.*level is wrong/,
    ],
    ['is not an encoder', 'var x = 1;', /^failed with no_encoder/],
    [
      'returns too much for a byte',
      'function encodeDownlink() { return { bytes: [1, 256] }; }',
      /^failed with bad_output.*256/,
    ],
    [
      'returns an invalid port',
      'function encodeDownlink() { return { bytes: [1], fPort: 224 }; }',
      /^failed with bad_output.*224/,
    ],
  ])('reports where an encoder %s', async (_name, customEncoder, words) => {
    const target = await fixture.target({ command: encoded({ customEncoder }) });
    const answer = await fixture.execute(target, { params: { level: 1 } });
    const violations = [{ field: 'command.customEncoder', description: expect.stringMatching(words) }];
    expect(answer).toMatchObject({
      accepted: false,
      duplicate: false,
      state: REQUEST_REJECTED,
      rejectionReason: RejectionReason.REJECTION_REASON_VALIDATION_FAILED,
      violations,
    });
    expect(await fixture.get(answer.executionId)).toMatchObject({
      state: REQUEST_REJECTED,
      violations,
      attempts: 0,
      deadlineAt: undefined,
    });
  });

  it('runs no encoder for requests that are rejected or answered without it', async () => {
    const target = await fixture.target({ command: encoded() });
    const off = await fixture.target({
      connectionId: await fixture.connection({ enabled: false }),
      command: encoded(),
    });
    expect(await fixture.execute(target, { params: { level: 'x' } })).toMatchObject({ accepted: false });
    expect(await fixture.execute(off, { params: { level: 1 } })).toMatchObject({ accepted: false });
    expect(sandbox.runs).toHaveLength(0);
    const full = await fixture.target({
      connectionId: await fixture.connection({ policy: { queueLimit: 1 } }),
      command: encoded(),
    });
    expect(await fixture.execute(full, { params: { level: 1 } })).toMatchObject({ accepted: true });
    const refused = await fixture.execute(full, { params: { level: 2 }, triggerId: 'full' });
    expect(refused).toMatchObject({
      accepted: false,
      state: REQUEST_REJECTED,
      rejectionReason: RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL,
      violations: [],
    });
    expect(await fixture.execute(full, { params: { level: 2 }, triggerId: 'full' })).toEqual({
      ...refused,
      duplicate: true,
    });
    expect(sandbox.runs.splice(0)).toHaveLength(1);
    const first = await fixture.execute(target, { params: { level: 1 }, triggerId: 'once' });
    expect(await fixture.execute(target, { params: { level: 1 }, triggerId: 'once' })).toMatchObject({
      executionId: first.executionId,
      duplicate: true,
    });
    expect(await fixture.execute(target, { params: { level: 1 } })).toMatchObject({
      executionId: first.executionId,
      duplicate: true,
    });
    expect(await fixture.executeFails(target, { params: { level: 2 }, triggerId: 'once' })).toMatchObject({
      reason: 'trigger_id_reused',
    });
    expect(sandbox.runs).toHaveLength(1);
  });

  it('returns the same response for a repeated trigger id when its encoder failed, without running it again', async () => {
    const target = await fixture.target({
      command: encoded({ customEncoder: 'function encodeDownlink() { throw new Error("no"); }' }),
    });
    const first = await fixture.execute(target, { params: { level: 1 }, triggerId: 'failed' });
    expect(first.accepted).toBe(false);
    expect(await fixture.execute(target, { params: { level: 1 }, triggerId: 'failed' })).toEqual({
      ...first,
      duplicate: true,
    });
    expect(sandbox.runs).toHaveLength(1);
  });

  it('creates one execution for parallel duplicates, and no more of others than the limit', async () => {
    const connectionId = await fixture.connection({ policy: { queueLimit: 3 } });
    const target = await fixture.target({ connectionId, command: encoded() });
    const same = await Promise.all(
      Array.from({ length: 5 }, async () => await fixture.execute(target, { params: { level: 0 } })),
    );
    expect(new Set(same.map((answer) => answer.executionId)).size).toBe(1);
    expect(same.filter((answer) => answer.duplicate)).toHaveLength(4);
    const others = await Promise.all(
      [1, 2, 3, 4, 5].map(async (level) => await fixture.execute(target, { params: { level } })),
    );
    expect(others.filter((answer) => answer.accepted)).toHaveLength(2);
    expect(
      others.filter((answer) => answer.rejectionReason === RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL),
    ).toHaveLength(3);
  });

  it('does not deduct the wait for an encoder from the delivery time, and keeps trigger ids for the full time', async () => {
    const target = await fixture.target({
      command: encoded({ encodedParamsTemplate: { level: '{{params.level}}', at: '{{execution.enqueuedAt}}' } }),
    });
    const requestedAt = fixture.clock.now();
    during = async () => await Promise.resolve(fixture.clock.advance(61_000));
    const { executionId, state } = await fixture.execute(target, { params: { level: 1 }, triggerId: 'waited' });
    expect(state).toBe(ENQUEUED);
    expect(sandbox.runs[0]?.data).toEqual({ level: 1, at: new Date(requestedAt).toISOString() });
    expect(await stored(executionId)).toMatchObject({
      state: 'enqueued',
      enqueuedAt: requestedAt + 61_000,
      updatedAt: requestedAt + 61_000,
      tDelivery: requestedAt + 121_000,
    });
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(executionId)).toMatchObject({ state: ENQUEUED });
    expect(await fixture.execute(target, { params: { level: 1 }, triggerId: 'waited' })).toMatchObject({
      executionId,
      duplicate: true,
    });
  });

  it.each([
    [
      'is full',
      8,
      'codec_queue_full',
      async () =>
        await Promise.reject(
          new DomainError('exhausted', 'codec_queue_full', 'too many encoders wait; try again', { retryAfterMs: 1000 }),
        ),
    ],
    ['got no CPU time', 14, 'encoder_interrupted', async () => await Promise.resolve(INTERRUPTED)],
  ])('stores nothing when the sandbox %s', async (_name, code, reason, encode) => {
    const target = await fixture.target({ command: encoded() });
    during = encode;
    expect(await fixture.executeFails(target, { params: { level: 1 }, triggerId: 'again' })).toMatchObject({
      code,
      reason,
      retryMs: 1000,
    });
    const page: ListExecutionsResponse = await call(
      fixture.client.listExecutions.bind(fixture.client),
      { id: target.deviceId, organizationId: '', before: '' },
      AS_ONE,
    );
    expect(page.items).toEqual([]);
    expect(await fixture.execute(target, { params: { level: 1 }, triggerId: 'again' })).toMatchObject({
      accepted: true,
      duplicate: false,
    });
  });

  it('starts over when its query command changes while the encoder runs', async () => {
    const target = await fixture.target();
    const commandId = await fixture.addCommand(
      target.deviceId,
      encoded({ verificationStrategy: 3, queryCommandId: target.commandId }),
    );
    const { client } = fixture;
    const before: Command = await call(
      client.getCommand.bind(client),
      { id: target.deviceId, commandId: target.commandId, organizationId: '' },
      AS_ONE,
    );
    const definition = { ...before, directPayload: '{"ask": 2}' };
    during = async () =>
      void (await call(
        client.updateCommand.bind(client),
        { id: target.deviceId, commandId: target.commandId, organizationId: '', command: definition },
        AS_ONE,
      ));
    const { executionId } = await fixture.execute({ ...target, commandId }, { params: { level: 1 } });
    expect(sandbox.runs).toHaveLength(2);
    expect((await stored(executionId)).query).toMatchObject({
      commandId: target.commandId,
      commandRevision: 2,
      tries: [{ payload: { kind: 'json', value: { ask: 2 } } }, {}],
    });
  });
});
