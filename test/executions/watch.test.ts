import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import { deleteOldExecutions } from '../../src/executions';
import type {
  WatchExecutionsRequest,
  WatchExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { listAnswers, call, headers, parseError, type GrpcErrorInfo } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionFixture } from './executionFixture';
import { fixtureForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } } } as never;

/** What a watcher has received: `sequence` and id of each event. */
const listNames = (items: readonly WatchExecutionsResponse[]): string[] =>
  items.filter((item) => item.event).map((item) => `${item.execution?.id} ${item.event?.sequence}`);

/** Reads this number of responses and then cancels the stream. */
async function read(
  stream: ClientReadableStream<WatchExecutionsResponse>,
  count: number,
): Promise<WatchExecutionsResponse[]> {
  const items: WatchExecutionsResponse[] = [];
  for await (const item of listAnswers(stream)) {
    items.push(item);
    if (items.length === count) break;
  }
  return items;
}

describe.each(engines())('the watch on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ db, fixture } = made));

  function open(
    request: Partial<WatchExecutionsRequest> = {},
    fields = AS_ONE,
  ): ClientReadableStream<WatchExecutionsResponse> {
    return fixture.client.watchExecutions(
      { organizationId: '', id: undefined, executionId: undefined, resumeToken: '', endsWhenFinal: false, ...request },
      headers(fields),
    );
  }
  async function getFailure(request: Partial<WatchExecutionsRequest>, fields = AS_ONE): Promise<GrpcErrorInfo> {
    const stream = open(request, fields);
    return await new Promise((resolve) =>
      stream.on('error', (error: ServiceError) => resolve(parseError(error))).resume(),
    );
  }
  async function getCurrentToken(): Promise<string> {
    const [first] = await read(open(), 1);
    expect(first).toMatchObject({ execution: undefined, event: undefined });
    return first?.resumeToken ?? '';
  }

  it('begins with a token, then sends each stored event with its execution', async () => {
    const connectionId = await fixture.connection();
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const stream = open();
    const reading = read(stream, 5);
    const target = await fixture.target({ connectionId });
    const { executionId } = await fixture.execute(target);
    await gateway.command(1);
    gateway.received(executionId);
    await fixture.until(executionId, 'delivered');
    await gateway.result(executionId, 1);
    const items = await reading;
    expect(items[0]?.resumeToken).toMatch(/./);
    expect(items.slice(1).map((item) => item.event?.event)).toEqual(['submitted', 'dispatch', 'transport_ok', 'ack']);
    expect(items.at(-1)?.execution).toMatchObject({
      id: executionId,
      state: 6,
      organizationId: 'org-1',
      deviceId: target.deviceId,
      events: [],
    });
    await gateway.cut();
  });

  it('sends the same token with an event to all watchers: it is encrypted once', async () => {
    const target = await fixture.target({ command: NUMBERED });
    const resumeToken = await getCurrentToken();
    const readings = [read(open({ resumeToken }), 3), read(open({ id: target.deviceId, resumeToken }), 3)];
    for (let n = 0; n < 2; n++) await fixture.execute(target, { params: { n } });
    const readEvents = await Promise.all(readings);
    const [one, two] = readEvents.map((items) => items.slice(1).map((item) => item.resumeToken));
    expect(one).toEqual(two);
    expect(new Set(one).size).toBe(2);
  });

  it('resumes after any response, and loses and duplicates nothing', async () => {
    const target = await fixture.target({ command: NUMBERED });
    const token = await getCurrentToken();
    for (let n = 0; n < 12; n++) await fixture.execute(target, { params: { n } });
    const all = await read(open({ resumeToken: token }), 13);
    expect(new Set(listNames(all)).size).toBe(12);
    for (const [at, item] of all.entries()) {
      const rest = await read(open({ resumeToken: item.resumeToken }), 13 - at);
      expect(listNames(rest)).toEqual(listNames(all).slice(at));
    }
  });

  it('sends every event once during parallel writes', async () => {
    const targets = await Promise.all([1, 2, 3, 4].map(async () => await fixture.target({ command: NUMBERED })));
    const reading = read(open({ resumeToken: await getCurrentToken() }), 81);
    const answers = await Promise.all(
      targets.flatMap((target) =>
        Array.from({ length: 20 }, async (_, n) => await fixture.execute(target, { params: { n } })),
      ),
    );
    expect(listNames(await reading).toSorted()).toEqual(answers.map((answer) => `${answer.executionId} 1`).toSorted());
  });

  it('sends the events of one device or one execution only', async () => {
    const [one, two] = [await fixture.target({ command: NUMBERED }), await fixture.target({ command: NUMBERED })];
    const token = await getCurrentToken();
    const first = await fixture.execute(one, { params: { n: 1 } });
    await fixture.execute(two, { params: { n: 1 } });
    const last = await fixture.execute(one, { params: { n: 2 } });
    expect(listNames(await read(open({ resumeToken: token, id: one.deviceId }), 3))).toEqual([
      `${first.executionId} 1`,
      `${last.executionId} 1`,
    ]);
    expect(listNames(await read(open({ resumeToken: token, executionId: last.executionId }), 2))).toEqual([
      `${last.executionId} 1`,
    ]);
  });

  it('ends with the end of one execution on request, without an error and without missing events', async () => {
    const [rareTarget, frequentTarget] = [
      await fixture.target({ command: NUMBERED }),
      await fixture.target({
        connectionId: await fixture.connection({ policy: { queueLimit: 1000 } }),
        command: NUMBERED,
      }),
    ];
    const token = await getCurrentToken();
    const { executionId } = await fixture.execute(rareTarget, { params: { n: 1 } });
    const whole = read(open({ executionId, resumeToken: token, endsWhenFinal: true }), Infinity);
    const watchStream = open({ executionId, endsWhenFinal: true });
    const fresh = listAnswers(watchStream);
    await fresh.next();
    for (let n = 0; n < 3; n++) await fixture.execute(frequentTarget, { params: { n } });
    await call(fixture.client.cancelExecution.bind(fixture.client), { executionId, organizationId: '' }, AS_ONE);
    const rest: WatchExecutionsResponse[] = [];
    for await (const item of fresh) rest.push(item);
    expect(listNames(rest)).toEqual([`${executionId} 2`]);
    expect(listNames(await whole)).toEqual([`${executionId} 1`, `${executionId} 2`]);
    expect(await read(open({ executionId, endsWhenFinal: true }), Infinity)).toEqual([
      expect.objectContaining({ event: undefined }),
    ]);
    for (let start = 3; start < 213; start += 30)
      await Promise.all(
        Array.from({ length: 30 }, async (_, n) => await fixture.execute(frequentTarget, { params: { n: start + n } })),
      );
    expect(listNames(await read(open({ executionId, resumeToken: token, endsWhenFinal: true }), Infinity))).toEqual([
      `${executionId} 1`,
      `${executionId} 2`,
    ]);
    expect(await getFailure({ endsWhenFinal: true })).toMatchObject({
      code: 3,
      reason: 'validation_failed',
      fields: ['endsWhenFinal'],
    });
  });

  it('advances a watcher with few matching events among many others', async () => {
    const rareTarget = await fixture.target({ command: NUMBERED });
    const frequentTarget = await fixture.target({
      connectionId: await fixture.connection({ policy: { queueLimit: 1000 } }),
      command: NUMBERED,
    });
    const token = await getCurrentToken();
    for (let start = 0; start < 210; start += 30)
      await Promise.all(
        Array.from({ length: 30 }, async (_, n) => await fixture.execute(frequentTarget, { params: { n: start + n } })),
      );
    const [, moved] = await read(open({ resumeToken: token, id: rareTarget.deviceId }), 2);
    expect(moved).toMatchObject({ event: undefined, execution: undefined });
    expect(moved?.resumeToken).not.toBe(token);
  });

  it('advances a watcher with few matching events among few others after half a minute', async () => {
    const [rareTarget, frequentTarget] = [
      await fixture.target({ command: NUMBERED }),
      await fixture.target({ command: NUMBERED }),
    ];
    const [first] = await read(open(), 1);
    const stream = open({ resumeToken: first?.resumeToken ?? '', id: rareTarget.deviceId });
    const reading = read(stream, 2);
    await fixture.execute(frequentTarget, { params: { n: 1 } });
    fixture.clock.advance(30_000);
    await fixture.execute(frequentTarget, { params: { n: 2 } });
    const [, moved] = await reading;
    expect(moved).toMatchObject({ event: undefined, execution: undefined });
    expect(moved?.resumeToken).not.toBe(first?.resumeToken);
  });

  it('advances a watcher with few matching events also when the others arrive one by one', async () => {
    const rareTarget = await fixture.target({ command: NUMBERED });
    const frequentTarget = await fixture.target({
      connectionId: await fixture.connection({ policy: { queueLimit: 1000 } }),
      command: NUMBERED,
    });
    const token = await getCurrentToken();
    const reading = read(open({ resumeToken: token, id: rareTarget.deviceId }), 2);
    for (let n = 0; n < 201; n++) await fixture.execute(frequentTarget, { params: { n } });
    const [, moved] = await reading;
    expect(moved?.resumeToken).not.toBe(token);
  });

  it('sends nothing of another organization', async () => {
    const [other] = await read(open({}, AS_TWO), 1);
    expect(await getFailure({ resumeToken: other?.resumeToken ?? '' })).toMatchObject({
      code: 3,
      reason: 'validation_failed',
      fields: ['resumeToken'],
    });
    const { executionId } = await fixture.execute(await fixture.target());
    expect(await getFailure({ executionId }, AS_TWO)).toMatchObject({ code: 5, reason: 'execution_not_found' });
    const target = await fixture.target();
    expect(await getFailure({ id: target.deviceId }, AS_TWO)).toMatchObject({ code: 5, reason: 'device_not_found' });
  });

  it('reports that the sweep removed events after the token, a year after their execution ended', async () => {
    const target = await fixture.target({ bound: false });
    const token = await getCurrentToken();
    const { executionId } = await fixture.execute(target);
    const { executionId: running } = await fixture.execute(await fixture.target());
    const year = 365 * 24 * 3_600_000;
    await deleteOldExecutions(db.database, fixture.clock.now() + year - 1);
    expect(listNames(await read(open({ resumeToken: token }), 3))).toEqual([`${executionId} 1`, `${running} 1`]);
    await deleteOldExecutions(db.database, fixture.clock.now() + year);
    expect(await getFailure({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    expect(await getFailure({ executionId })).toMatchObject({ reason: 'execution_not_found' });
    expect((await fixture.get(running)).events).toHaveLength(1);
  });

  it('reports missing events after the token, at the start or in the middle of the stored ones', async () => {
    const target = await fixture.target({ command: NUMBERED });
    const token = await getCurrentToken();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push((await fixture.execute(target, { params: { n } })).executionId);
    await db.database.db
      .knex('executions')
      .where('id', ids[2] ?? '')
      .delete();
    expect(await getFailure({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    await db.database.db.knex('executions').whereIn('id', ids).delete();
    expect(await getFailure({ resumeToken: token })).toMatchObject({ code: 11, reason: 'resume_token_expired' });
    expect(await read(open({ resumeToken: await getCurrentToken() }), 1)).toHaveLength(1);
  });
});
