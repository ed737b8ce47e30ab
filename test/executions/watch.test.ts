import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import type { WatchExecutionsRequest, WatchExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { answersOf, call, headers, seen, type SeenError } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionRoom } from './executionRoom';
import { roomForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } } } as never;

/** What a watcher has seen: `sequence` and id of each event. */
const namesOf = (items: readonly WatchExecutionsResponse[]): string[] => items.filter((item) => item.event).map((item) => `${item.execution?.id} ${item.event?.sequence}`);

/** Reads so many answers, then hangs up. */
async function read(stream: ClientReadableStream<WatchExecutionsResponse>, count: number): Promise<WatchExecutionsResponse[]> {
  const items: WatchExecutionsResponse[] = [];
  for await (const item of answersOf(stream)) {
    items.push(item);
    if (items.length === count) break;
  }
  return items;
}

describe.each(engines())('the watch on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => ({ db, room } = made));

  function open(request: Partial<WatchExecutionsRequest> = {}, fields = AS_ONE): ClientReadableStream<WatchExecutionsResponse> {
    return room.client.watchExecutions({ organizationId: '', id: undefined, executionId: undefined, resumeToken: '', endsWhenFinal: false, ...request }, headers(fields));
  }
  async function fails(request: Partial<WatchExecutionsRequest>, fields = AS_ONE): Promise<SeenError> {
    const stream = open(request, fields);
    return await new Promise((resolve) => stream.on('error', (error: ServiceError) => resolve(seen(error))).resume());
  }
  async function tokenNow(): Promise<string> {
    const [first] = await read(open(), 1);
    expect(first).toMatchObject({ execution: undefined, event: undefined });
    return first?.resumeToken ?? '';
  }

  it('begins with a token, then shows every event as it is stored, with the execution as it is', async () => {
    const connectionId = await room.connection();
    const gateway = await TestGateway.attach(room, { connectionId });
    const stream = open();
    const reading = read(stream, 5);
    const target = await room.target({ connectionId });
    const { executionId } = await room.execute(target);
    await gateway.command(1);
    gateway.received(executionId);
    await room.until(executionId, 'delivered');
    await gateway.result(executionId, 1);
    const items = await reading;
    expect(items[0]?.resumeToken).toMatch(/./); // no two tokens are alike
    expect(items.slice(1).map((item) => item.event?.event)).toEqual(['submitted', 'dispatch', 'transport_ok', 'ack']);
    expect(items.at(-1)?.execution).toMatchObject({ id: executionId, state: 6, organizationId: 'org-1', deviceId: target.deviceId, events: [] });
    await gateway.cut();
  });

  it('resumes after any answer, and loses and doubles nothing', async () => {
    const target = await room.target({ command: NUMBERED });
    const token = await tokenNow();
    for (let n = 0; n < 12; n++) await room.execute(target, { params: { n } });
    const all = await read(open({ resumeToken: token }), 13);
    expect(new Set(namesOf(all)).size).toBe(12);
    for (const [at, item] of all.entries()) {
      const rest = await read(open({ resumeToken: item.resumeToken }), 13 - at);
      expect(namesOf(rest)).toEqual(namesOf(all).slice(at));
    }
  });

  it('sees everything once while many write in parallel', async () => {
    const targets = await Promise.all([1, 2, 3, 4].map(async () => await room.target({ command: NUMBERED })));
    const reading = read(open({ resumeToken: await tokenNow() }), 81);
    const answers = await Promise.all(targets.flatMap((target) => Array.from({ length: 20 }, async (_, n) => await room.execute(target, { params: { n } }))));
    expect(namesOf(await reading).toSorted()).toEqual(answers.map((answer) => `${answer.executionId} 1`).toSorted());
  });

  it('shows one device or one execution only', async () => {
    const [one, two] = [await room.target({ command: NUMBERED }), await room.target({ command: NUMBERED })];
    const token = await tokenNow();
    const first = await room.execute(one, { params: { n: 1 } });
    await room.execute(two, { params: { n: 1 } });
    const last = await room.execute(one, { params: { n: 2 } });
    expect(namesOf(await read(open({ resumeToken: token, id: one.deviceId }), 3))).toEqual([`${first.executionId} 1`, `${last.executionId} 1`]);
    expect(namesOf(await read(open({ resumeToken: token, executionId: last.executionId }), 2))).toEqual([`${last.executionId} 1`]);
  });

  it('ends with the end of one execution where that was asked for, in peace and with nothing left out', async () => {
    const [quiet, noisy] = [await room.target({ command: NUMBERED }), await room.target({ connectionId: await room.connection({ policy: { queueLimit: 1000 } }), command: NUMBERED })];
    const token = await tokenNow();
    const { executionId } = await room.execute(quiet, { params: { n: 1 } });
    const whole = read(open({ executionId, resumeToken: token, endsWhenFinal: true }), Infinity);
    const begun = open({ executionId, endsWhenFinal: true });
    const fresh = answersOf(begun);
    await fresh.next();
    for (let n = 0; n < 3; n++) await room.execute(noisy, { params: { n } });
    await call(room.client.cancelExecution.bind(room.client), { executionId, organizationId: '' }, AS_ONE);
    const rest: WatchExecutionsResponse[] = [];
    for await (const item of fresh) rest.push(item);
    expect(namesOf(rest)).toEqual([`${executionId} 2`]);
    expect(namesOf(await whole)).toEqual([`${executionId} 1`, `${executionId} 2`]);
    expect(await read(open({ executionId, endsWhenFinal: true }), Infinity)).toEqual([expect.objectContaining({ event: undefined })]);
    for (let start = 3; start < 213; start += 30) await Promise.all(Array.from({ length: 30 }, async (_, n) => await room.execute(noisy, { params: { n: start + n } })));
    expect(namesOf(await read(open({ executionId, resumeToken: token, endsWhenFinal: true }), Infinity))).toEqual([`${executionId} 1`, `${executionId} 2`]);
    expect(await fails({ endsWhenFinal: true })).toMatchObject({ code: 3, reason: 'validation_failed', fields: ['endsWhenFinal'] });
  });

  it('moves a reader of little among much on', async () => {
    const quiet = await room.target({ command: NUMBERED });
    const noisy = await room.target({ connectionId: await room.connection({ policy: { queueLimit: 1000 } }), command: NUMBERED });
    const token = await tokenNow();
    for (let start = 0; start < 210; start += 30) await Promise.all(Array.from({ length: 30 }, async (_, n) => await room.execute(noisy, { params: { n: start + n } })));
    const [, moved] = await read(open({ resumeToken: token, id: quiet.deviceId }), 2);
    expect(moved).toMatchObject({ event: undefined, execution: undefined });
    expect(moved?.resumeToken).not.toBe(token);
  });

  it('moves a reader of little among little on after half a minute', async () => {
    const [quiet, noisy] = [await room.target({ command: NUMBERED }), await room.target({ command: NUMBERED })];
    const [first] = await read(open(), 1);
    const stream = open({ resumeToken: first?.resumeToken ?? '', id: quiet.deviceId });
    const reading = read(stream, 2);
    await room.execute(noisy, { params: { n: 1 } });
    room.clock.advance(30_000);
    await room.execute(noisy, { params: { n: 2 } });
    const [, moved] = await reading;
    expect(moved).toMatchObject({ event: undefined, execution: undefined });
    expect(moved?.resumeToken).not.toBe(first?.resumeToken);
  });

  it('moves a reader of little on also when the much comes one by one', async () => {
    const quiet = await room.target({ command: NUMBERED });
    const noisy = await room.target({ connectionId: await room.connection({ policy: { queueLimit: 1000 } }), command: NUMBERED });
    const token = await tokenNow();
    const reading = read(open({ resumeToken: token, id: quiet.deviceId }), 2);
    for (let n = 0; n < 201; n++) await room.execute(noisy, { params: { n } });
    const [, moved] = await reading;
    expect(moved?.resumeToken).not.toBe(token);
  });

  it('shows nothing of another organization', async () => {
    const [other] = await read(open({}, AS_TWO), 1);
    expect(await fails({ resumeToken: other?.resumeToken ?? '' })).toMatchObject({ code: 3, reason: 'validation_failed', fields: ['resumeToken'] });
    const { executionId } = await room.execute(await room.target());
    expect(await fails({ executionId }, AS_TWO)).toMatchObject({ code: 5, reason: 'execution_not_found' });
    const target = await room.target();
    expect(await fails({ id: target.deviceId }, AS_TWO)).toMatchObject({ code: 5, reason: 'device_not_found' });
  });

  it('says so when the sweep removed events after the token, a year after their execution ended', async () => {
    const target = await room.target({ bound: false });
    const token = await tokenNow();
    const { executionId } = await room.execute(target);
    const { executionId: running } = await room.execute(await room.target());
    const year = 365 * 24 * 3_600_000;
    await room.executions.forgetOld(room.clock.now() + year - 1);
    expect(namesOf(await read(open({ resumeToken: token }), 3))).toEqual([`${executionId} 1`, `${running} 1`]);
    await room.executions.forgetOld(room.clock.now() + year);
    expect(await fails({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    expect(await fails({ executionId })).toMatchObject({ reason: 'execution_not_found' });
    expect((await room.get(running)).events).toHaveLength(1);
  });

  it('says so when events after the token are gone, at the begin of what is kept or in its middle', async () => {
    const target = await room.target({ command: NUMBERED });
    const token = await tokenNow();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push((await room.execute(target, { params: { n } })).executionId);
    await db.database.db.knex('executions').where('id', ids[2] ?? '').delete();
    expect(await fails({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    await db.database.db.knex('executions').whereIn('id', ids).delete();
    expect(await fails({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    expect(await read(open({ resumeToken: await tokenNow() }), 1)).toHaveLength(1);
  });
});
