import { appendFileSync } from 'node:fs';
import type { Logger } from '../../src/kernel/logger';

/** The log line at which the server kills itself: the n-th one that matches. */
export interface Trap {
  /** `component.event`. */
  readonly event: string;
  /** Only lines with these fields. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop between the line and the kill; 0: the server runs no further instruction. */
  readonly turns: number;
}

/** A log that can kill its server at a line. The server needs no hook: these are its normal log lines. */
export class TrapLogger implements Logger {
  private trap: Trap | undefined;
  private matchCount = 0;

  /** Warnings and errors are appended to `file` synchronously. */
  constructor(private readonly file: string) {}

  /** Sets the trap; undefined removes it. */
  arm(trap: Trap | undefined): void {
    this.trap = trap;
    this.matchCount = 0;
  }

  debug(fields: object, event: string): void {
    this.checkTrap(fields, event);
  }

  info(fields: object, event: string): void {
    this.checkTrap(fields, event);
  }

  warn(fields: object, event: string): void {
    this.appendToFile('warn', fields, event);
    this.checkTrap(fields, event);
  }

  error(fields: object, event: string): void {
    this.appendToFile('error', fields, event);
    this.checkTrap(fields, event);
  }

  private checkTrap(fields: object, event: string): void {
    const { trap } = this;
    if (!trap || event !== trap.event || !matches(fields, trap.fields)) return;
    this.matchCount += 1;
    if (this.matchCount === trap.nth) killAfter(trap.turns);
  }

  private appendToFile(level: 'warn' | 'error', fields: object, event: string): void {
    appendFileSync(
      this.file,
      `${JSON.stringify({ level, event, ...fields }, (_key, value: unknown) => (value instanceof Error ? value.stack : value))}\n`,
    );
  }
}

function matches(fields: object, expected: Trap['fields'] = {}): boolean {
  return Object.entries(expected).every(
    ([name, value]) => (fields as Readonly<Record<string, unknown>>)[name] === value,
  );
}

function killAfter(turns: number): void {
  if (turns === 0) process.kill(process.pid, 'SIGKILL');
  setImmediate(() => killAfter(turns - 1));
}
