import { join } from 'node:path';
import { type DeliveredCommand, type DeliveryResult, type Gateway, type GatewayError, sqliteStore } from '../../../src/client/gateway/index';
import { CommandResultCode as Code } from '../../../src/gen/gateway/v1/gateway_service';
import { canMount, SmallDisk } from '../../faults/smallDisk';
import type { FakeStream } from '../../support/fakePlantroom';
import { GatewayRoom, HeldDeliveries } from './gatewayRoom';

const inMemory = canMount('inMemory') ? describe : describe.skip;

const uplink = (value: number) => ({ clientDeviceId: 'meter-1', payload: { kind: 'json', value: { value } } }) as const;

inMemory('a gateway whose disk is full', () => {
  let disk: SmallDisk;
  let room: GatewayRoom;
  let gateway: Gateway;
  let stream: FakeStream;
  const held = new HeldDeliveries();
  const delivered: string[] = [];

  beforeAll(async () => {
    disk = SmallDisk.inMemory(8);
    room = new GatewayRoom();
    await room.open();
    gateway = started();
    stream = await room.server.stream(0);
    stream.welcome();
  });

  afterAll(async () => {
    await room.close();
    disk.remove();
  });

  function started(): Gateway {
    return room.start({ store: sqliteStore(join(disk.root, 'gateway.db')), deliver });
  }

  async function deliver(command: DeliveredCommand, delivery: Parameters<HeldDeliveries['deliver']>[1]): Promise<DeliveryResult> {
    delivered.push(command.executionId);
    return command.executionId === 'held' ? await held.deliver(command, delivery) : { result: 'accepted' };
  }

  /** Sends a command that takes some room on the disk; how it ended. */
  async function outcomeOf(executionId: string): Promise<{ readonly result: Code; readonly code: string }> {
    const from = stream.messages.length;
    stream.command(executionId, { clientDeviceId: executionId, payload: { $case: 'json', value: { text: 'x'.repeat(50_000) } } });
    const { result, code } = await stream.next('commandResult', from);
    return { result, code };
  }

  it('refuses commands without delivering them, and uplinks, and says that once', async () => {
    stream.command('held');
    await held.call(0);
    expect((await gateway.send(uplink(1))).uplinkId).not.toBe('');
    disk.fill();
    await expect(gateway.send(uplink(2))).rejects.toMatchObject({ name: 'GatewayError', reason: 'store_full' } satisfies Partial<GatewayError>);

    let refused: string | undefined;
    for (let at = 0; at < 100 && refused === undefined; at += 1) {
      const { result, code } = await outcomeOf(`large-${at}`);
      if (result === Code.COMMAND_RESULT_CODE_ACCEPTED) continue;
      expect([result, code]).toEqual([Code.COMMAND_RESULT_CODE_REFUSED, 'gateway_store_full']);
      refused = `large-${at}`;
    }
    expect(refused).toBeDefined();
    expect(delivered).not.toContain(refused);
    expect(room.names().filter((name) => name === 'store_failing')).toHaveLength(1);
  });

  it('tells the result of what was begun before', async () => {
    const from = stream.messages.length;
    (await held.call(0)).answer({ result: 'accepted', message: 'opened' });
    expect(await stream.next('commandResult', from)).toMatchObject({ executionId: 'held', result: Code.COMMAND_RESULT_CODE_ACCEPTED, message: 'opened' });
  });

  it('goes on by itself when there is room', async () => {
    disk.free();
    await gateway.send(uplink(3));
    await room.event('store_recovered');
    expect(await outcomeOf('after')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    expect(delivered.at(-1)).toBe('after');
  });

  it('has everything that it took after a restart, and does nothing of it again', async () => {
    const before = [...delivered];
    await gateway.stop(0);
    gateway = started();
    stream = await room.server.stream(1);
    stream.welcome();
    const { known } = await stream.next('hello');
    expect(new Set(known.map(({ executionId }) => executionId))).toEqual(new Set(before));
    expect(known.find(({ executionId }) => executionId === 'held')).toMatchObject({ message: 'opened' });
    const first = await stream.next('uplink');
    const second = await stream.next('uplink', stream.messages.findIndex(({ $case }) => $case === 'uplink') + 1);
    expect([first, second].map(({ payload }) => payload)).toEqual([
      { $case: 'json', value: { value: 1 } },
      { $case: 'json', value: { value: 3 } },
    ]);
    expect(delivered).toEqual(before);
  });
});
