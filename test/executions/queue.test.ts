import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { engines } from '../support/engines';
import type { ExecutionFixture, Target } from './executionFixture';
import { fixtureForEach } from './executionSuite';
import { TestGateway } from './testGateway';

const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } }, directPayload: '{"n": {{params.n}}}' } as never;

describe.each(engines())('the queue on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  fixtureForEach(
    createDatabase,
    (made) => (fixture = made.fixture),
    () => fixture,
  );

  async function submit(target: Target, count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) ids.push((await fixture.execute(target, { params: { n } })).executionId);
    return ids;
  }
  const states = async (ids: readonly string[]): Promise<number[]> =>
    (await Promise.all(ids.map(async (id) => await fixture.get(id)))).map((one) => one.state);

  it('sends to one device in order, each command after the previous one was answered', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, command: NUMBERED });
    const ids = await submit(target, 4);
    const gateway = await TestGateway.attach(fixture, { connectionId });
    for (const [at, id] of ids.entries()) {
      expect((await gateway.command(at + 1)).executionId).toBe(id);
      gateway.received(id);
      await fixture.until(id, 'delivered');
      expect(gateway.commands).toHaveLength(at + 1);
      expect(await states(ids.slice(at + 1))).toEqual(ids.slice(at + 1).map(() => 1));
      await gateway.result(id, ACCEPTED);
    }
    await gateway.cut();
  });

  it('sends to several devices at a time, up to the limit of the gateway', async () => {
    const connectionId = await fixture.connection({ policy: { maxInFlight: 3 } });
    const targets = await Promise.all([1, 2, 3, 4, 5].map(async () => await fixture.target({ connectionId })));
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const ids = new Set(
      (await Promise.all(targets.map(async (target) => await fixture.execute(target)))).map(
        (answer) => answer.executionId,
      ),
    );
    await gateway.command(3);
    const [first] = gateway.commands;
    expect((await states([...ids])).toSorted((a, b) => a - b)).toEqual([1, 1, 2, 2, 2]);
    gateway.received(first?.executionId ?? '');
    await gateway.command(4);
    await fixture.until(first?.executionId ?? '', 'delivered');
    expect((await states([...ids])).toSorted((a, b) => a - b)).toEqual([1, 2, 2, 2, 3]);
    for (const command of gateway.commands) gateway.received(command.executionId);
    await gateway.command(5);
    expect(new Set(gateway.commands.map((command) => command.executionId))).toEqual(ids);
    await gateway.cut();
  });

  it('sends nothing after its deadline', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, command: NUMBERED });
    const [late, next] = await submit(target, 1);
    expect(next).toBeUndefined();
    fixture.clock.advance(60_000);
    const [fresh] = [await fixture.execute(target, { params: { n: 7 } })];
    const gateway = await TestGateway.attach(fixture, { connectionId });
    await fixture.executions.deadlines.sweep();
    expect((await gateway.command(1)).executionId).toBe(fresh.executionId);
    expect(await fixture.get(late ?? '')).toMatchObject({ state: 9, detail: '', attempts: 0 });
    await gateway.cut();
  });

  it('limits each device separately, and frees a place with each delivery', async () => {
    const connectionId = await fixture.connection({ policy: { queueLimit: 1 } });
    const target = await fixture.target({ connectionId, command: NUMBERED });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const [first] = await submit(target, 1);
    await gateway.command(1);
    expect((await fixture.execute(target, { params: { n: 8 } })).accepted).toBe(false);
    expect((await fixture.execute(await fixture.target({ connectionId }))).accepted).toBe(true);
    gateway.received(first ?? '');
    await fixture.until(first ?? '', 'delivered');
    expect((await fixture.execute(target, { params: { n: 9 } })).accepted).toBe(true);
    await gateway.cut();
  });

  it('gives the device to the next command when no answer arrived in time', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, command: NUMBERED });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const [first, second] = await submit(target, 1);
    expect(second).toBeUndefined();
    await gateway.command(1);
    gateway.received(first ?? '');
    await fixture.until(first ?? '', 'delivered');
    fixture.clock.advance(119_999);
    const waiting = await fixture.execute(target, { params: { n: 5 } });
    await fixture.executions.deadlines.sweep();
    expect((await fixture.get(first ?? '')).state).toBe(3);
    fixture.clock.advance(1);
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(first ?? '')).toMatchObject({ state: 7, detail: 'ack_timeout' });
    await gateway.untilCancelled(first ?? '');
    expect((await gateway.command(2)).executionId).toBe(waiting.executionId);
    await gateway.cut();
  });

  it('sends the next command while the effect of the previous one is awaited', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({
      connectionId,
      expects: true,
      command: { verificationStrategy: 2, convergenceTimeout: 100, ...(NUMBERED as object) },
    });
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const [first, second] = await submit(target, 2);
    await gateway.command(1);
    await gateway.result(first ?? '', ACCEPTED);
    expect(await fixture.get(first ?? '')).toMatchObject({ state: 4, evidence: 1 });
    expect((await gateway.command(2)).executionId).toBe(second);
    fixture.clock.advance(100_000);
    await fixture.executions.deadlines.sweep();
    expect(await fixture.get(first ?? '')).toMatchObject({ state: 6, detail: 'verification_timeout' });
    await gateway.cut();
  });

  it('loses and duplicates nothing when many devices are commanded at once', async () => {
    const connectionId = await fixture.connection();
    const targets = await Promise.all(
      Array.from({ length: 20 }, async () => await fixture.target({ connectionId, command: NUMBERED })),
    );
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const ids = (await Promise.all(targets.map(async (target) => await submit(target, 5)))).flat();
    const results: Promise<unknown>[] = [];
    for (let count = 1; count <= ids.length; count++)
      results.push(gateway.result((await gateway.command(count)).executionId, ACCEPTED));
    await Promise.all(results);
    await Promise.all(ids.map(async (id) => await fixture.until(id, 'accepted_no_l4')));
    expect(new Set(gateway.commands.map((command) => command.executionId))).toEqual(new Set(ids));
    expect(gateway.commands).toHaveLength(ids.length);
    for (const target of targets) {
      const own = gateway.commands.filter((command) => command.clientDeviceId === target.clientDeviceId);
      expect(own.map((command) => command.payload?.value)).toEqual([0, 1, 2, 3, 4].map((n) => ({ n })));
    }
    await gateway.cut();
  });
});
