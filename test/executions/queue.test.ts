import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines } from '../support/engines';
import type { ExecutionRoom, Target } from './executionRoom';
import { roomForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } }, directPayload: '{"n": {{params.n}}}' } as never;

describe.each(engines())('the queue on $name', ({ createDatabase }) => {
  let room: ExecutionRoom;
  roomForEach(createDatabase, (made) => (room = made.room), () => room);

  async function submit(target: Target, count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) ids.push((await room.execute(target, { params: { n } })).executionId);
    return ids;
  }
  const states = async (ids: readonly string[]): Promise<number[]> => (await Promise.all(ids.map(async (id) => await room.get(id)))).map((one) => one.state);

  it('sends to one device in order, the next when the one before was answered', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: NUMBERED });
    const ids = await submit(target, 4);
    const gateway = await TestGateway.attach(room, { connectionId });
    for (const [at, id] of ids.entries()) {
      expect((await gateway.command(at + 1)).executionId).toBe(id);
      gateway.received(id);
      await room.until(id, 'delivered');
      expect(gateway.commands).toHaveLength(at + 1);
      expect(await states(ids.slice(at + 1))).toEqual(ids.slice(at + 1).map(() => 1));
      await gateway.result(id, ACCEPTED);
    }
    await gateway.cut();
  });

  it('sends to many devices at a time, as many as the gateway takes', async () => {
    const connectionId = await room.connection({ policy: { maxInFlight: 3 } });
    const targets = await Promise.all([1, 2, 3, 4, 5].map(async () => await room.target({ connectionId })));
    const gateway = await TestGateway.attach(room, { connectionId });
    const ids = new Set((await Promise.all(targets.map(async (target) => await room.execute(target)))).map((answer) => answer.executionId));
    await gateway.command(3);
    const [first] = gateway.commands;
    expect((await states([...ids])).toSorted((a, b) => a - b)).toEqual([1, 1, 2, 2, 2]);
    gateway.received(first?.executionId ?? '');
    await gateway.command(4);
    await room.until(first?.executionId ?? '', 'delivered');
    expect((await states([...ids])).toSorted((a, b) => a - b)).toEqual([1, 2, 2, 2, 3]);
    for (const command of gateway.commands) gateway.received(command.executionId);
    await gateway.command(5);
    expect(new Set(gateway.commands.map((command) => command.executionId))).toEqual(ids);
    await gateway.cut();
  });

  it('sends nothing after its time', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: NUMBERED });
    const [late, next] = await submit(target, 1);
    expect(next).toBeUndefined();
    room.clock.advance(60_000);
    const [fresh] = [await room.execute(target, { params: { n: 7 } })];
    const gateway = await TestGateway.attach(room, { connectionId });
    await room.executions.sweep();
    expect((await gateway.command(1)).executionId).toBe(fresh.executionId);
    expect(await room.get(late ?? '')).toMatchObject({ state: 9, detail: '', attempts: 0 });
    await gateway.cut();
  });

  it('keeps the limit of other devices apart and frees a place with each delivery', async () => {
    const connectionId = await room.connection({ policy: { queueLimit: 1 } });
    const target = await room.target({ connectionId, command: NUMBERED });
    const gateway = await TestGateway.attach(room, { connectionId });
    const [first] = await submit(target, 1);
    await gateway.command(1);
    expect((await room.execute(target, { params: { n: 8 } })).accepted).toBe(false);
    expect((await room.execute(await room.target({ connectionId }))).accepted).toBe(true);
    gateway.received(first ?? '');
    await room.until(first ?? '', 'delivered');
    expect((await room.execute(target, { params: { n: 9 } })).accepted).toBe(true);
    await gateway.cut();
  });

  it('gives the device to the next when nobody answered in time', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: NUMBERED });
    const gateway = await TestGateway.attach(room, { connectionId });
    const [first, second] = await submit(target, 1);
    expect(second).toBeUndefined();
    await gateway.command(1);
    gateway.received(first ?? '');
    await room.until(first ?? '', 'delivered');
    room.clock.advance(119_999);
    const waiting = await room.execute(target, { params: { n: 5 } });
    await room.executions.sweep();
    expect((await room.get(first ?? '')).state).toBe(3);
    room.clock.advance(1);
    await room.executions.sweep();
    expect(await room.get(first ?? '')).toMatchObject({ state: 7, detail: 'ack_timeout' });
    await gateway.untilWithdrawn(first ?? '');
    expect((await gateway.command(2)).executionId).toBe(waiting.executionId);
    await gateway.cut();
  });

  it('lets the effect be awaited while the next command goes out', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, expects: true, command: { verificationStrategy: 2, convergenceTimeout: 100, ...(NUMBERED as object) } });
    const gateway = await TestGateway.attach(room, { connectionId });
    const [first, second] = await submit(target, 2);
    await gateway.command(1);
    await gateway.result(first ?? '', ACCEPTED);
    expect(await room.get(first ?? '')).toMatchObject({ state: 4, evidence: 1 });
    expect((await gateway.command(2)).executionId).toBe(second);
    room.clock.advance(100_000);
    await room.executions.sweep();
    expect(await room.get(first ?? '')).toMatchObject({ state: 6, detail: 'l4_timeout' });
    await gateway.cut();
  });

  it('loses nothing and doubles nothing when many devices are commanded at once', async () => {
    const connectionId = await room.connection();
    const targets = await Promise.all(Array.from({ length: 20 }, async () => await room.target({ connectionId, command: NUMBERED })));
    const gateway = await TestGateway.attach(room, { connectionId });
    const ids = (await Promise.all(targets.map(async (target) => await submit(target, 5)))).flat();
    const results: Promise<unknown>[] = [];
    for (let count = 1; count <= ids.length; count++) results.push(gateway.result((await gateway.command(count)).executionId, ACCEPTED));
    await Promise.all(results);
    await Promise.all(ids.map(async (id) => await room.until(id, 'accepted_no_l4')));
    expect(new Set(gateway.commands.map((command) => command.executionId))).toEqual(new Set(ids));
    expect(gateway.commands).toHaveLength(ids.length);
    for (const target of targets) {
      const own = gateway.commands.filter((command) => command.clientDeviceId === target.clientDeviceId);
      expect(own.map((command) => command.payload?.value)).toEqual([0, 1, 2, 3, 4].map((n) => ({ n })));
    }
    await gateway.cut();
  });
});
