import { readErrorLines } from './serverLog';
import type { Outcome } from './outcome';

/** The result of a proof that sends only uplinks. */
export interface UplinkRound {
  readonly name: string;
  readonly kills: number;
  /** Uplinks that the server must hold once each. */
  readonly expected: number;
  /** Readings that it holds. */
  readonly stored: number;
  /** The sentence to report if these differ. */
  readonly text: string;
  readonly wrong: readonly string[];
  /** The folder of the servers. */
  readonly folder: string;
}

/** Creates the outcome of a proof without commands: each uplink must be stored once, and no server may log an error. */
export function createUplinkOutcome({ name, kills, expected, stored, text, wrong, folder }: UplinkRound): Outcome {
  return {
    name,
    kills,
    missed: 0,
    acknowledged: 0,
    carriedOut: 0,
    converged: 0,
    unconfirmed: 0,
    uplinks: stored,
    lost: stored < expected ? [text] : [],
    doubled: stored > expected ? [text] : [],
    wrong,
    errors: readErrorLines(folder),
    folder,
  };
}
