import { appendFileSync } from 'node:fs';
import type { Logger } from '../../src/kernel/logger';

/** When the server kills itself: at the n-th line of the log of this kind. */
export interface Trap {
  /** `component.event`. */
  readonly event: string;
  /** Only lines with these fields. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Counts from 1. */
  readonly nth: number;
  /** Turns of the event loop between the line and the end; 0: not one more instruction of the server runs. */
  readonly turns: number;
}

/** The log of a server that may kill itself: the lines need no hook in the server, they are what an operator reads. */
export class TrapLogger implements Logger {
  private trap: Trap | undefined;
  private seen = 0;

  /** Warnings and errors go to `file`, at once. */
  constructor(private readonly file: string) {}

  /** Sets the trap; undefined: none. */
  arm(trap: Trap | undefined): void {
    this.trap = trap;
    this.seen = 0;
  }

  debug(fields: object, event: string): void {
    this.look(fields, event);
  }

  info(fields: object, event: string): void {
    this.look(fields, event);
  }

  warn(fields: object, event: string): void {
    this.keep('warn', fields, event);
    this.look(fields, event);
  }

  error(fields: object, event: string): void {
    this.keep('error', fields, event);
    this.look(fields, event);
  }

  private look(fields: object, event: string): void {
    const { trap } = this;
    if (!trap || event !== trap.event || !matches(fields, trap.fields)) return;
    this.seen += 1;
    if (this.seen === trap.nth) dieAfter(trap.turns);
  }

  private keep(level: 'warn' | 'error', fields: object, event: string): void {
    appendFileSync(this.file, `${JSON.stringify({ level, event, ...fields }, (_key, value: unknown) => (value instanceof Error ? value.stack : value))}\n`);
  }
}

function matches(fields: object, wanted: Trap['fields'] = {}): boolean {
  return Object.entries(wanted).every(([name, value]) => (fields as Readonly<Record<string, unknown>>)[name] === value);
}

function dieAfter(turns: number): void {
  if (turns === 0) process.kill(process.pid, 'SIGKILL');
  setImmediate(() => dieAfter(turns - 1));
}
