import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, GatewayStore, KnownStatus, ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { EvidenceService } from '../../src/executions/evidence/evidenceService';
import { Ledger } from '../../src/executions/ledger/ledger';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionRoom, Target } from './executionRoom';
import { roomForAll } from './executionSuite';
import { type GatewayOptions, TestGateway } from './testGateway';

const { GATEWAY_STORE_DURABLE: DURABLE, GATEWAY_STORE_VOLATILE: VOLATILE } = GatewayStore;
const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;

describe.each(engines())('attaching on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => ({ db, room } = made));

  /** An execution that was sent to `gw-1`, start `boot-1`, whose link then broke. */
  async function cutInTransit(): Promise<{ connectionId: string; target: Target; executionId: string }> {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const gateway = await TestGateway.attach(room, { connectionId });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    await gateway.cut();
    return { connectionId, target, executionId };
  }

  const AGAIN: readonly [string, Omit<GatewayOptions, 'connectionId'>][] = [
    ['the same start with a durable store', { store: DURABLE }],
    ['the same start with a volatile store', { store: VOLATILE }],
    ['another start with a durable store', { bootId: 'boot-2', store: DURABLE }],
  ];
  it.each(AGAIN)('sends again what %s does not know', async (_name, options) => {
    const { connectionId, executionId } = await cutInTransit();
    const gateway = await TestGateway.attach(room, { connectionId, ...options });
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_ENQUEUED, attempts: 1 });
    expect(gateway.commands).toEqual([]);
    room.clock.advance(1000); // the first backoff
    expect(await gateway.command(1)).toMatchObject({ executionId, attempt: 2 });
    expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED);
    expect((await room.get(executionId)).attempts).toBe(2);
    await gateway.cut();
  });

  const LATER: readonly [string, (gateway: TestGateway, executionId: string) => Promise<unknown>, string][] = [
    ['has done', async (gateway, executionId) => expect(await gateway.result(executionId, ACCEPTED)).toBe(ResultOutcome.RESULT_OUTCOME_APPLIED), 'accepted_no_l4'],
    ['has received', async (gateway, executionId) => gateway.received(executionId), 'delivered'],
  ];
  it.each(LATER)('does not send again what the gateway, after it denied it, %s after all', async (_name, tell, state) => {
    const { connectionId, target, executionId } = await cutInTransit();
    const gateway = await TestGateway.attach(room, { connectionId });
    expect((await room.get(executionId)).state).toBe(ExecutionState.EXECUTION_STATE_ENQUEUED);
    await tell(gateway, executionId);
    expect(await room.until(executionId, state)).toMatchObject({ attempts: 1 });
    if (state === 'delivered') await gateway.result(executionId, ACCEPTED);
    room.clock.advance(1000); // the backoff would be over
    const next = await room.execute({ ...target, commandId: await room.addCommand(target.deviceId) });
    expect((await gateway.command(1)).executionId).toBe(next.executionId);
    await gateway.cut();
  });

  const NEVER: readonly [string, Omit<GatewayOptions, 'connectionId'>][] = [
    ['another start with a volatile store', { bootId: 'boot-2', store: VOLATILE }],
    ['another gateway', { gatewayId: 'gw-2', store: DURABLE }],
    ['another gateway of the same start', { gatewayId: 'gw-2', store: VOLATILE }],
  ];
  it.each(NEVER)('never sends again what %s does not know', async (_name, options) => {
    const { connectionId, executionId } = await cutInTransit();
    const gateway = await TestGateway.attach(room, { connectionId, ...options });
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_IN_TRANSIT, detail: 'delivery_unknown' });
    const other = await room.execute(await room.target({ connectionId }));
    expect((await gateway.command(1)).executionId).toBe(other.executionId);
    room.clock.advance(60_000);
    await room.executions.sweep();
    expect(await room.get(executionId)).toMatchObject({ state: ExecutionState.EXECUTION_STATE_UNCONFIRMED, detail: 'delivery_unknown' });
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  const KNOWN: readonly [string, KnownStatus, ExecutionState][] = [
    ['received', KnownStatus.KNOWN_STATUS_RECEIVED, ExecutionState.EXECUTION_STATE_DELIVERED],
    ['acknowledged', KnownStatus.KNOWN_STATUS_ACCEPTED, ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4],
    ['answered negatively', KnownStatus.KNOWN_STATUS_REJECTED, ExecutionState.EXECUTION_STATE_PROTOCOL_REJECTED],
    ['failed', KnownStatus.KNOWN_STATUS_FAILED, ExecutionState.EXECUTION_STATE_PROTOCOL_REJECTED],
    ['not answered', KnownStatus.KNOWN_STATUS_NO_ANSWER, ExecutionState.EXECUTION_STATE_UNCONFIRMED],
    ['unreachable', KnownStatus.KNOWN_STATUS_UNREACHABLE, ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE],
    ['expired', KnownStatus.KNOWN_STATUS_EXPIRED, ExecutionState.EXECUTION_STATE_TRANSPORT_UNREACHABLE],
    ['refused', KnownStatus.KNOWN_STATUS_REFUSED, ExecutionState.EXECUTION_STATE_TRANSPORT_REJECTED],
  ];
  it.each(KNOWN)('applies what the gateway holds as %s, by whatever start of it', async (_name, status, state) => {
    const { connectionId, executionId } = await cutInTransit();
    const gateway = await TestGateway.attach(room, { connectionId, bootId: 'boot-2', store: VOLATILE, known: [{ executionId, status }] });
    expect((await room.get(executionId)).state).toBe(state);
    expect(gateway.commands).toEqual([]);
    await gateway.cut();
  });

  it('takes back what the gateway holds and what has ended here', async () => {
    const { connectionId, executionId } = await cutInTransit();
    room.clock.advance(60_000);
    await room.executions.sweep();
    const held = { executionId, status: KnownStatus.KNOWN_STATUS_RECEIVED };
    const gateway = await TestGateway.attach(room, { connectionId, known: [held, { ...held, executionId: 'nothing' }] });
    await gateway.untilWithdrawn(executionId);
    expect(gateway.withdrawn).toEqual([executionId]);
    expect((await room.get(executionId)).events.at(-1)).toMatchObject({ event: 'late_evidence', data: { evidence: 'transport_ok' } });
    expect(room.log.of('executions.known_unknown')).toContainEqual(expect.objectContaining({ connection_id: connectionId, count: 1, execution_ids: ['nothing'] }));
    await gateway.cut();
  });

  it('stores what the gateway holds with one turn of the log counter, told twice or not', async () => {
    const connectionId = await room.connection();
    const targets = await Promise.all([1, 2, 3].map(async () => await room.target({ connectionId })));
    const first = await TestGateway.attach(room, { connectionId });
    const ids: string[] = [];
    for (const target of targets) ids.push((await room.execute(target)).executionId);
    await first.command(3);
    await first.cut();
    const stored: number[] = [];
    const ledger = new Ledger({ clock: room.clock, onCommitted: (changes) => stored.push(changes.length) });
    const service = new EvidenceService({ database: db.database, ledger, log: room.log, onHeldInVain: () => {} });
    const [again = ''] = ids;
    const received = ids.map((executionId) => ({ executionId, evidence: { kind: 'transport_ok' } as const }));
    await service.attached({ organizationId: 'org-1', connectionId, peerId: 'gw-1', bootId: 'boot-1', source: 'gateway:gw-1', durable: true, known: [...received, { executionId: again, evidence: { kind: 'ack' } }] });
    expect(stored).toEqual([3, 1]);
    expect((await room.get(again)).state).toBe(ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4);
  });

  it('sends nothing new before what is known was settled', async () => {
    const { connectionId, target, executionId } = await cutInTransit();
    const commandId = await room.addCommand(target.deviceId);
    const next = await room.execute({ ...target, commandId });
    const gateway = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: KnownStatus.KNOWN_STATUS_RECEIVED }] });
    await gateway.result(executionId, ACCEPTED);
    expect((await gateway.command(1)).executionId).toBe(next.executionId);
    expect(gateway.commands).toHaveLength(1);
    await gateway.cut();
  });

  it('keeps no more than so much late evidence', async () => {
    const { connectionId, executionId } = await cutInTransit();
    for (let count = 0; count < 220; count++) await room.executions.evidence('org-1', connectionId, executionId, 'test', { kind: 'ack' });
    expect((await room.get(executionId)).events).toHaveLength(200);
    expect(await room.executions.evidence('org-1', connectionId, executionId, 'test', { kind: 'ack' })).toBe('late');
  });
});
