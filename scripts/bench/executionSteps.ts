import { setTimeout as wait } from 'node:timers/promises';
import { UpdateConnectionRequest } from '../../src/gen/connection/connection_service';
import { ask } from './fleet';
import { Gateway } from './gateway';
import { median, say } from './measure';
import { openExecutor, type Site } from './site';

/** One execution of every valve at a time, step by step: the gateway says nothing until it is told to. Prints the server's CPU time and the time of each. */
export async function measureSteps(engine: string, site: Site, rounds: number): Promise<void> {
  await letAllInFlight(site);
  const rows = new Map<string, { cpu: number[]; elapsed: number[] }>();
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, cpu, elapsed] of await oneRound(site, round)) {
      const row = rows.get(name) ?? { cpu: [], elapsed: [] };
      rows.set(name, row);
      if (round > 0) row.cpu.push(cpu); // the first warms up
      if (round > 0) row.elapsed.push(elapsed);
    }
  }
  for (const [name, { cpu, elapsed }] of rows) {
    say(`     ${engine}: ${name.padEnd(52)}${median(cpu).toFixed(0).padStart(6)} us of CPU  ${median(elapsed).toFixed(0).padStart(6)} us of time, each`);
  }
}

async function oneRound(site: Site, round: number): Promise<[string, number, number][]> {
  const { valves, server } = site;
  const steps: [string, number, number][] = [];
  const step = async (name: string, work: () => Promise<number>): Promise<void> => {
    const before = server.process.cpuMilliseconds();
    const started = performance.now();
    const ended = await work();
    const cpu = server.process.cpuMilliseconds() - before;
    steps.push([name, (cpu * 1000) / valves.length, ((ended - started) * 1000) / valves.length]);
  };
  await step('execute: the call, and the row with its event', async () => await executeAll(site, round));
  const taken: string[] = [];
  const acknowledged: string[] = [];
  let gateway: Gateway | undefined;
  await step('dispatch: the intent on disk, then the message', async () => {
    const hooks = { command: ({ executionId }: { executionId: string }) => void taken.push(executionId), acknowledged: (executionId: string) => void acknowledged.push(executionId) };
    gateway = await Gateway.attach(server, site.key, site.connectionId, hooks);
    return await until(() => taken.length === valves.length);
  });
  await step('received: delivered', async () => {
    for (const executionId of taken) gateway?.received(executionId);
    return await quiet(server.process);
  });
  await step('result: accepted_no_l4, then the acknowledgement', async () => {
    for (const executionId of taken) gateway?.accepted(executionId);
    return await until(() => acknowledged.length === valves.length);
  });
  await gateway?.detach();
  return steps;
}

async function executeAll(site: Site, position: number): Promise<number> {
  const executors = await Promise.all([openExecutor(site), openExecutor(site)]);
  let next = 0;
  const caller = async (_: unknown, at: number): Promise<void> => {
    for (let valve = site.valves[next++]; valve; valve = site.valves[next++]) await (executors[at % 2] as (typeof executors)[0]).execute(valve, position);
  };
  await Promise.all(Array.from({ length: 100 }, caller));
  for (const executor of executors) executor.close();
  return performance.now();
}

/** So that one step of all executions can be told from the next. */
async function letAllInFlight({ server, key, connectionId }: Site): Promise<void> {
  const request = UpdateConnectionRequest.fromPartial({ id: connectionId, policy: { maxInFlight: 1000 } });
  await ask(server, key, '/connection.ConnectionService/UpdateConnection', UpdateConnectionRequest.encode(request).finish());
}

async function until(isDone: () => boolean): Promise<number> {
  while (!isDone()) await wait(1);
  return performance.now();
}

/** Resolves to the time since which the server has been doing nothing. */
async function quiet(server: { cpuMilliseconds(): number }): Promise<number> {
  let since = performance.now();
  for (let last = server.cpuMilliseconds(); performance.now() - since < 300; await wait(5)) {
    const now = server.cpuMilliseconds();
    if (now > last) since = performance.now();
    last = now;
  }
  return since;
}
