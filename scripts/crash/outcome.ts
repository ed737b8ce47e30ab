import { setTimeout as wait } from 'node:timers/promises';
import type { Execution } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type ExecutionFindings, compareExecutions, isFinal, isOpen, readExecutions } from './executionFindings';
import type { Proof } from './proof';
import { readErrorLines } from './serverLog';

const MAX_IDLE_MS = 20_000;
const MAX_RESPONSE_MS = 60_000;
// Longer than the server needs to notice that its clock was moved.
const POLL_INTERVAL_MS = 300;
const BACKOFF_MS = 70_000;
const EVERY_DEADLINE_MS = 8 * 86_400_000;

type Executions = Awaited<ReturnType<typeof readExecutions>>;

/** The result of one row of the proof. */
export interface Outcome extends ExecutionFindings {
  readonly name: string;
  readonly kills: number;
  readonly missed: number;
  readonly acknowledged: number;
  readonly carriedOut: number;
  readonly uplinks: number;
  /** Error lines in the server log. */
  readonly errors: readonly string[];
  readonly folder: string;
}

/** Finishes the open work, then moves the clock past every deadline, and compares the result. */
export async function collectOutcome(proof: Proof): Promise<Outcome> {
  const { point, site, gateway, submitters, world, running, watcher } = proof;
  const { clients } = running;
  gateway.onCommand = () => {};
  gateway.attachTo(clients);
  await submitters.retryOpenRequests(clients);
  site.advanceClock(running, BACKOFF_MS);
  const acknowledged = [...submitters.acknowledged.values()];
  const read = async (): Promise<Executions> =>
    await readExecutions(clients, [
      ...acknowledged,
      ...gateway.arrivals.executionIds.map((executionId) => ({ executionId })),
    ]);
  if (!point.conditions.hasTimeouts) await pollExecutions(read, (execution) => !isOpen(execution));
  const finish = async (): Promise<Executions> =>
    await pollExecutions(read, isFinal, () => site.advanceClock(running, EVERY_DEADLINE_MS));
  await finish(); // a query may still have been on its way to its device
  await gateway.waitUntilIdle();
  const executions = await finish();
  const lostUplinks = await Promise.race([
    gateway.uplinks.findLost(),
    wait(MAX_RESPONSE_MS, ['the server does not acknowledge uplinks'], { ref: false }),
  ]);
  const found = compareExecutions(executions, submitters, world, {
    mustSucceed: !point.conditions.hasTimeouts,
    uplinksProveDelivery: true,
  });
  const resent =
    gateway.resentCount > 0 && point.conditions.store === 'durable'
      ? [`${gateway.resentCount} commands were sent again to a gateway that already had them`]
      : [];
  const unneeded = gateway.arrivals.listViolations(executions, (time) => site.aheadAt(time));
  const missedEvents = watcher ? [...(await watcher.listMissedEvents(executions.values())), ...watcher.wrong] : [];
  await running.victim.kill();
  await gateway.detach();
  return {
    ...found,
    name: point.name,
    lost: [...found.lost, ...lostUplinks],
    wrong: [
      ...found.wrong,
      ...findOverwrittenRequests(proof, executions),
      ...gateway.uplinks.rejected,
      ...resent,
      ...unneeded,
      ...missedEvents,
    ],
    kills: proof.kills,
    missed: proof.missed,
    acknowledged: acknowledged.length,
    carriedOut: world.executions.size,
    uplinks: gateway.uplinks.acknowledgedCount,
    errors: readErrorLines(site.folder),
    folder: site.folder,
  };
}

/** Finds devices whose last command is not their last accepted request. Cancelled requests are ignored. */
function findOverwrittenRequests({ submitters, world, point }: Proof, executions: Executions): string[] {
  if (point.conditions.hasTimeouts) return []; // expired commands are not delivered
  return [...submitters.accepted].flatMap(([clientDeviceId, requests]) => {
    const last = requests.findLast(({ executionId }) => executions.get(executionId)?.detail !== 'cancelled');
    const position = world.positions.get(clientDeviceId);
    return last && position !== last.n
      ? [`${clientDeviceId} received ${position} last, but ${last.n} was accepted last (${last.executionId})`]
      : [];
  });
}

/**
 * Polls the executions until all satisfy the condition, or until no further one has done so for `maxMs`. Calls `before`
 * ahead of each poll.
 */
export async function pollExecutions(
  read: () => Promise<Executions>,
  condition: (execution: Execution | undefined) => boolean,
  before: () => void = () => {},
  maxMs = MAX_IDLE_MS,
): Promise<Executions> {
  for (let max = -1, since = performance.now(); ;) {
    before();
    await wait(POLL_INTERVAL_MS);
    const found = await read();
    const count = [...found.values()].filter(condition).length;
    if (count > max) [max, since] = [count, performance.now()];
    if (count === found.size || performance.now() - since > maxMs) return found;
  }
}
