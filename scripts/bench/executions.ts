import { runExecutions } from './executionRun';
import { measureSteps } from './executionSteps';
import { argument, median, row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { makeSite, type Site } from './site';

const VALVES = 100;
const STEP_VALVES = short ? 200 : 1000;
const rounds = short ? 2 : 7;
const milliseconds = short ? 800 : 4000;
const concurrencies = short ? [VALVES] : [1, VALVES, 2 * VALVES];

/** Executions from the call to their end, on both engines: how many a second, and what each step costs. */
export async function benchExecutions(): Promise<void> {
  say(`\nexecutions end to end: execute, dispatch, received, accepted, acknowledged; ${VALVES} devices on one gateway, TLS on, every step on disk (goal: 1000/s)`);
  const engine = argument('--engine') ?? 'both';
  if (engine !== 'PostgreSQL') await onEngine('SQLite', await PlantroomServer.start());
  if (engine !== 'SQLite') await onPostgres();
}

async function onPostgres(): Promise<void> {
  const postgres = await startPostgres();
  if (!postgres) return say('  PostgreSQL: the package with its program is not installed; left out');
  try {
    await onEngine('PostgreSQL', await PlantroomServer.start({ PLANTROOM_DATABASE_URL: postgres.url }));
  } finally {
    await postgres.stop();
  }
}

async function onEngine(engine: string, server: PlantroomServer): Promise<void> {
  try {
    const site = await makeSite(server, server.key, VALVES);
    const counter = positions();
    await runExecutions(site, { milliseconds: 1000, concurrency: VALVES, position: counter });
    for (const concurrency of concurrencies) await endToEnd(`${engine}, ${concurrency} at once`, site, concurrency, counter);
    await measureSteps(engine, await makeSite(server, server.key, STEP_VALVES), short ? 1 : 3);
  } finally {
    await server.remove();
  }
}

async function endToEnd(name: string, site: Site, concurrency: number, position: () => number): Promise<void> {
  const turns = [];
  for (let round = 0; round < rounds; round += 1) turns.push(await runExecutions(site, { milliseconds, concurrency, position }));
  row(name, turns);
  say(`  -> the server computed ${(median(turns.map(({ busy }) => busy)) * 100).toFixed(0)} % of the time`);
}

/** Counts. */
export function positions(): () => number {
  let last = 0;
  return () => (last += 1);
}
