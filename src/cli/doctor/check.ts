import type { Config } from '../../config';

/** What a check found. */
export interface Finding {
  /** What was looked at. */
  readonly check: string;
  /** `fail`: the server cannot work like this. */
  readonly state: 'ok' | 'warn' | 'fail';
  /** What was found. */
  readonly found: string;
  /** What to do; empty if nothing. */
  readonly mend: string;
}

/** Looks at one thing without changing it. */
export type Check = (config: Config) => Finding[] | Promise<Finding[]>;

/** All is well. */
export const ok = (check: string, found: string): Finding => ({ check, state: 'ok', found, mend: '' });
/** It works, and somebody should look at it. */
export const warn = (check: string, found: string, mend: string): Finding => ({ check, state: 'warn', found, mend });
/** The server cannot work like this. */
export const fail = (check: string, found: string, mend: string): Finding => ({ check, state: 'fail', found, mend });
