import { setTimeout as wait } from 'node:timers/promises';
import { UpdateConnectionRequest } from '../../src/gen/connection/connection_service';
import { callMethod } from './fleet';
import { Gateway } from './gateway';
import { median, print } from './measure';
import { openExecutor, type Site } from './site';

/**
 * Measures one execution per valve in separate steps, which the gateway delays, and prints CPU time and elapsed time
 * per execution.
 */
export async function measureSteps(engine: string, site: Site, rounds: number): Promise<void> {
  await raiseInFlightLimit(site);
  const rows = new Map<string, { cpu: number[]; elapsed: number[] }>();
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, cpu, elapsed] of await runRound(site, round)) {
      const row = rows.get(name) ?? { cpu: [], elapsed: [] };
      rows.set(name, row);
      if (round > 0) row.cpu.push(cpu); // the first round warms up
      if (round > 0) row.elapsed.push(elapsed);
    }
  }
  for (const [name, { cpu, elapsed }] of rows) {
    print(
      `     ${engine}: ${name.padEnd(52)}${median(cpu).toFixed(0).padStart(6)} us CPU  ${median(elapsed).toFixed(0).padStart(6)} us elapsed, each`,
    );
  }
}

async function runRound(site: Site, round: number): Promise<[string, number, number][]> {
  const { valves, server } = site;
  const steps: [string, number, number][] = [];
  const step = async (name: string, work: () => Promise<number>): Promise<void> => {
    const before = server.process.cpuMilliseconds();
    const started = performance.now();
    const ended = await work();
    const cpu = server.process.cpuMilliseconds() - before;
    steps.push([name, (cpu * 1000) / valves.length, ((ended - started) * 1000) / valves.length]);
  };
  await step('execute: call, row and event stored', async () => await executeAll(site, round));
  const receivedIds: string[] = [];
  const acknowledged: string[] = [];
  let gateway: Gateway | undefined;
  await step('dispatch: intent stored, message sent', async () => {
    const hooks = {
      command: ({ executionId }: { executionId: string }) => void receivedIds.push(executionId),
      acknowledged: (executionId: string) => void acknowledged.push(executionId),
    };
    gateway = await Gateway.attach(server, site.key, site.connectionId, hooks);
    return await waitUntil(() => receivedIds.length === valves.length);
  });
  await step('received: delivered', async () => {
    for (const executionId of receivedIds) gateway?.confirmCommand(executionId);
    return await waitUntilIdle(server.process);
  });
  await step('result: accepted_no_l4, acknowledged', async () => {
    for (const executionId of receivedIds) gateway?.acceptCommand(executionId);
    return await waitUntil(() => acknowledged.length === valves.length);
  });
  await gateway?.detach();
  return steps;
}

async function executeAll(site: Site, position: number): Promise<number> {
  const executors = await Promise.all([openExecutor(site), openExecutor(site)]);
  let next = 0;
  const caller = async (_: unknown, at: number): Promise<void> => {
    for (let valve = site.valves[next++]; valve; valve = site.valves[next++])
      await (executors[at % 2] as (typeof executors)[0]).execute(valve, position);
  };
  await Promise.all(Array.from({ length: 100 }, caller));
  for (const executor of executors) executor.close();
  return performance.now();
}

/** Allows all executions in flight, so that the steps can be measured separately. */
async function raiseInFlightLimit({ server, key, connectionId }: Site): Promise<void> {
  const request = UpdateConnectionRequest.fromPartial({ id: connectionId, policy: { maxInFlight: 1000 } });
  await callMethod(
    server,
    key,
    '/connection.ConnectionService/UpdateConnection',
    UpdateConnectionRequest.encode(request).finish(),
  );
}

async function waitUntil(isDone: () => boolean): Promise<number> {
  while (!isDone()) await wait(1);
  return performance.now();
}

/** Waits until the server is idle, and returns since when. */
async function waitUntilIdle(server: { cpuMilliseconds(): number }): Promise<number> {
  let since = performance.now();
  for (let last = server.cpuMilliseconds(); performance.now() - since < 300; await wait(5)) {
    const now = server.cpuMilliseconds();
    if (now > last) since = performance.now();
    last = now;
  }
  return since;
}
