import type { Config } from '../../config';

/** The result of a check. */
export interface Finding {
  /** The subject of the check. */
  readonly check: string;
  /** `ok`: no action needed. `warn`: the server works, but someone should look at it. `fail`: the server cannot work. */
  readonly state: 'ok' | 'warn' | 'fail';
  /** The observation. */
  readonly found: string;
  /** How to fix the problem; empty if there is none. */
  readonly fix: string;
}

/** Checks one subject without changing anything. */
export type Check = (config: Config) => Finding[] | Promise<Finding[]>;

/** Creates a finding without a problem. */
export const ok = (check: string, found: string): Finding => ({ check, state: 'ok', found, fix: '' });
/** Creates a finding of a problem with which the server still works. */
export const warn = (check: string, found: string, fix: string): Finding => ({ check, state: 'warn', found, fix });
/** Creates a finding of a problem with which the server cannot work. */
export const fail = (check: string, found: string, fix: string): Finding => ({ check, state: 'fail', found, fix });

/** Formats a count with its noun, for example `no problems`, `1 problem` or `2 problems`. */
export const formatCount = (count: number, noun: string): string =>
  `${count === 0 ? 'no' : count} ${noun}${count === 1 ? '' : 's'}`;
