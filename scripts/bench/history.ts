import { runExecutions, type RunResult } from './executionRun';
import { createCounter } from './executions';
import { printRow, print, isShort, turnMs } from './measure';
import { createHistory, type History } from './historyData';
import { PlantroomServer } from './plantroomServer';
import { createSite, type Site } from './site';

const SMALL: History = { devices: 100, finished: isShort ? 1000 : 10_000 };
const LONG: History = { devices: 100, finished: isShort ? 10_000 : 1_000_000 };
const WIDE: History = { devices: isShort ? 2000 : 100_000, finished: isShort ? 1000 : 10_000 };
const rounds = isShort ? 2 : 7;
const milliseconds = isShort ? 600 : 3000;
const CONCURRENCY = 100;

/**
 * Measures whether an execution costs more with many finished executions or many devices, alternating. Each case has its
 * own server and database.
 */
export async function benchHistory(): Promise<void> {
  print('\nexecutions end to end, with a long history and many devices: SQLite, TLS on (goal: no growth)');
  const sites: Site[] = [];
  try {
    for (const past of [SMALL, LONG, WIDE]) sites.push(await createSiteWithHistory(past));
    const turns = sites.map(() => [] as RunResult[]);
    const position = createCounter();
    for (let round = 0; round <= rounds; round += 1) {
      for (const [at, site] of sites.entries()) {
        const result = await runExecutions(site, {
          milliseconds: round === 0 ? turnMs : milliseconds,
          concurrency: CONCURRENCY,
          position,
        });
        if (round > 0) turns[at]?.push(result); // the first warms up
      }
    }
    const printResult = ({ devices, finished }: History, at: number): Costs =>
      printRow(`${devices} devices, ${finished} ended`, turns[at] ?? []);
    const [small, long, wide] = [printResult(SMALL, 0), printResult(LONG, 1), printResult(WIDE, 2)];
    for (const [name, one] of [
      ['long history', long],
      ['many devices', wide],
    ] as const) {
      print(
        `  -> ${name}: ${(one.cpu / small.cpu).toFixed(2)} times the CPU time, ${(small.perSecond / one.perSecond).toFixed(2)} times the time, p50 ${(one.p50 / small.p50).toFixed(2)}, p99 ${(one.p99 / small.p99).toFixed(2)}`,
      );
    }
  } finally {
    await Promise.all(sites.map(async (site) => await site.server.remove()));
  }
}

type Costs = Pick<RunResult, 'cpu' | 'perSecond' | 'p50' | 'p99'>;

/** Creates a history and restarts the server on its database. */
async function createSiteWithHistory(past: History): Promise<Site> {
  const first = await PlantroomServer.start();
  const site = await createSite(first, first.key, 1);
  await runExecutions(site, { milliseconds: 1, concurrency: 1, position: () => 0 });
  await first.process.stop();
  const valves = await createHistory(site, past);
  return { ...site, valves, server: await PlantroomServer.start({}, { folder: first.folder }) };
}
