import { join } from 'node:path';
import {
  type DeliveredCommand,
  type DeliveryResult,
  type Gateway,
  type GatewayError,
  sqliteStore,
} from '../../../src/client/gateway/index';
import { CommandResultCode as Code } from '../../../src/gen/gateway/v1/gateway_service';
import { canMount, SmallDisk } from '../../faults/smallDisk';
import type { FakeStream } from '../../support/fakePlantroom';
import { GatewayFixture, HeldDeliveries } from './gatewayFixture';

const inMemory = canMount('inMemory') ? describe : describe.skip;

const uplink = (value: number) => ({ clientDeviceId: 'meter-1', payload: { kind: 'json', value: { value } } }) as const;

inMemory('a gateway whose disk is full', () => {
  let disk: SmallDisk;
  let fixture: GatewayFixture;
  let gateway: Gateway;
  let stream: FakeStream;
  const held = new HeldDeliveries();
  const delivered: string[] = [];

  beforeAll(async () => {
    disk = SmallDisk.inMemory(8);
    fixture = new GatewayFixture();
    await fixture.open();
    gateway = started();
    stream = await fixture.server.stream(0);
    stream.welcome();
  });

  afterAll(async () => {
    await fixture.close();
    disk.remove();
  });

  function started(): Gateway {
    return fixture.start({ store: sqliteStore(join(disk.root, 'gateway.db')), deliver });
  }

  async function deliver(
    command: DeliveredCommand,
    delivery: Parameters<HeldDeliveries['deliver']>[1],
  ): Promise<DeliveryResult> {
    delivered.push(command.executionId);
    return command.executionId === 'held' ? await held.deliver(command, delivery) : { result: 'accepted' };
  }

  /** Sends a command that needs some disk space. Returns its outcome. */
  async function toOutcome(executionId: string): Promise<{ readonly result: Code; readonly code: string }> {
    const from = stream.messages.length;
    stream.command(executionId, {
      clientDeviceId: executionId,
      payload: { $case: 'json', value: { text: 'x'.repeat(50_000) } },
    });
    const { result, code } = await stream.next('commandResult', from);
    return { result, code };
  }

  it('rejects commands without delivery, and uplinks, and reports that once', async () => {
    stream.command('held');
    await held.call(0);
    expect((await gateway.send(uplink(1))).uplinkId).not.toBe('');
    disk.fill();
    await expect(gateway.send(uplink(2))).rejects.toMatchObject({
      name: 'GatewayError',
      reason: 'store_full',
    } satisfies Partial<GatewayError>);

    let rejection: string | undefined;
    for (let at = 0; at < 100 && rejection === undefined; at += 1) {
      const { result, code } = await toOutcome(`large-${at}`);
      if (result === Code.COMMAND_RESULT_CODE_ACCEPTED) continue;
      expect([result, code]).toEqual([Code.COMMAND_RESULT_CODE_REFUSED, 'gateway_store_full']);
      rejection = `large-${at}`;
    }
    expect(rejection).toBeDefined();
    expect(delivered).not.toContain(rejection);
    expect(fixture.names().filter((name) => name === 'store_failing')).toHaveLength(1);
  });

  it('sends the result of a delivery that began before', async () => {
    const from = stream.messages.length;
    (await held.call(0)).answer({ result: 'accepted', message: 'opened' });
    expect(await stream.next('commandResult', from)).toMatchObject({
      executionId: 'held',
      result: Code.COMMAND_RESULT_CODE_ACCEPTED,
      message: 'opened',
    });
  });

  it('recovers when disk space is available again', async () => {
    disk.free();
    await gateway.send(uplink(3));
    await fixture.event('store_recovered');
    expect(await toOutcome('after')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    expect(delivered.at(-1)).toBe('after');
  });

  it('has everything that it accepted after a restart, and repeats nothing', async () => {
    const before = [...delivered];
    await gateway.stop(0);
    gateway = started();
    stream = await fixture.server.stream(1);
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
