import {
  executeAndWait,
  watchExecution,
  isFinal,
  waitForExecution,
  streamReadings,
  watchConnectionStatus,
  watchExecutions,
  type ExecutionUpdate,
} from '../../../src/client';
import { ExecutionState } from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import type { StreamReadingsResponse } from '../../../src/client/gen/sensorquery/v1/sensor_query_service';
import { startStreamSite, type StreamSite } from './streamSite';

const FAST = { firstPauseMs: 5, longestPauseMs: 20 };

const getName = ({ execution, event }: ExecutionUpdate): string => `${execution.id} ${event.sequence}`;
const readFirst = async (stream: AsyncIterableIterator<unknown>): Promise<unknown> => await stream.next();
/** Stores the newest token, and resolves when the first one exists. */
class TokenStore {
  token = '';
  readonly firstToken: Promise<void>;
  private begin = (): void => {};

  constructor() {
    this.firstToken = new Promise((resolve) => (this.begin = resolve));
  }

  readonly onResumeToken = (token: string): void => {
    this.token = token;
    this.begin();
  };
}

describe('plantroom-client streams over an unreliable connection', () => {
  let site: StreamSite;
  beforeAll(async () => {
    site = await startStreamSite();
  });
  afterAll(async () => await site.stop());

  /** Starts and cancels an execution. Returns its ID. */
  const executeAndCancel = async (n: number): Promise<string> => {
    const { executionId } = await site.client.commands.executeCommand({
      id: site.deviceId,
      commandId: site.commandId,
      params: { n },
    });
    await site.client.commands.cancelExecution({ executionId });
    return executionId;
  };
  /** Creates another connection. Returns its ID. */
  const createConnection = async (name: string): Promise<string> =>
    (await site.client.connections.createConnection({ connectorId: 'gateway', name, enabled: false })).id;
  /** Returns the names of all events of these executions, in the order of storage. */
  const listEvents = async (ids: readonly string[]): Promise<string[]> => {
    const names: string[] = [];
    for (const executionId of ids) {
      const { events } = await site.client.commands.getExecution({ executionId });
      names.push(...events.map(({ sequence }) => `${executionId} ${sequence}`));
    }
    return names;
  };

  it('executions: every event once and in order', async () => {
    const received: string[] = [];
    const ids: string[] = [];
    const losses: string[] = [];
    const { firstToken, onResumeToken } = new TokenStore();
    const watch = watchExecutions(
      site.shaky,
      { id: site.deviceId },
      { ...FAST, onLost: ({ status }) => losses.push(status), onResumeToken },
    );
    const next = watch.next();
    await firstToken;
    for (let n = 0; n < 3; n += 1) ids.push(await executeAndCancel(n));
    received.push(getName((await next).value));
    site.proxy.loseAnswers();
    for (let n = 3; n < 6; n += 1) ids.push(await executeAndCancel(n));
    site.proxy.cut();
    for await (const news of watch) {
      received.push(getName(news));
      if (received.length === ids.length * 2 && ids.length === 12) break;
      if (received.length < ids.length * 2) continue;
      site.proxy.cut();
      ids.push(await executeAndCancel(ids.length));
    }
    expect(received).toEqual(await listEvents(ids));
    expect(losses).toHaveLength(7);
    expect(new Set(losses)).toEqual(new Set(['UNAVAILABLE']));
  });

  it('executions: events during a program restart come after the token that it kept', async () => {
    const tokens = new TokenStore();
    const watch = watchExecutions(
      site.client,
      {},
      { onResumeToken: async (token) => await Promise.resolve(tokens.onResumeToken(token)) },
    );
    const next = watch.next();
    await tokens.firstToken;
    const firstToken = tokens.token;
    const id = await executeAndCancel(10);
    const { value } = (await next) as { value: ExecutionUpdate };
    // The event is not handled before the next one is requested.
    expect([value.event.sequence, tokens.token]).toEqual([1, firstToken]);
    const second = await watch.next();
    const handled = tokens.token;
    expect(handled).toBe(value.resumeToken);
    await watch.return?.();
    const resumed: string[] = [];
    for await (const news of watchExecutions(site.client, { resumeToken: handled })) {
      resumed.push(getName(news));
      break;
    }
    expect(resumed).toEqual([getName(second.value)]);
    expect(resumed).toEqual([`${id} 2`]);
  });

  it('readings: each once, those of a sensor in order', async () => {
    const gateway = await site.attach();
    const sent = Array.from({ length: 30 }, (_, n) => n);
    const received: number[] = [];
    const { firstToken, onResumeToken } = new TokenStore();
    const watch = streamReadings(site.shaky, { deviceIds: [site.deviceId] }, { ...FAST, onResumeToken });
    const next = watch.next();
    await firstToken;
    const take = ({ readings }: StreamReadingsResponse): void =>
      void received.push(...readings.map(({ value }) => (value?.$case === 'number' ? value.value : Number.NaN)));
    const send = async (from: number, to: number): Promise<void> => {
      for (const n of sent.slice(from, to))
        gateway.uplink(`uplink-${n}`, { payload: { $case: 'json', value: { position: n } } });
      for (let n = from; n < to; n += 1) await gateway.next('uplinkAck');
    };
    await send(0, 10);
    take((await next).value);
    site.proxy.loseAnswers();
    await send(10, 20);
    site.proxy.cut();
    await send(20, 30);
    for await (const item of received.length < sent.length ? watch : []) {
      take(item);
      if (received.length >= sent.length) break;
    }
    expect(received).toEqual(sent);
    gateway.end();
    await gateway.ended;
  });

  it('connections: changes during an interruption, and deletions', async () => {
    const [permanentId, deletedId, changedId] = [
      await createConnection('Stays'),
      await createConnection('Goes'),
      await createConnection('Changes'),
    ];
    const namesById = new Map(
      [permanentId, deletedId, changedId].map((id, at) => [id, ['stays', 'goes', 'changes'][at]]),
    );
    const received: string[] = [];
    for await (const { connectionId, deleted, complete } of watchConnectionStatus(site.shaky, {}, FAST)) {
      const name = namesById.get(connectionId);
      if (complete) {
        received.push('complete');
        site.proxy.cut();
        await site.client.connections.deleteConnection({ id: deletedId });
        await site.client.connections.updateConnection({ id: changedId, enabled: true });
      } else if (name) received.push(deleted ? `${name} is deleted` : name);
      if (received.length >= 6) break;
    }
    expect(received.slice(0, 3).toSorted()).toEqual(['changes', 'goes', 'stays']);
    expect(received[3]).toBe('complete');
    expect(received.slice(4).toSorted()).toEqual(['changes', 'goes is deleted']);
    for (const id of [permanentId, changedId]) await site.client.connections.deleteConnection({ id });
  });

  it('connections: ends when all given connections are deleted', async () => {
    const id = await createConnection('Short');
    const received: boolean[] = [];
    for await (const { deleted, complete } of watchConnectionStatus(site.client, { ids: [id] })) {
      received.push(deleted);
      if (complete) await site.client.connections.deleteConnection({ id });
    }
    expect(received).toEqual([false, false, true]);
  });

  it('one execution: followed to its end, regardless of interruptions', async () => {
    const gateway = await site.attach();
    const { executionId } = await site.client.commands.executeCommand({
      id: site.deviceId,
      commandId: site.commandId,
      params: { n: 20 },
    });
    const states: ExecutionState[] = [];
    for await (const execution of watchExecution(site.shaky, executionId, FAST)) {
      if (states.length === 0) {
        await site.carryOut(gateway);
        site.proxy.cut();
      }
      states.push(execution.state);
      expect([execution.id, execution.events]).toEqual([executionId, []]);
      expect(isFinal(execution)).toBe(execution.finishedAt !== undefined);
    }
    expect(states.at(-1)).toBe(ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4);
    expect(states).toEqual(states.toSorted((one, other) => one - other));
    expect(await waitForExecution(site.client, executionId, { timeoutMs: 10_000 })).toMatchObject({
      id: executionId,
      state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4,
    });
    gateway.end();
    await gateway.ended;
  });

  it('execute and wait: until the end, a rejection, or the timeout', async () => {
    const gateway = await site.attach();
    const { deviceId: id, commandId, shaky } = site;
    const done = executeAndWait(shaky, { id, commandId, params: { n: 30 } }, { ...FAST, timeoutMs: 20_000 });
    await site.carryOut(gateway);
    await expect(done).resolves.toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
    await expect(
      executeAndWait(shaky, { id, commandId, params: { m: 1 } }, { timeoutMs: 20_000 }),
    ).resolves.toMatchObject({ state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED });
    gateway.end();
    await gateway.ended;
    // None of these streams was cancelled.
    const watches = (): unknown[] =>
      site.server.log
        .of('rpc.request')
        .filter(({ method }) => String(method).endsWith('WatchExecutions'))
        .slice(-2)
        .map(({ code }) => code);
    expect(watches()).toEqual(['OK', 'OK']);
    const timedOut = executeAndWait(shaky, { id, commandId, params: { n: 31 } }, { timeoutMs: 500 });
    await expect(timedOut).rejects.toMatchObject({
      status: 'DEADLINE_EXCEEDED',
      metadata: { execution_id: expect.any(String) },
      message: expect.stringContaining('EXECUTION_STATE_ENQUEUED'),
    });
    const cancelled = new AbortController();
    const aborted = executeAndWait(
      shaky,
      { id, commandId, params: { n: 32 } },
      { timeoutMs: 20_000, signal: cancelled.signal },
    );
    cancelled.abort();
    await expect(aborted).rejects.toMatchObject({ status: 'CANCELLED' });
  });

  it('permanent errors are thrown with advice', async () => {
    const id = '00000000-0000-7000-8000-000000000000';
    await expect(readFirst(watchExecutions(site.client, { id }))).rejects.toMatchObject({
      status: 'NOT_FOUND',
      reason: 'device_not_found',
    });
    await expect(readFirst(watchExecution(site.client, id))).rejects.toMatchObject({ reason: 'execution_not_found' });
    await expect(readFirst(streamReadings(site.client, { resumeToken: 'of somebody else' }))).rejects.toMatchObject({
      reason: 'validation_failed',
      violations: [{ field: 'resumeToken' }],
    });
    await expect(readFirst(watchConnectionStatus(site.client, { ids: [id] }))).rejects.toMatchObject({
      reason: 'connection_not_found',
    });
  });
});
