import { executeAndSettle, followExecution, isFinal, settled, streamReadings, watchConnectionStatus, watchExecutions, type ExecutionNews } from '../../../src/client';
import { ExecutionState } from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import type { StreamReadingsResponse } from '../../../src/client/gen/sensorquery/v1/sensor_query_service';
import { startStreamSite, type StreamSite } from './streamSite';

const FAST = { firstPauseMs: 5, longestPauseMs: 20 };

const nameOf = ({ execution, event }: ExecutionNews): string => `${execution.id} ${event.sequence}`;
const first = async (stream: AsyncIterableIterator<unknown>): Promise<unknown> => await stream.next();
/** A place for the newest token, and when the first one is there. */
class Kept {
  token = '';
  readonly begun: Promise<void>;
  private begin = (): void => {};

  constructor() {
    this.begun = new Promise((resolve) => (this.begin = resolve));
  }

  readonly onResumeToken = (token: string): void => {
    this.token = token;
    this.begin();
  };
}

describe('streams of plantroom-client over a link that breaks', () => {
  let site: StreamSite;
  beforeAll(async () => {
    site = await startStreamSite();
  });
  afterAll(async () => await site.stop());

  /** An execution that begins and ends; its id. */
  const executeAndCancel = async (n: number): Promise<string> => {
    const { executionId } = await site.client.commands.executeCommand({ id: site.deviceId, commandId: site.commandId, params: { n } });
    await site.client.commands.cancelExecution({ executionId });
    return executionId;
  };
  /** Another connection; its id. */
  const make = async (name: string): Promise<string> => (await site.client.connections.createConnection({ connectorId: 'gateway', name, enabled: false })).id;
  /** The names of all events of these executions, in the order in which they were stored. */
  const eventsOf = async (ids: readonly string[]): Promise<string[]> => {
    const names: string[] = [];
    for (const executionId of ids) {
      const { events } = await site.client.commands.getExecution({ executionId });
      names.push(...events.map(({ sequence }) => `${executionId} ${sequence}`));
    }
    return names;
  };

  it('executions: every event once and in order', async () => {
    const told: string[] = [];
    const ids: string[] = [];
    const losses: string[] = [];
    const { begun, onResumeToken } = new Kept();
    const watch = watchExecutions(site.shaky, { id: site.deviceId }, { ...FAST, onLost: ({ status }) => losses.push(status), onResumeToken });
    const next = watch.next();
    await begun;
    for (let n = 0; n < 3; n += 1) ids.push(await executeAndCancel(n));
    told.push(nameOf((await next).value));
    site.proxy.loseAnswers();
    for (let n = 3; n < 6; n += 1) ids.push(await executeAndCancel(n));
    site.proxy.cut();
    for await (const news of watch) {
      told.push(nameOf(news));
      if (told.length === ids.length * 2 && ids.length === 12) break;
      if (told.length < ids.length * 2) continue;
      site.proxy.cut();
      ids.push(await executeAndCancel(ids.length));
    }
    expect(told).toEqual(await eventsOf(ids));
    expect(losses).toHaveLength(7);
    expect(new Set(losses)).toEqual(new Set(['UNAVAILABLE']));
  });

  it('executions: what came while the program was away comes from the token that it kept', async () => {
    const kept = new Kept();
    const watch = watchExecutions(site.client, {}, { onResumeToken: async (token) => await Promise.resolve(kept.onResumeToken(token)) });
    const next = watch.next();
    await kept.begun;
    const begun = kept.token;
    const id = await executeAndCancel(10);
    const { value } = (await next) as { value: ExecutionNews };
    // It is not handled before the next one is asked for.
    expect([value.event.sequence, kept.token]).toEqual([1, begun]);
    const second = await watch.next();
    const handled = kept.token;
    expect(handled).toBe(value.resumeToken);
    await watch.return?.();
    const again: string[] = [];
    for await (const news of watchExecutions(site.client, { resumeToken: handled })) {
      again.push(nameOf(news));
      break;
    }
    expect(again).toEqual([nameOf(second.value)]);
    expect(again).toEqual([`${id} 2`]);
  });

  it('readings: each once, those of a sensor in order', async () => {
    const gateway = await site.attach();
    const sent = Array.from({ length: 30 }, (_, n) => n);
    const told: number[] = [];
    const { begun, onResumeToken } = new Kept();
    const watch = streamReadings(site.shaky, { deviceIds: [site.deviceId] }, { ...FAST, onResumeToken });
    const next = watch.next();
    await begun;
    const take = ({ readings }: StreamReadingsResponse): void => void told.push(...readings.map(({ value }) => (value?.$case === 'number' ? value.value : Number.NaN)));
    const send = async (from: number, to: number): Promise<void> => {
      for (const n of sent.slice(from, to)) gateway.uplink(`uplink-${n}`, { payload: { $case: 'json', value: { position: n } } });
      for (let n = from; n < to; n += 1) await gateway.next('uplinkAck');
    };
    await send(0, 10);
    take((await next).value);
    site.proxy.loseAnswers();
    await send(10, 20);
    site.proxy.cut();
    await send(20, 30);
    for await (const item of told.length < sent.length ? watch : []) {
      take(item);
      if (told.length >= sent.length) break;
    }
    expect(told).toEqual(sent);
    gateway.end();
    await gateway.ended;
  });

  it('connections: what changed while the link was lost, and what is gone', async () => {
    const [stays, goes, changes] = [await make('Stays'), await make('Goes'), await make('Changes')];
    const named = new Map([stays, goes, changes].map((id, at) => [id, ['stays', 'goes', 'changes'][at]]));
    const told: string[] = [];
    for await (const { connectionId, deleted, complete } of watchConnectionStatus(site.shaky, {}, FAST)) {
      const name = named.get(connectionId);
      if (complete) {
        told.push('complete');
        site.proxy.cut();
        await site.client.connections.deleteConnection({ id: goes });
        await site.client.connections.updateConnection({ id: changes, enabled: true });
      } else if (name) told.push(deleted ? `${name} is deleted` : name);
      if (told.length >= 6) break;
    }
    expect(told.slice(0, 3).toSorted()).toEqual(['changes', 'goes', 'stays']);
    expect(told[3]).toBe('complete');
    expect(told.slice(4).toSorted()).toEqual(['changes', 'goes is deleted']);
    for (const id of [stays, changes]) await site.client.connections.deleteConnection({ id });
  });

  it('connections: ends when all that were named are deleted', async () => {
    const id = await make('Short');
    const told: boolean[] = [];
    for await (const { deleted, complete } of watchConnectionStatus(site.client, { ids: [id] })) {
      told.push(deleted);
      if (complete) await site.client.connections.deleteConnection({ id });
    }
    expect(told).toEqual([false, false, true]);
  });

  it('one execution: followed to its end, whatever happens to the link', async () => {
    const gateway = await site.attach();
    const { executionId } = await site.client.commands.executeCommand({ id: site.deviceId, commandId: site.commandId, params: { n: 20 } });
    const states: ExecutionState[] = [];
    for await (const execution of followExecution(site.shaky, executionId, FAST)) {
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
    expect(await settled(site.client, executionId, { timeoutMs: 10_000 })).toMatchObject({ id: executionId, state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
    gateway.end();
    await gateway.ended;
  });

  it('execute and wait: for the end, a refusal, or the end of the time', async () => {
    const gateway = await site.attach();
    const { deviceId: id, commandId, shaky } = site;
    const done = executeAndSettle(shaky, { id, commandId, params: { n: 30 } }, { ...FAST, timeoutMs: 20_000 });
    await site.carryOut(gateway);
    await expect(done).resolves.toMatchObject({ state: ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4 });
    await expect(executeAndSettle(shaky, { id, commandId, params: { m: 1 } }, { timeoutMs: 20_000 })).resolves.toMatchObject({ state: ExecutionState.EXECUTION_STATE_REQUEST_REJECTED });
    gateway.end();
    await gateway.ended;
    // None of these streams was cut off.
    const watches = (): unknown[] => site.server.log.of('rpc.call').filter(({ method }) => String(method).endsWith('WatchExecutions')).slice(-2).map(({ code }) => code);
    expect(watches()).toEqual(['OK', 'OK']);
    const late = executeAndSettle(shaky, { id, commandId, params: { n: 31 } }, { timeoutMs: 500 });
    await expect(late).rejects.toMatchObject({ status: 'DEADLINE_EXCEEDED', metadata: { execution_id: expect.any(String) }, message: expect.stringContaining('EXECUTION_STATE_ENQUEUED') });
    const gone = new AbortController();
    const left = executeAndSettle(shaky, { id, commandId, params: { n: 32 } }, { timeoutMs: 20_000, signal: gone.signal });
    gone.abort();
    await expect(left).rejects.toMatchObject({ status: 'CANCELLED' });
  });

  it('what another attempt cannot mend is thrown, with what to do', async () => {
    const id = '00000000-0000-7000-8000-000000000000';
    await expect(first(watchExecutions(site.client, { id }))).rejects.toMatchObject({ status: 'NOT_FOUND', reason: 'device_not_found' });
    await expect(first(followExecution(site.client, id))).rejects.toMatchObject({ reason: 'execution_not_found' });
    await expect(first(streamReadings(site.client, { resumeToken: 'of somebody else' }))).rejects.toMatchObject({ reason: 'validation_failed', violations: [{ field: 'resumeToken' }] });
    await expect(first(watchConnectionStatus(site.client, { ids: [id] }))).rejects.toMatchObject({ reason: 'connection_not_found' });
  });
});
