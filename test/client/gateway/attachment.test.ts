import { promisify } from 'node:util';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { GatewayError, type GatewayOptions, memoryStore, startGateway } from '../../../src/client/gateway/index';
import { Attachment } from '../../../src/client/gateway/link/attachment';
import { getPauseAfter, defaultBackoff } from '../../../src/client/gateway/link/reconnectPolicy';
import { PlantroomError } from '../../../src/client/index';
import { CommandResultCode as Code } from '../../../src/gen/gateway/v1/gateway_service';
import { GatewayFixture, HeldDeliveries, ShakyStore } from './gatewayFixture';

const error = (fields: Partial<PlantroomError> & { status: string }): PlantroomError =>
  new PlantroomError('no', fields);

describe('gateway attachment', () => {
  let fixture: GatewayFixture;

  beforeEach(async () => {
    fixture = new GatewayFixture();
    await fixture.open();
  });
  afterEach(async () => await fixture.close());

  it.each([
    ['the key', status.UNAUTHENTICATED],
    ['its scopes', status.PERMISSION_DENIED],
    ['the connection', status.NOT_FOUND],
    ['a rule', status.INVALID_ARGUMENT],
    ['a server without gateway support', status.UNIMPLEMENTED],
  ])('stops if configured so and the server rejects the gateway permanently: %s', async (_, code) => {
    const gateway = fixture.start({ onRejected: 'stop' });
    (await fixture.server.stream(0)).fail(code, 'no');
    await expect(gateway.ended).rejects.toMatchObject({ name: 'PlantroomError', status: status[code] });
    expect(await fixture.event('refused')).toMatchObject({ retryInMs: undefined });
  });

  it('is retried every minute otherwise', async () => {
    fixture.start();
    (await fixture.server.stream(0)).fail(status.UNAUTHENTICATED, 'no');
    expect(await fixture.event('refused')).toMatchObject({ retryInMs: 60_000, error: { status: 'UNAUTHENTICATED' } });
  });

  it('is retried with growing pauses, which reset after a welcome, and sends the same name on each stream', async () => {
    const failures: number[] = [];
    fixture.start({ backoffMs: (failed) => (failures.push(failed), 1) });
    for (const n of [0, 1, 2]) (await fixture.server.stream(n)).fail(status.UNAVAILABLE, 'gone');
    const stream = await fixture.server.stream(3);
    stream.welcome();
    await fixture.event('attached');
    stream.fail(status.UNAVAILABLE, 'gone');
    const hello = await (await fixture.server.stream(4)).next('hello');
    expect(failures).toEqual([0, 1, 2, 0]);
    expect(await stream.next('hello')).toEqual(hello);
    expect(fixture.events.filter(({ event }) => event === 'detached').length).toBe(4);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('mine');
      },
    ],
    ['returns no number', () => Number.NaN],
    ['returns a negative number', () => -1],
  ])('uses the default pause if its backoffMs %s', async (_, backoffMs) => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    fixture.start({ backoffMs });
    (await fixture.server.stream(0)).fail(status.UNAVAILABLE, 'gone');
    expect((await fixture.event('detached')).retryInMs).toBeGreaterThanOrEqual(1000);
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('backoffMs'));
    warn.mockRestore();
  });

  it('stops within the given timeout', async () => {
    const held = new HeldDeliveries();
    const gateway = fixture.start({ deliver: held.deliver });
    const stream = await fixture.server.stream(0);
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

  it('waits as long as the server says, and half a minute after it was replaced', () => {
    expect(getPauseAfter(error({ status: 'ABORTED', reason: 'gateway_replaced' }), 1)).toBe(30_000);
    expect(getPauseAfter(error({ status: 'ABORTED', reason: 'gateway_replaced', retryAfterMs: 12_000 }), 1)).toBe(
      12_000,
    );
    expect(getPauseAfter(error({ status: 'UNAVAILABLE', retryAfterMs: 2000 }), 1)).toBe(2000);
    expect(getPauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'not_a_gateway' }), 1)).toBe(60_000);
    expect(getPauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'protocol_version_unsupported' }), 1)).toBe(
      60_000,
    );
    expect(getPauseAfter(error({ status: 'FAILED_PRECONDITION', reason: 'connection_disabled' }), 700)).toBe(700);
    expect(getPauseAfter(undefined, 700)).toBe(700);
    for (let failures = 0; failures < 40; failures++) {
      expect(defaultBackoff(failures)).toBeGreaterThanOrEqual(1000);
      expect(defaultBackoff(failures)).toBeLessThanOrEqual(30_000);
    }
  });

  it('continues if the API key is unavailable, and never reports the error of the key function', async () => {
    let keyRequests = 0;
    const apiKey = (): string => {
      keyRequests += 1;
      if (keyRequests === 1) throw new Error('plr_secret');
      return 'plr_key';
    };
    fixture.start({ apiKey });
    (await fixture.server.stream(0)).welcome();
    await fixture.event('attached');
    const { error: disconnectError } = await fixture.event('detached');
    expect([disconnectError?.status, disconnectError?.message.includes('plr_')]).toEqual(['UNAVAILABLE', false]);
  });

  it('continues after a listener that throws, and after an unknown message', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const gateway = fixture.start({
      onEvent: () => {
        throw new Error('the log is full');
      },
    });
    const stream = await fixture.server.stream(0);
    stream.welcome();
    stream.send({ $case: 'commandResultAck', value: { executionId: 'never-came', outcome: 1, reason: '' } });
    stream.send({ $case: 'cancelCommand', value: { executionId: 'never-came' } });
    stream.ackUplink('never-sent');
    stream.command('e1');
    await stream.next('commandResult');
    await gateway.stop(0);
    expect(warn).toHaveBeenCalledWith('onEvent of a gateway threw: the log is full');
    warn.mockRestore();
  });

  it('stops cleanly: waits for a delivery, sends its result, and closes its store', async () => {
    const held = new HeldDeliveries();
    const store = memoryStore();
    const gateway = fixture.start({ deliver: held.deliver, store });
    const stream = await fixture.server.stream(0);
    stream.welcome();
    stream.command('first');
    stream.command('second');
    await held.call(0);
    const stopped = gateway.stop();
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({
      reason: 'stopped',
    });
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'second',
      result: Code.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'gateway_stopped',
    });
    const { answer } = await held.call(0);
    const countBeforeDelivery = stream.messages.length;
    answer({ result: 'accepted' });
    expect(await stream.next('commandResult', countBeforeDelivery)).toMatchObject({
      executionId: 'first',
      result: Code.COMMAND_RESULT_CODE_ACCEPTED,
    });
    stream.ackResult('first');
    stream.ackResult('second');
    await stopped;
    await gateway.ended;
    expect(held.calls.length).toBe(1);
    expect(store.open({ connectionId: 'connection-1', gatewayId: undefined })).toEqual({
      gatewayId: gateway.gatewayId,
    });
    expect([store.openCommands(), store.findCommand('first')?.stage]).toEqual([[], 'acknowledged']);
  });

  it('aborts a delivery that does not finish and sends NO_ANSWER; a durable store keeps waiting commands for the next start', async () => {
    const held = new HeldDeliveries();
    const store = new ShakyStore();
    const gateway = fixture.start({ deliver: held.deliver, store });
    const stream = await fixture.server.stream(0);
    stream.welcome();
    stream.command('first');
    stream.command('second');
    const { delivery } = await held.call(0);
    await stream.next('commandReceived', 2);
    await gateway.stop(1);
    expect(delivery.signal.aborted).toBe(true);
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'first',
      result: Code.COMMAND_RESULT_CODE_NO_ANSWER,
      code: 'gateway_stopped',
    });
    expect(store.findCommand('second')?.stage).toBe('received');
  });

  it('leaves a server that does not welcome it, and stops before that without waiting', async () => {
    const client = new Client(fixture.server.address, credentials.createInsecure());
    // Connecting may take longer than the limit on a busy machine. Then the server would never receive this stream.
    await promisify(client.waitForReady.bind(client))(Date.now() + 150_000);
    const hello = {
      connectionId: 'connection-1',
      gatewayId: 'gateway-1',
      bootId: 'boot-1',
      software: '',
      store: 1,
      known: [],
      lowestProtocolVersion: 1,
      highestProtocolVersion: 1,
    };
    const attachment = new Attachment({
      client,
      metadata: new Metadata(),
      hello,
      address: fixture.server.address,
      welcomeTimeoutMs: 20,
      onMessage: () => {},
      onWritable: () => {},
    });
    expect(await attachment.ended).toMatchObject({
      name: 'PlantroomError',
      status: 'DEADLINE_EXCEEDED',
      reason: 'welcome_missing',
    });
    client.close();
    const gateway = fixture.start();
    await (await fixture.server.stream(1)).next('hello');
    await gateway.stop();
    await gateway.ended;
    expect(fixture.names()).toEqual([]);
  });

  it('stops while the server is unreachable', async () => {
    const gateway = fixture.start({ address: '127.0.0.1:1', backoffMs: () => 60_000 });
    expect(await fixture.event('detached')).toMatchObject({ error: { status: 'UNAVAILABLE' }, retryInMs: 60_000 });
    await gateway.stop();
    await gateway.ended;
  });

  it('ends with the error of an unusable store', async () => {
    const store = new ShakyStore();
    store.reason = 'store_corrupt';
    store.shouldReject = () => true;
    const gateway = fixture.start({ store });
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({
      reason: 'store_corrupt',
    });
    await expect(gateway.ended).rejects.toMatchObject({ reason: 'store_corrupt' });
  });

  it('names every invalid option', () => {
    const invalidOptions = {
      address: 'nowhere',
      apiKey: '',
      organizationId: 'o',
      connectionId: '',
      gatewayId: 'a b',
      software: 's'.repeat(129),
      uplinks: [],
      onEvent: 1,
      maxConcurrentDeliveries: 0,
      deliveryTimeoutMs: 2 ** 31,
      maxUplinks: 1.5,
      onRejected: 'never',
      backoffMs: 5,
    } as unknown as GatewayOptions;
    let found: unknown;
    try {
      startGateway(invalidOptions);
    } catch (caught) {
      found = caught;
    }
    expect(found).toBeInstanceOf(GatewayError);
    const { reason, message } = found as GatewayError;
    expect(reason).toBe('options_invalid');
    for (const field of [
      'address',
      'apiKey',
      'connectionId',
      'gatewayId',
      'software',
      'store',
      'deliver ',
      'uplinks',
      'onEvent',
      'maxConcurrentDeliveries',
      'deliveryTimeoutMs',
      'maxUplinks',
      'onRejected',
      'backoffMs',
    ])
      expect(message).toContain(field);
  });

  it('shares no store with another gateway, and keeps the gateway name in it', async () => {
    const store = memoryStore();
    const first = fixture.start({ store });
    expect(() => fixture.start({ store })).toThrow(expect.objectContaining({ reason: 'store_in_use' }) as Error);
    await first.stop(0);
    const second = fixture.start({ store });
    expect(second.gatewayId).toBe(first.gatewayId);
  });
});
