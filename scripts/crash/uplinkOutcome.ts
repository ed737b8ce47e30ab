import { compareReadings, type ReadingTotals } from './countReadings';
import { readErrorLines } from './serverLog';
import type { Outcome } from './outcome';

/** The result of a proof that sends only uplinks. */
export interface UplinkRound {
  readonly name: string;
  readonly kills: number;
  /** The uplinks that the broker accepted. The server must store each of them once. */
  readonly accepted: ReadingTotals;
  readonly stored: ReadingTotals;
  readonly wrong: readonly string[];
  /** The folder of the servers. */
  readonly folder: string;
}

/** Creates the outcome of a proof without commands: each uplink must be stored once, and no server may log an error. */
export function createUplinkOutcome({ name, kills, accepted, stored, wrong, folder }: UplinkRound): Outcome {
  return {
    name,
    kills,
    missed: 0,
    acknowledged: 0,
    carriedOut: 0,
    converged: 0,
    unconfirmed: 0,
    uplinks: stored.count,
    ...compareReadings(accepted, stored),
    wrong,
    errors: readErrorLines(folder),
    folder,
  };
}
