import pino from 'pino';
import type { Config } from '../config';
import type { Logger } from '../kernel/logger';
import { LineWriter } from './lineWriter';

/** A log that writes JSON lines to stdout: `level`, `time`, `event`, then the fields. */
export interface ProcessLog {
  readonly log: Logger;
  /** The same at every level: for the few lines that others wait for. */
  readonly always: Logger;
  /** Writes what is still in memory; to be called before the process ends. */
  readonly flush: () => void;
}

const FLUSH_MS = 100;

/**
 * Makes the log of the process. Lines leave in order and together, without blocking: a write for each line costs as much as a tenth of a
 * call. Nothing waits longer than 100 ms, warnings and errors not at all. When the reader of stdout falls more than 8 MiB behind, or the
 * disk that it is written to is full, lines are dropped, and their number is logged (`log.lines_dropped`) when it goes on.
 */
export function processLog(level: Config['log']['level']): ProcessLog {
  process.stdout.on('error', () => {}); // to look at it makes a pipe one that never blocks
  const destination = new LineWriter(process.stdout.fd, (count) => lines.warn({ count }, 'log.lines_dropped'));
  setInterval(() => destination.flush(), FLUSH_MS).unref();
  const lines = pino(
    { level, base: null, messageKey: 'event', timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (name) => ({ level: name }) }, serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err } },
    destination,
  );
  const atOnce = (write: (fields: object, event: string) => void) => (fields: object, event: string) => {
    write(fields, event);
    destination.flush();
  };
  const log: Logger = {
    debug: (fields, event) => lines.debug(fields, event),
    info: (fields, event) => lines.info(fields, event),
    warn: atOnce((fields, event) => lines.warn(fields, event)),
    error: atOnce((fields, event) => lines.error(fields, event)),
  };
  const always = lines.child({}, { level: 'info' });
  return { log, always: { ...log, info: atOnce((fields, event) => always.info(fields, event)) }, flush: () => destination.flushSync() };
}

/** A log for commands: only warnings and errors, as text for people on stderr. */
export function commandLog(level: Config['log']['level']): Logger {
  const more = level === 'debug';
  return { debug: more ? write('debug') : () => {}, info: more ? write('info') : () => {}, warn: write('warning'), error: write('error') };
}

function write(word: string): (fields: object, event: string) => void {
  return (fields, event) => void process.stderr.write(`plantroom: ${word}: ${event} ${JSON.stringify(fields, errorsAsText)}\n`);
}

function errorsAsText(_key: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value;
}
