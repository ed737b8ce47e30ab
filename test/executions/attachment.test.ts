import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  CommandResultCode,
  GatewayStore,
  CommandSnapshotStatus,
  ResultOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { EvidenceService } from '../../src/executions/evidence/evidenceService';
import { ExecutionStore } from '../../src/executions/changes/executionStore';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionFixture, Target } from './executionFixture';
import { fixtureForAll } from './executionSuite';
import { type GatewayOptions, TestGateway } from './testGateway';

const { GATEWAY_STORE_DURABLE: DURABLE, GATEWAY_STORE_VOLATILE: VOLATILE } = GatewayStore;
const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;

describe.each(engines())('attaching on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ db, fixture } = made));

  /** Creates an execution that was sent to `gw-1`, boot `boot-1`, and then breaks the connection. */
  async function sendAndCut(): Promise<{ connectionId: string; target: Target; executionId: string }> {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    await gateway.cut();
    return { connectionId, target, executionId };
  }

  const AGAIN: readonly [string, Omit<GatewayOptions, 'connectionId'>][] = [
    ['the same start with a durable store', { store: DURABLE }],
    ['the same start with a volatile store', { store: VOLATILE }],
    ['another start with a durable store', { bootId: 'boot-2', store: DURABLE }],
  ];
  it.each(AGAIN)('resends what %s does not know', async (_name, options) => {
    const { connectionId, executionId } = await sendAndCut();
    const gateway = await TestGateway.attach(fixture, { connectionId, ...options });
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_ENQUEUED,
      attempts: 1,
    });
    expect(gateway.commands).toEqual([]);
    fixture.clock.advance(1000); // The first backoff.
    expect(await gateway.command(1)).toMatchObject({ executionId, attempt: 2 });
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED);
    expect((await fixture.get(executionId)).attempts).toBe(2);
    await gateway.cut();
  });

  const LATER: readonly [string, (gateway: TestGateway, executionId: string) => Promise<unknown>, string][] = [
    [
      'has done',
      async (gateway, executionId) =>
        expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED),
      'accepted_no_l4',
    ],
    ['has received', async (gateway, executionId) => gateway.received(executionId), 'delivered'],
  ];
  it.each(LATER)('does not resend what the gateway first denied but %s after all', async (_name, report, state) => {
    const { connectionId, target, executionId } = await sendAndCut();
    const gateway = await TestGateway.attach(fixture, { connectionId });
    expect((await fixture.get(executionId)).state).toBe(ExecutionState.EXECUTION_STATE_ENQUEUED);
    await report(gateway, executionId);
    expect(await fixture.until(executionId, state)).toMatchObject({ attempts: 1 });
    if (state === 'delivered') await gateway.result(executionId, ACCEPTED);
    fixture.clock.advance(1000); // The backoff would be over.
    const next = await fixture.execute({ ...target, commandId: await fixture.addCommand(target.deviceId) });
    expect((await gateway.command(1)).executionId).toBe(next.executionId);
    await gateway.cut();
  });

  const NEVER: readonly [string, Omit<GatewayOptions, 'connectionId'>][] = [
    ['another start with a volatile store', { bootId: 'boot-2', store: VOLATILE }],
    ['another gateway', { gatewayId: 'gw-2', store: DURABLE }],
    ['another gateway of the same start', { gatewayId: 'gw-2', store: VOLATILE }],
  ];
  it.each(NEVER)('never resends what %s does not know', async (_name, options) => {
    const { connectionId, executionId } = await sendAndCut();
    const gateway = await TestGateway.attach(fixture, { connectionId, ...options });
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
      detail: 'delivery_unconfirmed',
    });
    const other = await fixture.execute(await fixture.target({ connectionId }));
    expect((await gateway.command(1)).executionId).toBe(other.executionId);
    fixture.clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(executionId)).toMatchObject({
      state: ExecutionState.EXECUTION_STATE_UNCONFIRMED,
      detail: 'delivery_unconfirmed',
    });
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  const KNOWN: readonly [string, CommandSnapshotStatus, ExecutionState][] = [
    ['received', CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED, ExecutionState.EXECUTION_STATE_DELIVERED],
    [
      'acknowledged',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED,
      ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
    ],
    [
      'rejected by the device',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_REJECTED,
      ExecutionState.EXECUTION_STATE_PROTOCOL_REJECTED,
    ],
    ['failed', CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_FAILED, ExecutionState.EXECUTION_STATE_PROTOCOL_REJECTED],
    [
      'not answered',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_NO_ANSWER,
      ExecutionState.EXECUTION_STATE_UNCONFIRMED,
    ],
    [
      'unreachable',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_UNREACHABLE,
      ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
    ],
    [
      'expired',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_EXPIRED,
      ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE,
    ],
    [
      'refused',
      CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_REFUSED,
      ExecutionState.EXECUTION_STATE_TRANSPORT_REJECTED,
    ],
  ];
  it.each(KNOWN)(
    'applies the snapshot of a command that is %s, whichever boot reports it',
    async (_name, status, state) => {
      const { connectionId, executionId } = await sendAndCut();
      const gateway = await TestGateway.attach(fixture, {
        connectionId,
        bootId: 'boot-2',
        store: VOLATILE,
        known: [{ executionId, status }],
      });
      expect((await fixture.get(executionId)).state).toBe(state);
      expect(gateway.commands).toEqual([]);
      if (status !== CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED) await gateway.untilAcks(1);
      const ack = { executionId, outcome: ResultOutcome.RESULT_OUTCOME_APPLIED, reason: '' };
      expect(gateway.acks).toEqual(status === CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED ? [] : [ack]);
      await gateway.cut();
    },
  );

  it('acknowledges late results and results of unknown executions in the snapshot', async () => {
    const { connectionId, executionId } = await sendAndCut();
    const done = { executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED };
    const known = [done, { ...done, executionId: 'nothing' }, done];
    const gateway = await TestGateway.attach(fixture, { connectionId, known });
    await gateway.untilAcks(3);
    expect(gateway.acks).toMatchObject([
      { executionId, outcome: ResultOutcome.RESULT_OUTCOME_APPLIED },
      { executionId: 'nothing', outcome: ResultOutcome.RESULT_OUTCOME_UNKNOWN },
      { executionId, outcome: ResultOutcome.RESULT_OUTCOME_LATE },
    ]);
    await gateway.cut();
  });

  it('does not resend a command that the gateway lists with an invalid time, and ignores its report', async () => {
    const connectionId = await fixture.connection();
    const first = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    const { executionId: other } = await fixture.execute(await fixture.target({ connectionId }));
    await first.command(2);
    await first.cut();
    const time = { seconds: 1e12, nanos: 0 };
    const known = [
      { executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED, time },
      { executionId: other, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED, time },
    ];
    const gateway = await TestGateway.attach(fixture, { connectionId, known });
    await gateway.untilRejected(1);
    expect(gateway.rejected).toMatchObject([{ executionId, reason: expect.stringContaining('hello.known[0].time') }]);
    await gateway.untilAcks(1);
    const reason = expect.stringContaining('hello.known[1].time') as string;
    expect(gateway.acks).toEqual([{ executionId: other, outcome: ResultOutcome.RESULT_OUTCOME_REJECTED, reason }]);
    for (const id of [executionId, other]) {
      expect((await fixture.get(id)).state).toBe(ExecutionState.EXECUTION_STATE_IN_TRANSIT);
    }
    expect((await fixture.get(executionId)).detail).not.toBe('answer_not_understood');
    expect(await fixture.get(other)).toMatchObject({ detail: 'answer_not_understood', detailMessage: reason });
    expect(gateway.commands).toEqual([]);
    gateway.received(executionId);
    await fixture.until(executionId, 'delivered');
    await gateway.cut();
  });

  it('cancels a command that the gateway holds after its execution has ended', async () => {
    const { connectionId, executionId } = await sendAndCut();
    fixture.clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    const held = { executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED };
    const gateway = await TestGateway.attach(fixture, {
      connectionId,
      known: [held, { ...held, executionId: 'nothing' }],
    });
    await gateway.untilCancelled(executionId);
    expect(gateway.cancelled).toEqual([executionId]);
    expect((await fixture.get(executionId)).events.at(-1)).toMatchObject({
      event: 'late_evidence',
      data: { evidence: 'transport_ok' },
    });
    expect(fixture.log.of('executions.unknown_to_server')).toContainEqual(
      expect.objectContaining({ connection_id: connectionId, count: 1, execution_ids: ['nothing'] }),
    );
    await gateway.cut();
  });

  it('stores the whole snapshot with one update of the log counter, even when it is repeated', async () => {
    const connectionId = await fixture.connection();
    const targets = await Promise.all([1, 2, 3].map(async () => await fixture.target({ connectionId })));
    const first = await TestGateway.attach(fixture, { connectionId });
    const ids: string[] = [];
    for (const target of targets) ids.push((await fixture.execute(target)).executionId);
    await first.command(3);
    await first.cut();
    const stored: number[] = [];
    const executionStore = new ExecutionStore({
      clock: fixture.clock,
      onCommitted: (changes) => stored.push(changes.length),
    });
    const service = new EvidenceService({
      database: db.database,
      executionStore,
      log: fixture.log,
      onFinalCommandHeld: () => {},
    });
    const [again = ''] = ids;
    const received = ids.map((executionId) => ({ executionId, evidence: { kind: 'transport_ok' } as const }));
    await service.attached({
      organizationId: 'org-1',
      connectionId,
      peerId: 'gw-1',
      bootId: 'boot-1',
      source: 'gateway:gw-1',
      durable: true,
      known: [...received, { executionId: again, evidence: { kind: 'ack' } }],
    });
    expect(stored).toEqual([3, 1]);
    expect((await fixture.get(again)).state).toBe(ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4);
  });

  it('sends nothing new before the snapshot is settled', async () => {
    const { connectionId, target, executionId } = await sendAndCut();
    const commandId = await fixture.addCommand(target.deviceId);
    const next = await fixture.execute({ ...target, commandId });
    const gateway = await TestGateway.attach(fixture, {
      connectionId,
      known: [{ executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED }],
    });
    await gateway.result(executionId, ACCEPTED);
    expect((await gateway.command(1)).executionId).toBe(next.executionId);
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  it('limits the late evidence that it stores', async () => {
    const { connectionId, executionId } = await sendAndCut();
    for (let count = 0; count < 220; count++)
      await fixture.executions.evidenceService.applyEvidence('org-1', connectionId, executionId, 'test', {
        kind: 'ack',
      });
    expect((await fixture.get(executionId)).events).toHaveLength(200);
    expect(
      await fixture.executions.evidenceService.applyEvidence('org-1', connectionId, executionId, 'test', {
        kind: 'ack',
      }),
    ).toBe('late');
  });
});
