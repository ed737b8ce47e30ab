import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { GatewayError, type GatewayOptions, memoryStore, startGateway } from '../../../src/client/gateway/index';
import { Attachment } from '../../../src/client/gateway/link/attachment';
import { pauseAfter, usualBackoff } from '../../../src/client/gateway/link/endings';
import { PlantroomError } from '../../../src/client/index';
import { CommandResultCode as Code } from '../../../src/gen/gateway/v1/gateway_service';
import { GatewayRoom, HeldDeliveries, ShakyStore } from './gatewayRoom';

const error = (facts: Partial<PlantroomError> & { status: string }): PlantroomError => new PlantroomError('no', facts);

describe('a gateway that attaches', () => {
  let room: GatewayRoom;

  beforeEach(async () => {
    room = new GatewayRoom();
    await room.open();
  });
  afterEach(async () => await room.close());

  it.each([
    ['the key', status.UNAUTHENTICATED],
    ['its scopes', status.PERMISSION_DENIED],
    ['the connection', status.NOT_FOUND],
    ['a rule', status.INVALID_ARGUMENT],
    ['a server that knows no gateways', status.UNIMPLEMENTED],
  ])('stops where it is to, when the server refuses it for good: %s', async (_, code) => {
    const gateway = room.start({ whenRefused: 'stop' });
    (await room.server.stream(0)).fail(code, 'no');
    await expect(gateway.ended).rejects.toMatchObject({ name: 'PlantroomError', status: status[code] });
    expect(await room.event('refused')).toMatchObject({ retryInMs: undefined });
  });

  it('asks again every minute otherwise', async () => {
    room.start();
    (await room.server.stream(0)).fail(status.UNAUTHENTICATED, 'no');
    expect(await room.event('refused')).toMatchObject({ retryInMs: 60_000, error: { status: 'UNAUTHENTICATED' } });
  });

  it('comes back with growing pauses, which begin anew after a welcome, and names itself the same on each stream', async () => {
    const failures: number[] = [];
    room.start({ backoffMs: (failed) => (failures.push(failed), 1) });
    for (const n of [0, 1, 2]) (await room.server.stream(n)).fail(status.UNAVAILABLE, 'gone');
    const stream = await room.server.stream(3);
    stream.welcome();
    await room.event('attached');
    stream.fail(status.UNAVAILABLE, 'gone');
    const hello = await (await room.server.stream(4)).next('hello');
    expect(failures).toEqual([0, 1, 2, 0]);
    expect(await stream.next('hello')).toEqual(hello);
    expect(room.events.filter(({ event }) => event === 'detached').length).toBe(4);
  });

  it.each([
    ['throws', () => { throw new Error('mine'); }],
    ['gives no number', () => Number.NaN],
    ['gives what has passed', () => -1],
  ])('makes the usual pause where its backoffMs %s', async (_, backoffMs) => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    room.start({ backoffMs });
    (await room.server.stream(0)).fail(status.UNAVAILABLE, 'gone');
    expect((await room.event('detached')).retryInMs).toBeGreaterThanOrEqual(1000);
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('backoffMs'));
    warn.mockRestore();
  });

  it('stops with as much patience as it is told', async () => {
    const held = new HeldDeliveries();
    const gateway = room.start({ deliver: held.deliver });
    const stream = await room.server.stream(0);
    stream.welcome();
    stream.command('e1');
    const { answer } = await held.call(0);
    await expect(gateway.stop(Number.NaN)).rejects.toMatchObject({ reason: 'options_invalid' });
    const stopped = gateway.stop(Infinity);
    await new Promise((resolve) => setTimeout(resolve, 20));
    answer({ result: 'accepted' });
    expect(await stream.result('e1')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    stream.ackResult('e1');
    await stopped;
  });

  it('waits where the server says so, and half a minute after it was replaced', () => {
    expect(pauseAfter(error({ status: 'ABORTED', reason: 'gateway_replaced' }), 1)).toBe(30_000);
    expect(pauseAfter(error({ status: 'ABORTED', reason: 'gateway_replaced', retryAfterMs: 12_000 }), 1)).toBe(12_000);
    expect(pauseAfter(error({ status: 'UNAVAILABLE', retryAfterMs: 2000 }), 1)).toBe(2000);
    expect(pauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'not_a_gateway' }), 1)).toBe(60_000);
    expect(pauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'protocol_version_unsupported' }), 1)).toBe(60_000);
    expect(pauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'connection_disabled' }), 700)).toBe(700);
    expect(pauseAfter(undefined, 700)).toBe(700);
    for (let failures = 0; failures < 40; failures++) {
      expect(usualBackoff(failures)).toBeGreaterThanOrEqual(1000);
      expect(usualBackoff(failures)).toBeLessThanOrEqual(30_000);
    }
  });

  it('goes on when nobody can tell the key, and never says what the function that should have threw', async () => {
    let asked = 0;
    const apiKey = (): string => {
      asked += 1;
      if (asked === 1) throw new Error('plr_secret');
      return 'plr_key';
    };
    room.start({ apiKey });
    (await room.server.stream(0)).welcome();
    await room.event('attached');
    const { error: lost } = await room.event('detached');
    expect([lost?.status, lost?.message.includes('plr_')]).toEqual(['UNAVAILABLE', false]);
  });

  it('does not end for a listener that throws, nor for a message that it does not know', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const gateway = room.start({
      onEvent: () => {
        throw new Error('the log is full');
      },
    });
    const stream = await room.server.stream(0);
    stream.welcome();
    stream.send({ $case: 'commandResultAck', value: { executionId: 'never-came', outcome: 1 } });
    stream.send({ $case: 'withdraw', value: { executionId: 'never-came' } });
    stream.ackUplink('never-sent');
    stream.command('e1');
    await stream.next('commandResult');
    await gateway.stop(0);
    expect(warn).toHaveBeenCalledWith('onEvent of a gateway threw: the log is full');
    warn.mockRestore();
  });

  it('stops in peace: lets a delivery end, tells its result, and closes its store', async () => {
    const held = new HeldDeliveries();
    const store = memoryStore();
    const gateway = room.start({ deliver: held.deliver, store });
    const stream = await room.server.stream(0);
    stream.welcome();
    stream.command('first');
    stream.command('second');
    await held.call(0);
    const stopped = gateway.stop();
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({ reason: 'stopped' });
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'second', result: Code.COMMAND_RESULT_CODE_UNREACHABLE, code: 'gateway_stopped' });
    const { answer } = await held.call(0);
    const told = stream.messages.length;
    answer({ result: 'accepted' });
    expect(await stream.next('commandResult', told)).toMatchObject({ executionId: 'first', result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    stream.ackResult('first');
    stream.ackResult('second');
    await stopped;
    await gateway.ended;
    expect(held.calls.length).toBe(1);
    expect(store.open({ connectionId: 'connection-1', gatewayId: undefined })).toEqual({ gatewayId: gateway.gatewayId });
    expect([store.openCommands(), store.findCommand('first')?.stage]).toEqual([[], 'acknowledged']);
  });

  it('tells a delivery that does not end that it stops, and tells NO_ANSWER; a durable store keeps what waits for the next start', async () => {
    const held = new HeldDeliveries();
    const store = new ShakyStore();
    const gateway = room.start({ deliver: held.deliver, store });
    const stream = await room.server.stream(0);
    stream.welcome();
    stream.command('first');
    stream.command('second');
    const { delivery } = await held.call(0);
    await stream.next('commandReceived', 2);
    await gateway.stop(1);
    expect(delivery.signal.aborted).toBe(true);
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'first', result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'gateway_stopped' });
    expect(store.findCommand('second')?.stage).toBe('received');
  });

  it('leaves a server that does not welcome it, and stops before that without waiting', async () => {
    const client = new Client(room.server.address, credentials.createInsecure());
    const hello = { connectionId: 'connection-1', gatewayId: 'gateway-1', bootId: 'boot-1', software: '', store: 1, known: [], lowestProtocolVersion: 1, highestProtocolVersion: 1 };
    const attachment = new Attachment({ client, metadata: new Metadata(), hello, address: room.server.address, welcomeWithinMs: 20, onMessage: () => {}, onRoom: () => {} });
    expect(await attachment.ended).toMatchObject({ name: 'PlantroomError', status: 'DEADLINE_EXCEEDED', reason: 'welcome_missing' });
    client.close();
    const gateway = room.start();
    await (await room.server.stream(1)).next('hello');
    await gateway.stop();
    await gateway.ended;
    expect(room.names()).toEqual([]);
  });

  it('stops while no server is there', async () => {
    const gateway = room.start({ address: '127.0.0.1:1', backoffMs: () => 60_000 });
    expect(await room.event('detached')).toMatchObject({ error: { status: 'UNAVAILABLE' }, retryInMs: 60_000 });
    await gateway.stop();
    await gateway.ended;
  });

  it('ends with the error of a store that is beyond use', async () => {
    const store = new ShakyStore();
    store.reason = 'store_damaged';
    store.refuses = () => true;
    const gateway = room.start({ store });
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({ reason: 'store_damaged' });
    await expect(gateway.ended).rejects.toMatchObject({ reason: 'store_damaged' });
  });

  it('names every option that is wrong', () => {
    const wrong = { address: 'nowhere', apiKey: '', organizationId: 'o', connectionId: '', gatewayId: 'a b', software: 's'.repeat(129), uplinks: [], onEvent: 1, deliveriesAtOnce: 0, deliveryTimeoutMs: 2 ** 31, mostUplinks: 1.5, whenRefused: 'never', backoffMs: 5 } as unknown as GatewayOptions;
    let found: unknown;
    try {
      startGateway(wrong);
    } catch (thrown) {
      found = thrown;
    }
    expect(found).toBeInstanceOf(GatewayError);
    const { reason, message } = found as GatewayError;
    expect(reason).toBe('options_invalid');
    for (const field of ['address', 'apiKey', 'connectionId', 'gatewayId', 'software', 'store', 'deliver ', 'uplinks', 'onEvent', 'deliveriesAtOnce', 'deliveryTimeoutMs', 'mostUplinks', 'whenRefused', 'backoffMs']) expect(message).toContain(field);
  });

  it('does not share a store with another gateway, and keeps its name in it', async () => {
    const store = memoryStore();
    const first = room.start({ store });
    expect(() => room.start({ store })).toThrow(expect.objectContaining({ reason: 'store_in_use' }) as Error);
    await first.stop(0);
    const second = room.start({ store });
    expect(second.gatewayId).toBe(first.gatewayId);
  });
});
