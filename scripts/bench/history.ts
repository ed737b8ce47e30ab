import { runExecutions, type RunResult } from './executionRun';
import { positions } from './executions';
import { row, say, short, turnMs } from './measure';
import { makePast, type Past } from './past';
import { PlantroomServer } from './plantroomServer';
import { makeSite, type Site } from './site';

const SMALL: Past = { devices: 100, finished: short ? 1000 : 10_000 };
const LONG: Past = { devices: 100, finished: short ? 10_000 : 1_000_000 };
const WIDE: Past = { devices: short ? 2000 : 100_000, finished: short ? 1000 : 10_000 };
const rounds = short ? 2 : 7;
const milliseconds = short ? 600 : 3000;
const CONCURRENCY = 100;

/** Whether an execution costs more where many have ended, or where there are many devices. Each in a database and a server of its own, in turns. */
export async function benchHistory(): Promise<void> {
  say('\nexecutions end to end, with a past and among many devices: SQLite, TLS on (goal: it does not grow)');
  const sites: Site[] = [];
  try {
    for (const past of [SMALL, LONG, WIDE]) sites.push(await siteWith(past));
    const turns = sites.map(() => [] as RunResult[]);
    const position = positions();
    for (let round = 0; round <= rounds; round += 1) {
      for (const [at, site] of sites.entries()) {
        const result = await runExecutions(site, { milliseconds: round === 0 ? turnMs : milliseconds, concurrency: CONCURRENCY, position });
        if (round > 0) turns[at]?.push(result); // the first warms up
      }
    }
    const shown = ({ devices, finished }: Past, at: number): Costs => row(`${devices} devices, ${finished} ended`, turns[at] ?? []);
    const [small, long, wide] = [shown(SMALL, 0), shown(LONG, 1), shown(WIDE, 2)];
    for (const [name, one] of [['long past', long], ['many devices', wide]] as const) {
      say(`  -> ${name}: ${(one.cpu / small.cpu).toFixed(2)} times the CPU time, ${(small.perSecond / one.perSecond).toFixed(2)} times the time, p50 ${(one.p50 / small.p50).toFixed(2)}, p99 ${(one.p99 / small.p99).toFixed(2)}`);
    }
  } finally {
    await Promise.all(sites.map(async (site) => await site.server.remove()));
  }
}

type Costs = Pick<RunResult, 'cpu' | 'perSecond' | 'p50' | 'p99'>;

/** A server that was started anew on a database with this past. */
async function siteWith(past: Past): Promise<Site> {
  const first = await PlantroomServer.start();
  const site = await makeSite(first, first.key, 1);
  await runExecutions(site, { milliseconds: 1, concurrency: 1, position: () => 0 });
  await first.process.stop();
  const valves = await makePast(site, past);
  return { ...site, valves, server: await PlantroomServer.start({}, { folder: first.folder }) };
}
