import { setTimeout as wait } from 'node:timers/promises';
import type { Execution } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type Audit, audit, isFinal, isOpen, readAll } from './audit';
import type { Proof } from './proof';
import { errorLines } from './serverLog';

const LONGEST_STANDSTILL_MS = 20_000;
const LONGEST_ANSWER_MS = 60_000;
// Longer than it takes the server to see that its clock was put forward.
const LOOK_EVERY_MS = 300;
const BACKOFF_MS = 70_000;
const EVERY_DEADLINE_MS = 8 * 86_400_000;

type Executions = Awaited<ReturnType<typeof readAll>>;

/** What came of one kill point. */
export interface Outcome extends Audit {
  readonly name: string;
  readonly kills: number;
  readonly missed: number;
  readonly acknowledged: number;
  readonly carriedOut: number;
  readonly uplinks: number;
  /** Error lines of its servers. */
  readonly errors: readonly string[];
  readonly folder: string;
}

/** Lets everything come to its end and looks at it: first what can still be done is done, then the clock passes every deadline. */
export async function settle(proof: Proof): Promise<Outcome> {
  const { point, site, gateway, submitters, world, running, watcher } = proof;
  const { clients } = running;
  gateway.onCommand = () => {};
  gateway.follow(clients);
  await submitters.finish(clients);
  site.skip(running, BACKOFF_MS);
  const told = [...submitters.acknowledged.values()];
  const read = async (): Promise<Executions> => await readAll(clients, [...told, ...gateway.arrivals.executionIds.map((executionId) => ({ executionId }))]);
  if (!point.conditions.hasty) await until(read, (execution) => !isOpen(execution));
  const end = async (): Promise<Executions> => await until(read, isFinal, () => site.skip(running, EVERY_DEADLINE_MS));
  await end(); // a query may have been on its way to its device, unknown here
  await gateway.idle();
  const executions = await end();
  const lostUplinks = await Promise.race([gateway.uplinks.lost(), wait(LONGEST_ANSWER_MS, ['the server does not answer uplinks'], { ref: false })]);
  const found = audit(executions, submitters, world, { mustBeDone: !point.conditions.hasty, believesUplinks: true });
  const sentAgain = gateway.sentAgain > 0 && point.conditions.store === 'durable' ? [`${gateway.sentAgain} commands were sent to a gateway that had them`] : [];
  const needless = gateway.arrivals.wrong(executions, (time) => site.aheadAt(time));
  const unseen = watcher ? [...(await watcher.missed(executions.values())), ...watcher.wrong] : [];
  await running.victim.kill();
  await gateway.leave();
  return {
    ...found,
    name: point.name,
    lost: [...found.lost, ...lostUplinks],
    wrong: [...found.wrong, ...gateway.uplinks.rejected, ...sentAgain, ...needless, ...unseen],
    kills: proof.kills,
    missed: proof.missed,
    acknowledged: told.length,
    carriedOut: world.executions.size,
    uplinks: gateway.uplinks.acknowledgedCount,
    errors: errorLines(site.folder),
    folder: site.folder,
  };
}

/** Reads until all executions are as wanted, or until nothing has become so for `longestMs`; `before` each look. */
export async function until(read: () => Promise<Executions>, wanted: (execution: Execution | undefined) => boolean, before: () => void = () => {}, longestMs = LONGEST_STANDSTILL_MS): Promise<Executions> {
  for (let most = -1, since = performance.now(); ; ) {
    before();
    await wait(LOOK_EVERY_MS);
    const found = await read();
    const count = [...found.values()].filter(wanted).length;
    if (count > most) [most, since] = [count, performance.now()];
    if (count === found.size || performance.now() - since > longestMs) return found;
  }
}
