import { CommandResultCode, GatewayStore, CommandSnapshotStatus } from '../../../src/gen/gateway/v1/gateway_service';
import { status } from '@grpc/grpc-js';
import { memoryStore } from '../../../src/client/gateway/index';
import { waitUntil } from '../../support/waitUntil';
import { GatewayFixture, HeldDeliveries, ShakyStore } from './gatewayFixture';

describe('gateway commands', () => {
  let fixture: GatewayFixture;

  beforeEach(async () => {
    fixture = new GatewayFixture();
    await fixture.open();
  });
  afterEach(async () => await fixture.close());

  it('are confirmed, delivered, answered, and forgotten after the acknowledgement', async () => {
    const held = new HeldDeliveries();
    const gateway = fixture.start({ deliver: held.deliver, software: 'boiler 1.2' });
    const stream = await fixture.server.stream(0);
    expect(await stream.next('hello')).toMatchObject({
      connectionId: 'connection-1',
      gatewayId: gateway.gatewayId,
      software: 'boiler 1.2',
      store: GatewayStore.GATEWAY_STORE_VOLATILE,
      known: [],
      lowestProtocolVersion: 1,
      highestProtocolVersion: 1,
    });
    stream.welcome();
    stream.command('e1', { fPort: 7, confirmed: true, topic: 'valve' });
    expect(await stream.next('commandReceived')).toMatchObject({
      executionId: 'e1',
      time: { seconds: expect.any(Number) },
    });
    const { command, answer } = await held.call(0);
    expect(command).toEqual({
      executionId: 'e1',
      attempt: 1,
      clientDeviceId: 'valve-1',
      payload: { kind: 'json', value: { position: 40 } },
      fPort: 7,
      confirmed: true,
      topic: 'valve',
    });
    answer({ result: 'accepted', code: 'ok', message: 'position is 40', time: new Date(5000) });
    expect(await stream.next('commandResult')).toEqual({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
      code: 'ok',
      message: 'position is 40',
      time: { seconds: 5, nanos: 0 },
    });
    stream.ackResult('e1');
    await fixture.event('command_acknowledged');
    stream.fail(status.UNAVAILABLE, 'gone');
    expect(await (await fixture.server.stream(1)).next('hello')).toMatchObject({ known: [] });
    expect(fixture.names()).toEqual([
      'attached',
      'command_taken',
      'command_answered',
      'command_acknowledged',
      'detached',
    ]);
  });

  it('are delivered once per execution, and known results are sent again', async () => {
    const held = new HeldDeliveries();
    const store = memoryStore();
    fixture.start({ store, deliver: held.deliver });
    const stream = await fixture.server.stream(0);
    stream.welcome();
    stream.command('e1');
    const { answer } = await held.call(0);
    await stream.next('commandReceived');
    let messagesSoFar = stream.messages.length;
    stream.command('e1', { attempt: 2 });
    expect(await stream.next('commandReceived', messagesSoFar)).toMatchObject({ executionId: 'e1' });
    answer({ result: 'rejected', code: 'busy' });
    await stream.next('commandResult');
    messagesSoFar = stream.messages.length;
    stream.command('e1', { attempt: 3 });
    expect(await stream.next('commandResult', messagesSoFar)).toMatchObject({ executionId: 'e1', code: 'busy' });
    stream.ackResult('e1');
    await waitUntil(() => store.findCommand('e1')?.stage === 'acknowledged');
    messagesSoFar = stream.messages.length;
    stream.command('e1', { attempt: 4 });
    expect(await stream.next('commandResult', messagesSoFar)).toMatchObject({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
    });
    expect([stream.messages.length, held.calls.length]).toEqual([messagesSoFar + 1, 1]);
  });

  it('are stored before each step is reported: as started if they can start now, otherwise as received', async () => {
    const store = new ShakyStore();
    const order: string[] = [];
    const apply = store.apply.bind(store);
    store.apply = (changes) => {
      apply(changes);
      for (const change of changes)
        if (change.kind === 'command') order.push(`${change.command.executionId} ${change.command.stage}`);
    };
    const held = new HeldDeliveries();
    fixture.start({
      store,
      deliver: async (command, delivery) => (
        order.push(`${command.executionId} deliver`),
        await held.deliver(command, delivery)
      ),
    });
    const stream = await fixture.server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    expect(order[0]).toBe('e1 started');
    stream.command('e2');
    await stream.next('commandReceived', 2);
    expect(order).toEqual(['e1 started', 'e1 deliver', 'e2 received']);
    (await held.call(0)).answer({ result: 'accepted' });
    await stream.next('commandResult');
    (await held.call(1)).answer({ result: 'accepted' });
    await stream.next('commandResult', 4);
    expect(new Set(order.slice(3))).toEqual(new Set(['e1 ended', 'e2 started', 'e2 deliver', 'e2 ended']));
    expect(order.indexOf('e2 deliver')).toBeGreaterThan(order.indexOf('e2 started'));
  });

  it('are listed in Hello, and results are sent again after the welcome, because only those are acknowledged', async () => {
    const held = new HeldDeliveries();
    fixture.start({ deliver: held.deliver });
    const first = await fixture.server.stream(0);
    first.welcome();
    first.command('e1');
    first.command('e2', { clientDeviceId: 'valve-2' });
    (await held.call(0)).answer({ result: 'failed', code: 'stuck', message: 'the valve is stuck' });
    await first.next('commandResult');
    await held.call(1);
    first.fail(status.UNAVAILABLE, 'gone');
    const second = await fixture.server.stream(1);
    const { known } = await second.next('hello');
    expect(known).toMatchObject([
      {
        executionId: 'e1',
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_FAILED,
        code: 'stuck',
        message: 'the valve is stuck',
      },
      { executionId: 'e2', status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED },
    ]);
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({ executionId: 'e1' });
    (await held.call(1)).answer({ result: 'accepted' });
    expect(await second.next('commandResult', 2)).toMatchObject({ executionId: 'e2' });
  });
});
