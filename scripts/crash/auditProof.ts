import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { AuditOutcome } from '../../src/gen/organization_access_control/access_control_service';
import { compareTrail, type TrailFindings } from './auditCompare';
import { readEvents, readStoredState } from './auditState';
import { AuditWriter, type CallSequence } from './auditWriters';
import { callUnary } from './clients';
import type { Outcome } from './outcome';
import { readErrorLines } from './serverLog';
import type { Running, Site } from './site';

const WRITERS = 32;
/** The number of responses after which all writers are busy. */
const MIN_RESPONSES = WRITERS * 3;
const POLL_INTERVAL_MS = 20;
const MAX_POLLS = 500;
const MAIN = join(__dirname, 'main.js');

/**
 * Makes changes of every kind over gRPC and HTTP without a pause, and kills the server at a random moment, in every second
 * round at a line of its log. Afterwards every change with a response must have its audit event, no event may claim
 * more than what is stored, and the hash chains must be valid.
 */
export async function proveAudit(site: Site, rounds: number): Promise<Outcome> {
  let running = await site.startWithoutTrap();
  const connection = CreateConnectionRequest.fromPartial({
    connectorId: 'gateway',
    name: 'No gateway',
    policy: { queueLimit: 1000, sleepy: true },
  });
  const { id: connectionId } = await callUnary<{ id: string }>((callback) =>
    running.clients.connections.createConnection(connection, running.clients.metadata, callback),
  );
  const findings: TrailFindings = { lost: [], doubled: [], wrong: [] };
  const sums = { acknowledged: 0, succeeded: 0, unknown: 0 };
  for (let round = 1; round <= rounds && findings.lost.length === 0; round += 1) {
    const from = Date.now();
    const sequences = await workUntilKilled(running, connectionId, round);
    running.clients.close();
    running = await site.startWithoutTrap();
    const events = await readEvents(running.clients, from);
    const found = compareTrail(
      sequences,
      events,
      await readStoredState(running.clients, new Set(sequences.flatMap(([first]) => first?.requestId ?? []))),
    );
    for (const kind of ['lost', 'doubled', 'wrong'] as const) findings[kind].push(...found[kind]);
    findings.wrong.push(...(await verifyTrail(site)));
    sums.acknowledged += sequences.flat().filter(({ reply }) => reply.kind !== 'gone').length;
    const outcomes = [...events.values()].flat().map(({ outcome }) => outcome);
    sums.succeeded += outcomes.filter((outcome) => outcome === AuditOutcome.AUDIT_OUTCOME_SUCCEEDED).length;
    sums.unknown += outcomes.filter((outcome) => outcome === AuditOutcome.AUDIT_OUTCOME_UNKNOWN).length;
  }
  running.clients.close();
  await running.victim.kill();
  const name = `audit: any moment, ${WRITERS} writers (${sums.unknown} unknown)`;
  const counts = {
    kills: rounds,
    missed: 0,
    acknowledged: sums.acknowledged,
    carriedOut: sums.succeeded,
    converged: 0,
    unconfirmed: sums.unknown,
    uplinks: 0,
  };
  return { name, ...counts, ...findings, errors: readErrorLines(site.folder), folder: site.folder };
}

async function workUntilKilled(running: Running, connectionId: string, round: number): Promise<CallSequence[]> {
  const sequences: CallSequence[] = [];
  const progress = { responses: 0 };
  const writing = Promise.all(
    Array.from(
      { length: WRITERS },
      async () => await new AuditWriter(running, connectionId, sequences, () => (progress.responses += 1)).work(),
    ),
  );
  const { victim } = running;
  for (let poll = 0; progress.responses < MIN_RESPONSES && poll < MAX_POLLS; poll += 1) await wait(POLL_INTERVAL_MS);
  // A call has ended; its audit event is sealed within the next turns of the event loop.
  if (round % 2 === 0) victim.arm({ event: 'rpc.request', nth: 1 + randomInt(300), turns: randomInt(60) });
  await Promise.race([victim.ended, wait(round % 2 === 0 ? 5000 : randomInt(900))]);
  await victim.kill();
  await writing;
  return sequences;
}

/** Runs `plantroom audit verify` while the server is running. Returns its output if it fails. */
async function verifyTrail({ folder, databaseUrl }: Site): Promise<string[]> {
  const env = {
    ...process.env,
    PLANTROOM_DATA_DIR: join(folder, 'data'),
    ...(databaseUrl !== '' && { PLANTROOM_DATABASE_URL: databaseUrl }),
  };
  return await new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'audit', 'verify', '--json'], { env }, (error, stdout, stderr) =>
      resolve(error ? [`audit verify: ${stdout}${stderr}`] : []),
    );
  });
}
