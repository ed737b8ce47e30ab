import { CommandDefinition, ExecutionState, type ListExecutionsResponse, RejectionReason } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { call, callFails } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionRoom, nameOf } from './executionRoom';
import { roomForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED, COMMAND_RESULT_CODE_REJECTED: REJECTED, COMMAND_RESULT_CODE_NO_ANSWER: NO_ANSWER, COMMAND_RESULT_CODE_REFUSED: REFUSED, COMMAND_RESULT_CODE_EXPIRED: EXPIRED } = CommandResultCode;

describe.each(engines())('executions on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => ({ db, room } = made));

  it('go all the way: queued, sent, received, acknowledged, with a log of each step', async () => {
    const connectionId = await room.connection();
    const params = { level: { type: 2, enum: [] } };
    const target = await room.target({ connectionId, command: { directPayload: '{"level": {{params.level}}, "for": "{{device.clientDeviceId}}"}', paramsSchema: params as never, mqttTopic: 'a/b', fPort: 7, confirmed: true } });
    const answer = await room.execute(target, { params: { level: 40 } });
    expect(answer).toMatchObject({ accepted: true, duplicate: false, state: ExecutionState.EXECUTION_STATE_ENQUEUED, rejectionReason: undefined, violations: [] });
    const gateway = await TestGateway.attach(room, { connectionId });
    const command = await gateway.command(1);
    expect(command).toMatchObject({ executionId: answer.executionId, attempt: 1, clientDeviceId: target.clientDeviceId, payload: { $case: 'json', value: { level: 40, for: target.clientDeviceId } }, topic: 'a/b', fPort: 7, confirmed: true, expiresIn: { seconds: 60, nanos: 0 } });
    gateway.received(answer.executionId);
    const delivered = await room.until(answer.executionId, 'delivered');
    expect(delivered).toMatchObject({ attempts: 1, deliveredAt: { seconds: Math.floor(room.clock.now() / 1000) }, finishedAt: undefined });
    expect(await gateway.result(answer.executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED);
    const done = await room.get(answer.executionId);
    expect(done).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4, evidence: 1, organizationId: 'org-1', deviceId: target.deviceId, commandId: target.commandId, params: { level: 40 }, detail: '', deadlineAt: undefined });
    expect(done.events.map((event) => [event.sequence, event.layer, event.event, nameOf(event.to), event.source])).toEqual([
      [1, 1, 'submitted', 'enqueued', 'api'],
      [2, 2, 'dispatch', 'in_transit', 'dispatcher'],
      [3, 2, 'transport_ok', 'delivered', 'gateway:gw-1'],
      [4, 3, 'ack', 'accepted_no_l4', 'gateway:gw-1'],
    ]);
    expect(done.events[1]?.data).toEqual({ peer_id: 'gw-1', boot_id: 'boot-1', attempt: 1 });
    expect(done.events[3]?.data).toEqual({ reported_at: '2023-11-14T22:13:20.000Z' });
    const lines = ['executions.advanced', 'executions.ended'].flatMap((event) => room.log.of(event)).filter((line) => line['execution_id'] === answer.executionId);
    expect(lines.map((line) => [line['from_state'], line['state'], line['cause'], 'from_state' in line, 'event' in line])).toEqual([
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
    ['a refusal of the gateway', REFUSED, 'transport_rejected', 'E7'],
    ['an expiry on the gateway', EXPIRED, 'transport_unreachable', 'E7'],
  ])('end by %s', async (_name, result, state, detail) => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const gateway = await TestGateway.attach(room, { connectionId });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    expect(await gateway.result(executionId, result, 'E7', 'as the device said')).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED);
    const ended = await room.get(executionId);
    expect(nameOf(ended.state)).toBe(state);
    expect(ended).toMatchObject({ detail, detailMessage: 'as the device said' });
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_LATE);
    const late = await room.get(executionId);
    expect(late.state).toBe(ended.state);
    expect(late.events.at(-1)).toMatchObject({ event: 'late_evidence', from: ended.state, to: ended.state, data: { evidence: 'ack' } });
    await gateway.cut();
  });

  it('answer UNKNOWN to a result of another connection, of another organization or of nothing, and change nothing', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const { executionId } = await room.execute(target);
    const stranger = await TestGateway.attach(room, { connectionId: await room.connection() });
    expect(await stranger.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_UNKNOWN);
    expect(await stranger.result('nothing', ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_UNKNOWN);
    expect(await room.executions.evidence('org-2', connectionId, executionId, 'test', { kind: 'ack' })).toBe('unknown');
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ENQUEUED, events: { length: 1 } });
    await stranger.cut();
  });

  it('name what is missing: device, command, execution, also when another organization has it', async () => {
    const target = await room.target();
    const { executionId } = await room.execute(target);
    expect(await room.executeFails({ ...target, deviceId: 'none' })).toMatchObject({ code: 5, reason: 'device_not_found' });
    expect(await room.executeFails({ ...target, commandId: 'none' })).toMatchObject({ code: 5, reason: 'command_not_found' });
    const other = await room.target();
    expect(await room.executeFails({ deviceId: other.deviceId, commandId: target.commandId })).toMatchObject({ reason: 'command_not_found' });
    const request = { id: target.deviceId, organizationId: '', commandId: target.commandId, params: undefined };
    expect(await callFails(room.client.executeCommand.bind(room.client), request, AS_TWO)).toMatchObject({ reason: 'device_not_found' });
    expect(await callFails(room.client.getExecution.bind(room.client), { executionId, organizationId: '' }, AS_TWO)).toMatchObject({ code: 5, reason: 'execution_not_found' });
    expect(await callFails(room.client.listExecutions.bind(room.client), { id: target.deviceId, organizationId: '', before: '' }, AS_TWO)).toMatchObject({ reason: 'device_not_found' });
  });

  it('keep what was not admitted, with everything that was wrong', async () => {
    const unbound = await room.target({ bound: false, command: { paramsSchema: { level: { type: 2, enum: [], default: undefined, min: 0 } }, directPayload: '{"level": {{params.level}}}' } });
    const answer = await room.execute(unbound, { params: { level: -1, more: true }, triggerId: 'trigger-1' });
    expect(answer).toMatchObject({ accepted: false, duplicate: false, state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED, rejectionReason: RejectionReason.REJECTION_REASON_VALIDATION_FAILED });
    expect(answer.violations.map((violation) => violation.field).toSorted()).toEqual(['id', 'params.level', 'params.more']);
    const kept = await room.get(answer.executionId);
    expect(kept).toMatchObject({ state: answer.state, rejectionReason: answer.rejectionReason, params: { level: -1, more: true }, triggerId: 'trigger-1', violations: answer.violations, events: [{ event: 'submitted', data: { rejection_reason: 'validation_failed' } }] });
    expect(kept.finishedAt).toEqual(kept.enqueuedAt);
    expect(await room.execute(unbound, { params: { more: true, level: -1 }, triggerId: 'trigger-1' })).toEqual({ ...answer, duplicate: true });
  });

  it.each([
    ['a connection that is switched off', async () => await room.target({ connectionId: await room.connection({ enabled: false }) }), 'id', 'switched off'],
  ])('are refused for %s, and say why', async (_name, make, field, words) => {
    const answer = await room.execute(await make());
    expect(answer).toMatchObject({ accepted: false, violations: [{ field, description: expect.stringContaining(words) }] });
  });

  it('are one when they would do the same at the same time, also when asked for in parallel', async () => {
    const target = await room.target({ command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } } });
    const answers = await Promise.all([undefined, { level: 1 }, { level: 1.0 }, undefined, { level: 1 }].map(async (params) => await room.execute(target, { params })));
    expect(new Set(answers.map((answer) => answer.executionId)).size).toBe(1);
    expect(answers.filter((answer) => answer.duplicate)).toHaveLength(4);
    expect(answers.every((answer) => answer.accepted)).toBe(true);
    expect((await room.execute(target, { params: { level: 2 } })).duplicate).toBe(false);
  });

  it('may be repeated by their trigger id for 7 days, whatever their state', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } } });
    const gateway = await TestGateway.attach(room, { connectionId });
    const answers = await Promise.all([1, 2, 3].map(async () => await room.execute(target, { triggerId: 'once' })));
    const [{ executionId } = { executionId: '' }] = answers;
    expect(new Set(answers.map((answer) => answer.executionId)).size).toBe(1);
    await gateway.command(1);
    await gateway.result(executionId, ACCEPTED);
    expect(await room.execute(target, { triggerId: 'once' })).toMatchObject({ accepted: true, duplicate: true, executionId, state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
    expect(await room.executeFails(target, { triggerId: 'once', params: { level: 2 } })).toMatchObject({ code: 6, reason: 'trigger_id_reused', metadata: { execution_id: executionId } });
    expect((await room.execute(await room.target({ connectionId }), { triggerId: 'once' })).duplicate).toBe(false);
    room.clock.advance(7 * 24 * 3_600_000);
    expect(await room.execute(target, { triggerId: 'once', params: { level: 2 } })).toMatchObject({ accepted: true, duplicate: false });
    await gateway.cut();
  });

  it('may be repeated by their trigger id after a default was edited', async () => {
    const target = await room.target({ command: { paramsSchema: { level: { type: 2, enum: [], default: 1 } } } });
    const { executionId } = await room.execute(target, { triggerId: 'edited' });
    const definition = CommandDefinition.fromPartial({ name: 'Edited', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}', paramsSchema: { level: { type: 2, enum: [], default: 2 } } });
    await call(room.client.updateCommand.bind(room.client), { id: target.deviceId, commandId: target.commandId, organizationId: '', command: definition }, AS_ONE);
    expect(await room.execute(target, { triggerId: 'edited' })).toMatchObject({ duplicate: true, executionId });
    expect(await room.executeFails(target, { triggerId: 'edited', params: { level: 2 } })).toMatchObject({ reason: 'trigger_id_reused' });
  });

  it('never exceed the limit of undelivered ones, also when asked for in parallel', async () => {
    const target = await room.target({ connectionId: await room.connection({ policy: { queueLimit: 3 } }), command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } } });
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(async (n) => await room.execute(target, { params: { n } })));
    expect(answers.filter((answer) => answer.accepted)).toHaveLength(3);
    for (const refused of answers.filter((answer) => !answer.accepted)) expect(refused).toMatchObject({ state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED, rejectionReason: RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL, violations: [] });
    const known = answers.find((answer) => answer.accepted);
    const n = Number((await room.get(known?.executionId ?? '')).params?.['n']);
    expect(await room.execute(target, { params: { n } })).toMatchObject({ duplicate: true, executionId: known?.executionId });
  });

  it('are refused for a device with 200 of them that wait for its answer or its effect: every uplink is held against each', async () => {
    const target = await room.target({ connectionId: await room.connection({ policy: { queueLimit: 1000 } }), command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } } });
    const open = await Promise.all(Array.from({ length: 200 }, async (_, n) => (await room.execute(target, { params: { n } })).executionId));
    const change = async (id: string | undefined, state: object): Promise<void> => void (await db.database.db.knex('executions').whereIn('id', id === undefined ? open : [id]).update(state));
    await change(undefined, { state: 'accepted', next_deadline: null });
    expect(await room.execute(target, { params: { n: 200 } })).toMatchObject({ accepted: false, rejectionReason: RejectionReason.REJECTION_REASON_DEVICE_QUEUE_FULL });
    await change(open[0], { state: 'accepted_no_l4', final: 1, dedupe_key: null });
    expect(await room.execute(target, { params: { n: 200 } })).toMatchObject({ accepted: true });
  });

  it('are listed most recently updated first, page by page, in the shape of lists', async () => {
    const target = await room.target({ command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } } });
    const ids: string[] = [];
    for (const n of [1, 2, 3, 4, 5]) {
      if (n % 2) room.clock.advance(1); // some share their time
      ids.push((await room.execute(target, { params: { n } })).executionId);
    }
    const list = async (before: string): Promise<ListExecutionsResponse> => await call(room.client.listExecutions.bind(room.client), { id: target.deviceId, organizationId: '', limit: 2, before }, AS_ONE);
    const seen: string[] = [];
    let page = await list('');
    for (; page.nextCursor; page = await list(page.nextCursor)) seen.push(...page.items.map((item) => item.id));
    seen.push(...page.items.map((item) => item.id));
    expect(seen).toEqual(ids.toReversed());
    expect(page.items[0]).toMatchObject({ commandId: target.commandId, commandNameSnapshot: expect.stringContaining('Command'), organizationId: '', deviceId: '', params: undefined, events: [] });
    const first = await list('');
    const other = await room.target();
    const foreign = await callFails(room.client.listExecutions.bind(room.client), { id: other.deviceId, organizationId: '', before: first.nextCursor ?? '' }, AS_ONE);
    expect(foreign).toMatchObject({ reason: 'validation_failed', fields: ['before'] });
  });

  it('outlive their command', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } } });
    const gateway = await TestGateway.attach(room, { connectionId });
    const first = await room.execute(target, { params: { n: 1 } });
    const second = await room.execute(target, { params: { n: 2 } });
    await gateway.command(1);
    expect((await room.get(second.executionId)).commandId).toBe(target.commandId);
    await call(room.client.deleteCommand.bind(room.client), { id: target.deviceId, commandId: target.commandId, organizationId: '' }, AS_ONE);
    expect(await room.get(first.executionId)).toMatchObject({ commandId: undefined, commandNameSnapshot: expect.stringContaining('Command'), state: ExecutionState.EXECUTION_STATE_IN_TRANSIT });
    const listed: ListExecutionsResponse = await call(room.client.listExecutions.bind(room.client), { id: target.deviceId, organizationId: '', before: '' }, AS_ONE);
    expect(listed.items.map((item) => item.commandId)).toEqual([undefined, undefined]);
    await gateway.cut();
  });

  it('outlive their device, and know that its commands are gone', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: { paramsSchema: { n: { type: 2, enum: [], default: undefined } } } });
    const gateway = await TestGateway.attach(room, { connectionId });
    const first = await room.execute(target, { params: { n: 1 } });
    const second = await room.execute(target, { params: { n: 2 } });
    await gateway.command(1);
    await room.devices.delete('org-1', target.deviceId, undefined);
    expect(await room.get(first.executionId)).toMatchObject({ commandId: undefined, commandNameSnapshot: expect.stringContaining('Command'), state: ExecutionState.EXECUTION_STATE_UNCONFIRMED, detail: 'target_removed' });
    expect(await room.get(second.executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE, detail: 'target_removed' });
    await gateway.untilWithdrawn(first.executionId);
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  it('end when their device is bound to another physical device', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const { executionId } = await room.execute(target);
    await room.devices.update('org-1', target.deviceId, { name: undefined, dataSendingInterval: undefined, physicalDevice: { clientDeviceId: 'another', connectionId: undefined, configuration: undefined } }, undefined);
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE, detail: 'target_removed' });
    const gateway = await TestGateway.attach(room, { connectionId });
    await room.execute(target);
    expect(await gateway.command(1)).toMatchObject({ clientDeviceId: 'another' });
    await gateway.cut();
  });
});
