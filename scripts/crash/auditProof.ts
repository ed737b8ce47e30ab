import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { AuditOutcome } from '../../src/gen/organization_access_control/access_control_service';
import { compareTrail, type TrailFaults } from './auditCompare';
import { readEvents, readKept } from './auditState';
import { AuditWriter, type Story } from './auditWriters';
import { answer } from './clients';
import type { Outcome } from './settle';
import { errorLines } from './serverLog';
import type { Running, Site } from './site';

const WRITERS = 32;
/** Answers after which all are at work. */
const BUSY = WRITERS * 3;
const LOOK_EVERY_MS = 20;
const MOST_LOOKS = 500;
const MAIN = join(__dirname, 'main.js');

/**
 * Changes of every kind over gRPC and HTTP, without a pause; the server is killed at any moment, in every second round at a line of its
 * log. Then every change that was answered has its event, no event says more than what is there, and the chains are whole.
 */
export async function proveAudit(site: Site, rounds: number): Promise<Outcome> {
  let running = await site.startSafely();
  const connection = CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name: 'Nobody is there', policy: { queueLimit: 1000, sleepy: true } });
  const { id: connectionId } = await answer<{ id: string }>((answered) => running.clients.connections.createConnection(connection, running.clients.metadata, answered));
  const faults: TrailFaults = { lost: [], doubled: [], wrong: [] };
  const sums = { acknowledged: 0, succeeded: 0, unknown: 0 };
  for (let round = 1; round <= rounds && faults.lost.length === 0; round += 1) {
    const from = Date.now();
    const stories = await workUntilKilled(running, connectionId, round);
    running.clients.close();
    running = await site.startSafely();
    const events = await readEvents(running.clients, from);
    const found = compareTrail(stories, events, await readKept(running.clients, new Set(stories.flatMap(([first]) => first?.requestId ?? []))));
    for (const kind of ['lost', 'doubled', 'wrong'] as const) faults[kind].push(...found[kind]);
    faults.wrong.push(...(await verify(site)));
    sums.acknowledged += stories.flat().filter(({ reply }) => reply.kind !== 'gone').length;
    const outcomes = [...events.values()].flat().map(({ outcome }) => outcome);
    sums.succeeded += outcomes.filter((outcome) => outcome === AuditOutcome.AUDIT_OUTCOME_SUCCEEDED).length;
    sums.unknown += outcomes.filter((outcome) => outcome === AuditOutcome.AUDIT_OUTCOME_UNKNOWN).length;
  }
  running.clients.close();
  await running.victim.kill();
  const name = `audit: any moment, ${WRITERS} who change (${sums.unknown} unknown)`;
  const counts = { kills: rounds, missed: 0, acknowledged: sums.acknowledged, carriedOut: sums.succeeded, converged: 0, unconfirmed: sums.unknown, uplinks: 0 };
  return { name, ...counts, ...faults, errors: errorLines(site.folder), folder: site.folder };
}

async function workUntilKilled(running: Running, connectionId: string, round: number): Promise<Story[]> {
  const stories: Story[] = [];
  const work = { answered: 0 };
  const writing = Promise.all(Array.from({ length: WRITERS }, async () => await new AuditWriter(running, connectionId, stories, () => (work.answered += 1)).work()));
  const { victim } = running;
  for (let look = 0; work.answered < BUSY && look < MOST_LOOKS; look += 1) await wait(LOOK_EVERY_MS);
  // A call has ended, and its event is to be sealed within the next turns.
  if (round % 2 === 0) victim.arm({ event: 'rpc.call', nth: 1 + randomInt(300), turns: randomInt(60) });
  await Promise.race([victim.ended, wait(round % 2 === 0 ? 5000 : randomInt(900))]);
  await victim.kill();
  await writing;
  return stories;
}

/** What `plantroom audit verify` finds beside the running server. */
async function verify({ folder, databaseUrl }: Site): Promise<string[]> {
  const env = { ...process.env, PLANTROOM_DATA_DIR: join(folder, 'data'), ...(databaseUrl !== '' && { PLANTROOM_DATABASE_URL: databaseUrl }) };
  return await new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'audit', 'verify', '--json'], { env }, (error, said, complained) => resolve(error ? [`audit verify: ${said}${complained}`] : []));
  });
}
