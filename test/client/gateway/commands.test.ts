import { CommandResultCode, GatewayStore, KnownStatus } from '../../../src/gen/gateway/v1/gateway_service';
import { status } from '@grpc/grpc-js';
import { memoryStore } from '../../../src/client/gateway/index';
import { GatewayRoom, HeldDeliveries, ShakyStore } from './gatewayRoom';

describe('commands of a gateway', () => {
  let room: GatewayRoom;

  beforeEach(async () => {
    room = new GatewayRoom();
    await room.open();
  });
  afterEach(async () => await room.close());

  it('says who it is, confirms a command, delivers it, answers it, and forgets it once that is acknowledged', async () => {
    const held = new HeldDeliveries();
    const gateway = room.start({ deliver: held.deliver, software: 'boiler 1.2' });
    const stream = await room.server.stream(0);
    expect(await stream.next('hello')).toMatchObject({ connectionId: 'connection-1', gatewayId: gateway.gatewayId, software: 'boiler 1.2', store: GatewayStore.GATEWAY_STORE_VOLATILE, known: [], lowestProtocolVersion: 1, highestProtocolVersion: 1 });
    stream.welcome();
    stream.command('e1', { fPort: 7, confirmed: true, topic: 'valve' });
    expect(await stream.next('commandReceived')).toMatchObject({ executionId: 'e1', time: { seconds: expect.any(Number) } });
    const { command, answer } = await held.call(0);
    expect(command).toEqual({ executionId: 'e1', attempt: 1, clientDeviceId: 'valve-1', payload: { kind: 'json', value: { position: 40 } }, fPort: 7, confirmed: true, topic: 'valve' });
    answer({ result: 'accepted', code: 'ok', message: 'position is 40', time: new Date(5000) });
    expect(await stream.next('commandResult')).toEqual({ executionId: 'e1', result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, code: 'ok', message: 'position is 40', time: { seconds: 5, nanos: 0 } });
    stream.ackResult('e1');
    await room.event('command_acknowledged');
    stream.fail(status.UNAVAILABLE, 'gone');
    expect(await (await room.server.stream(1)).next('hello')).toMatchObject({ known: [] });
    expect(room.names()).toEqual(['attached', 'command_taken', 'command_answered', 'command_acknowledged', 'detached']);
  });

  it('delivers an execution once, and tells again what it knows of it', async () => {
    const held = new HeldDeliveries();
    const store = memoryStore();
    room.start({ store, deliver: held.deliver });
    const stream = await room.server.stream(0);
    stream.welcome();
    stream.command('e1');
    const { answer } = await held.call(0);
    await stream.next('commandReceived');
    let told = stream.messages.length;
    stream.command('e1', { attempt: 2 });
    expect(await stream.next('commandReceived', told)).toMatchObject({ executionId: 'e1' });
    answer({ result: 'rejected', code: 'busy' });
    await stream.next('commandResult');
    told = stream.messages.length;
    stream.command('e1', { attempt: 3 });
    expect(await stream.next('commandResult', told)).toMatchObject({ executionId: 'e1', code: 'busy' });
    stream.ackResult('e1');
    while (store.findCommand('e1')?.stage !== 'acknowledged') await new Promise((later) => setTimeout(later, 5));
    told = stream.messages.length;
    stream.command('e1', { attempt: 4 });
    expect(await stream.next('commandResult', told)).toMatchObject({ executionId: 'e1', result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED });
    expect([stream.messages.length, held.calls.length]).toEqual([told + 1, 1]);
  });

  it('keeps each step before anybody is told of it: that it begins at once where its turn comes at once, else that it came', async () => {
    const store = new ShakyStore();
    const order: string[] = [];
    const apply = store.apply.bind(store);
    store.apply = (changes) => {
      apply(changes);
      for (const change of changes) if (change.kind === 'command') order.push(`${change.command.executionId} ${change.command.stage}`);
    };
    const held = new HeldDeliveries();
    room.start({ store, deliver: async (command, delivery) => (order.push(`${command.executionId} deliver`), await held.deliver(command, delivery)) });
    const stream = await room.server.stream(0);
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

  it('lists what it holds in Hello, and tells results again after the welcome, for only that is acknowledged', async () => {
    const held = new HeldDeliveries();
    room.start({ deliver: held.deliver });
    const first = await room.server.stream(0);
    first.welcome();
    first.command('e1');
    first.command('e2', { clientDeviceId: 'valve-2' });
    (await held.call(0)).answer({ result: 'failed', code: 'stuck', message: 'the valve is stuck' });
    await first.next('commandResult');
    await held.call(1);
    first.fail(status.UNAVAILABLE, 'gone');
    const second = await room.server.stream(1);
    const { known } = await second.next('hello');
    expect(known).toMatchObject([
      { executionId: 'e1', status: KnownStatus.KNOWN_STATUS_FAILED, code: 'stuck', message: 'the valve is stuck' },
      { executionId: 'e2', status: KnownStatus.KNOWN_STATUS_RECEIVED },
    ]);
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({ executionId: 'e1' });
    (await held.call(1)).answer({ result: 'accepted' });
    expect(await second.next('commandResult', 2)).toMatchObject({ executionId: 'e2' });
  });
});
