import { deleteOldExecutions } from '../../src/executions';
import {
  CommandDefinition,
  ExecutionState,
  type ListExecutionsResponse,
  RejectionReason,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { call, callFails } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionFixture, getName } from './executionFixture';
import { fixtureForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const {
  COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED,
  COMMAND_RESULT_CODE_REJECTED: REJECTED,
  COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER,
  COMMAND_RESULT_CODE_REFUSED: REFUSED,
  COMMAND_RESULT_CODE_EXPIRED: EXPIRED,
} = CommandResultCode;

describe.each(engines())('executions on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ db, fixture } = made));

  it('complete all steps: queued, sent, received, acknowledged, with a log entry for each', async () => {
    const connectionId = await fixture.connection();
    const params = { level: { type: 2, enum: [] } };
    const target = await fixture.target({
      connectionId,
      command: {
        directPayload: '{"level": {{params.level}}, "for": "{{device.clientDeviceId}}"}',
        paramsSchema: params as never,
        mqttTopic: 'a/b',
        fPort: 7,
        confirmed: true,
      },
    });
    const answer = await fixture.execute(target, { params: { level: 40 } });
    expect(answer).toMatchObject({
      accepted: true,
      duplicate: false,
      state: ExecutionState.EXECUTION_STATE_ENQUEUED,
      rejectionReason: undefined,
      violations: [],
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const command = await gateway.command(1);
    expect(command).toMatchObject({
      executionId: answer.executionId,
      attempt: 1,
      clientDeviceId: target.clientDeviceId,
      payload: { $case: 'json', value: { level: 40, for: target.clientDeviceId } },
      topic: 'a/b',
      fPort: 7,
      confirmed: true,
      expiresIn: { seconds: 60, nanos: 0 },
    });
    gateway.received(answer.executionId);
    const delivered = await fixture.until(answer.executionId, 'delivered');
    expect(delivered).toMatchObject({
      attempts: 1,
      deliveredAt: { seconds: Math.floor(fixture.clock.now() / 1000) },
      finishedAt: undefined,
    });
    expect(await gateway.result(answer.executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED);
    const done = await fixture.get(answer.executionId);
    expect(done).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
      evidence: 1,
      organizationId: 'org-1',
      deviceId: target.deviceId,
      commandId: target.commandId,
      params: { level: 40 },
      detail: '',
      deadlineAt: undefined,
    });
    expect(
      done.events.map((event) => [event.sequence, event.layer, event.event, getName(event.to), event.source]),
    ).toEqual([
      [1, 1, 'submitted', 'enqueued', 'api'],
      [2, 2, 'dispatch', 'in_transit', 'dispatcher'],
      [3, 2, 'transport_ok', 'delivered', 'gateway:gw-1'],
      [4, 3, 'ack', 'accepted_no_l4', 'gateway:gw-1'],
    ]);
    expect(done.events[1]?.data).toEqual({ peer_id: 'gw-1', boot_id: 'boot-1', attempt: 1 });
    expect(done.events[3]?.data).toEqual({ reported_at: '2023-11-14T22:13:20.000Z' });
    const lines = ['executions.transitioned', 'executions.completed']
      .flatMap((event) => fixture.log.of(event))
      .filter((line) => line['execution_id'] === answer.executionId);
    expect(
      lines.map((line) => [line['from_state'], line['state'], line['cause'], 'from_state' in line, 'event' in line]),
    ).toEqual([
      [undefined, 'enqueued', 'submitted', false, false],
      ['enqueued', 'in_transit', 'dispatch', true, false],
      ['in_transit', 'delivered', 'transport_ok', true, false],
      ['delivered', 'accepted_no_l4', 'ack', true, false],
    ]);
    await gateway.cut();
  });

  it.each([
    ['a negative answer', REJECTED, 'protocol_rejected', 'E7'],
    ['no answer', NO_ANSWER, 'unconfirmed', 'E7'],
    ['a rejection by the gateway', REFUSED, 'transport_rejected', 'E7'],
    ['an expiry on the gateway', EXPIRED, 'transport_unreachable', 'E7'],
  ])('end by %s', async (_name, result, state, detail) => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    expect(await gateway.result(executionId, result, 'E7', 'as the device said')).toBe(
      ResultOutcome.RESULT_OUTCOME_APPLIED,
    );
    const ended = await fixture.get(executionId);
    expect(getName(ended.state)).toBe(state);
    expect(ended).toMatchObject({ detail, detailMessage: 'as the device said' });
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_LATE);
    const late = await fixture.get(executionId);
    expect(late.state).toBe(ended.state);
    expect(late.events.at(-1)).toMatchObject({
      event: 'late_evidence',
      from: ended.state,
      to: ended.state,
      data: { evidence: 'ack' },
    });
    await gateway.cut();
  });

  it('answer UNKNOWN to a result of another connection, another organization or an unknown execution, without changes', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const { executionId } = await fixture.execute(target);
    const stranger = await TestGateway.attach(fixture, { connectionId: await fixture.connection() });
    expect(await stranger.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_UNKNOWN);
    expect(await stranger.result('nothing', ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_UNKNOWN);
    expect(
      await fixture.executions.evidenceService.applyEvidence('org-2', connectionId, executionId, 'test', {
        kind: 'ack',
      }),
    ).toBe('unknown');
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ENQUEUED,
      events: { length: 1 },
    });
    await stranger.cut();
  });

  it('report a missing device, command or execution, also when another organization has it', async () => {
    const target = await fixture.target();
    const { executionId } = await fixture.execute(target);
    expect(await fixture.executeFails({ ...target, deviceId: 'none' })).toMatchObject({
      code: 5,
      reason: 'device_not_found',
    });
    expect(await fixture.executeFails({ ...target, commandId: 'none' })).toMatchObject({
      code: 5,
      reason: 'command_not_found',
    });
    const other = await fixture.target();
    expect(await fixture.executeFails({ deviceId: other.deviceId, commandId: target.commandId })).toMatchObject({
      reason: 'command_not_found',
    });
    const request = { id: target.deviceId, organizationId: '', commandId: target.commandId, params: undefined };
    expect(await callFails(fixture.client.executeCommand.bind(fixture.client), request, AS_TWO)).toMatchObject({
      reason: 'device_not_found',
    });
    expect(
      await callFails(fixture.client.getExecution.bind(fixture.client), { executionId, organizationId: '' }, AS_TWO),
    ).toMatchObject({ code: 5, reason: 'execution_not_found' });
    expect(
      await callFails(
        fixture.client.listExecutions.bind(fixture.client),
        { id: target.deviceId, organizationId: '', before: '' },
        AS_TWO,
      ),
    ).toMatchObject({ reason: 'device_not_found' });
  });

  it('store a request that was not admitted, with all its faults', async () => {
    const unbound = await fixture.target({
      bound: false,
      command: {
        paramsSchema: { level: { type: 2, enum: [], default: undefined, min: 0 } },
        directPayload: '{"level": {{params.level}}}',
      },
    });
    const answer = await fixture.execute(unbound, { params: { level: -1, more: true }, triggerId: 'trigger-1' });
    expect(answer).toMatchObject({
      accepted: false,
      duplicate: false,
      state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED,
      rejectionReason: RejectionReason.REJECTION_REASON_VALIDATION_FAILED,
    });
    expect(answer.violations.map((violation) => violation.field).toSorted()).toEqual([
      'id',
      'params.level',
      'params.more',
    ]);
    const stored = await fixture.get(answer.executionId);
    expect(stored).toMatchObject({
      state: answer.state,
      rejectionReason: answer.rejectionReason,
      params: { level: -1, more: true },
      triggerId: 'trigger-1',
      violations: answer.violations,
      events: [{ event: 'submitted', data: { rejection_reason: 'validation_failed' } }],
    });
    expect(stored.finishedAt).toEqual(stored.enqueuedAt);
    expect(await fixture.execute(unbound, { params: { more: true, level: -1 }, triggerId: 'trigger-1' })).toEqual({
      ...answer,
      duplicate: true,
    });
  });

  it.each([
    [
      'a connection that is disabled',
      async () => await fixture.target({ connectionId: await fixture.connection({ enabled: false }) }),
      'id',
      'which is disabled',
    ],
  ])('are rejected for %s, with the reason', async (_name, make, field, words) => {
    const answer = await fixture.execute(await make());
    expect(answer).toMatchObject({
      accepted: false,
      violations: [{ field, description: expect.stringContaining(words) }],
    });
  });

  it('are deduplicated while an identical one is in flight, also for parallel requests', async () => {
    const target = await fixture.target({ command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } } });
    const answers = await Promise.all(
      [undefined, { level: 1 }, { level: 1.0 }, undefined, { level: 1 }].map(
        async (params) => await fixture.execute(target, { params }),
      ),
    );
    expect(new Set(answers.map((answer) => answer.executionId)).size).toBe(1);
    expect(answers.filter((answer) => answer.duplicate)).toHaveLength(4);
    expect(answers.every((answer) => answer.accepted)).toBe(true);
    expect((await fixture.execute(target, { params: { level: 2 } })).duplicate).toBe(false);
  });

  it('may be repeated with their trigger id for 7 days, in any state', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({
      connectionId,
      command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } },
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const answers = await Promise.all([1, 2, 3].map(async () => await fixture.execute(target, { triggerId: 'once' })));
    const [{ executionId } = { executionId: '' }] = answers;
    expect(new Set(answers.map((answer) => answer.executionId)).size).toBe(1);
    await gateway.command(1);
    await gateway.result(executionId, ACCEPTED);
    expect(await fixture.execute(target, { triggerId: 'once' })).toMatchObject({
      accepted: true,
      duplicate: true,
      executionId,
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
    });
    expect(await fixture.executeFails(target, { triggerId: 'once', params: { level: 2 } })).toMatchObject({
      code: 6,
      reason: 'trigger_id_reused',
      metadata: { execution_id: executionId },
    });
    expect((await fixture.execute(await fixture.target({ connectionId }), { triggerId: 'once' })).duplicate).toBe(
      false,
    );
    fixture.clock.advance(7 * 24 * 3_600_000);
    expect(await fixture.execute(target, { triggerId: 'once', params: { level: 2 } })).toMatchObject({
      accepted: true,
      duplicate: false,
    });
    await gateway.cut();
  });

  it('return the same execution for a trigger id that was a duplicate, even when that execution has ended', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(target, { triggerId: 'first' });
    expect(await fixture.execute(target, { triggerId: 'second' })).toMatchObject({ duplicate: true, executionId });
    await gateway.command(1);
    await gateway.result(executionId, ACCEPTED);
    expect(await fixture.execute(target, { triggerId: 'second' })).toMatchObject({
      duplicate: true,
      executionId,
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
    });
    expect(await fixture.executeFails(target, { triggerId: 'second', params: { level: 2 } })).toMatchObject({
      code: 6,
      reason: 'trigger_id_reused',
      metadata: { execution_id: executionId },
    });
    expect(gateway.commands).toHaveLength(1);
    fixture.clock.advance(7 * 24 * 3_600_000);
    await deleteOldExecutions(db.database, fixture.clock.now());
    expect(await db.database.db.knex('execution_triggers').where('device_id', target.deviceId)).toEqual([]);
    await gateway.cut();
  });

  it('may be repeated with their trigger id after a default was changed', async () => {
    const target = await fixture.target({ command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } } });
    const { executionId } = await fixture.execute(target, { triggerId: 'edited' });
    const definition = CommandDefinition.fromPartial({
      name: 'Edited',
      mode: 1,
      verificationStrategy: 1,
      directPayload: '{"on": true}',
      paramsSchema: { level: { type: 2, enum: [], default: 2 } },
    });
    await call(
      fixture.client.updateCommand.bind(fixture.client),
      { id: target.deviceId, commandId: target.commandId, organizationId: '', command: definition },
      AS_ONE,
    );
    expect(await fixture.execute(target, { triggerId: 'edited' })).toMatchObject({ duplicate: true, executionId });
    expect(await fixture.executeFails(target, { triggerId: 'edited', params: { level: 2 } })).toMatchObject({
      reason: 'trigger_id_reused',
    });
  });

  it('never exceed the limit of undelivered ones, also for parallel requests', async () => {
    const target = await fixture.target({
      connectionId: await fixture.connection({ policy: { queueLimit: 3 } }),
      command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } },
    });
    const answers = await Promise.all(
      [1, 2, 3, 4, 5, 6].map(async (n) => await fixture.execute(target, { params: { n } })),
    );
    expect(answers.filter((answer) => answer.accepted)).toHaveLength(3);
    for (const refused of answers.filter((answer) => !answer.accepted))
      expect(refused).toMatchObject({
        state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED,
        rejectionReason: RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL,
        violations: [],
      });
    const last = await db.database.db
      .knex('executions')
      .where('device_id', target.deviceId)
      .where('final', 0)
      .orderBy('queue_order', 'desc')
      .first<{ id: string }>('id');
    const n = Number((await fixture.get(last.id)).params?.['n']);
    expect(await fixture.execute(target, { params: { n } })).toMatchObject({ duplicate: true, executionId: last.id });
  });

  it('are rejected for a device with 200 executions that wait for an answer or an effect, because each uplink is checked against all of them', async () => {
    const target = await fixture.target({
      connectionId: await fixture.connection({ policy: { queueLimit: 1000 } }),
      command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } },
    });
    const open = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => (await fixture.execute(target, { params: { n } })).executionId),
    );
    const change = async (id: string | undefined, state: object): Promise<void> =>
      void (await db.database.db
        .knex('executions')
        .whereIn('id', id === undefined ? open : [id])
        .update(state));
    await change(undefined, { state: 'accepted', next_deadline: null });
    expect(await fixture.execute(target, { params: { n: 200 } })).toMatchObject({
      accepted: false,
      rejectionReason: RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL,
    });
    await change(open[0], { state: 'accepted_no_l4', final: 1, dedupe_key: null });
    expect(await fixture.execute(target, { params: { n: 200 } })).toMatchObject({ accepted: true });
  });

  it('are listed most recently updated first and in pages', async () => {
    const target = await fixture.target({
      command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } },
    });
    const ids: string[] = [];
    for (const n of [1, 2, 3, 4, 5]) {
      if (n % 2) fixture.clock.advance(1); // Some of them have the same update time.
      ids.push((await fixture.execute(target, { params: { n } })).executionId);
    }
    const list = async (before: string): Promise<ListExecutionsResponse> =>
      await call(
        fixture.client.listExecutions.bind(fixture.client),
        { id: target.deviceId, organizationId: '', limit: 2, before },
        AS_ONE,
      );
    const listedIds: string[] = [];
    let page = await list('');
    for (; page.nextCursor; page = await list(page.nextCursor)) listedIds.push(...page.items.map((item) => item.id));
    listedIds.push(...page.items.map((item) => item.id));
    expect(listedIds).toEqual(ids.toReversed());
    expect(page.items[0]).toMatchObject({
      commandId: target.commandId,
      commandNameSnapshot: expect.stringContaining('Command'),
      organizationId: '',
      deviceId: '',
      params: undefined,
      events: [],
    });
    const first = await list('');
    const other = await fixture.target();
    const foreign = await callFails(
      fixture.client.listExecutions.bind(fixture.client),
      { id: other.deviceId, organizationId: '', before: first.nextCursor ?? '' },
      AS_ONE,
    );
    expect(foreign).toMatchObject({ reason: 'validation_failed', fields: ['before'] });
  });

  it('outlive their command', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({
      connectionId,
      command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } },
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const first = await fixture.execute(target, { params: { n: 1 } });
    const second = await fixture.execute(target, { params: { n: 2 } });
    await gateway.command(1);
    expect((await fixture.get(second.executionId)).commandId).toBe(target.commandId);
    await call(
      fixture.client.deleteCommand.bind(fixture.client),
      { id: target.deviceId, commandId: target.commandId, organizationId: '' },
      AS_ONE,
    );
    expect(await fixture.get(first.executionId)).toMatchObject({
      commandId: undefined,
      commandNameSnapshot: expect.stringContaining('Command'),
      state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
    });
    const listed: ListExecutionsResponse = await call(
      fixture.client.listExecutions.bind(fixture.client),
      { id: target.deviceId, organizationId: '', before: '' },
      AS_ONE,
    );
    expect(listed.items.map((item) => item.commandId)).toEqual([undefined, undefined]);
    await gateway.cut();
  });

  it('outlive their device, and show that its commands are deleted', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({
      connectionId,
      command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } },
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const first = await fixture.execute(target, { params: { n: 1 } });
    const second = await fixture.execute(target, { params: { n: 2 } });
    await gateway.command(1);
    await fixture.devices.delete('org-1', target.deviceId, undefined);
    expect(await fixture.get(first.executionId)).toMatchObject({
      commandId: undefined,
      commandNameSnapshot: expect.stringContaining('Command'),
      state: ExecutionState.EXECUTION_STATE_UNCONFIRMED,
      detail: 'device_removed',
    });
    expect(await fixture.get(second.executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
      detail: 'device_removed',
    });
    await gateway.untilCancelled(first.executionId);
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  it('end when their device is bound to another physical device', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const { executionId } = await fixture.execute(target);
    await fixture.devices.update(
      'org-1',
      target.deviceId,
      {
        name: undefined,
        dataSendingInterval: undefined,
        physicalDevice: { clientDeviceId: 'another', connectionId: undefined, configuration: undefined },
      },
      undefined,
    );
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
      detail: 'device_removed',
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    await fixture.execute(target);
    expect(await gateway.command(1)).toMatchObject({ clientDeviceId: 'another' });
    await gateway.cut();
  });
});
