import pino from 'pino';
import type { Config } from '../config';
import type { Logger } from '../kernel/logger';

/** A log that writes JSON lines to stdout: `level`, `time`, `event`, then the fields. */
export interface ProcessLog {
  readonly log: Logger;
  /** The same at every level: for the few lines that others wait for. */
  readonly always: Logger;
  /** Writes what is still in memory; to be called before the process ends. */
  readonly flush: () => void;
}

const BUFFER_BYTES = 16 * 1024 - 1;
const FLUSH_MS = 100;
// What may wait for a reader who stopped reading: more would take the server's memory.
const LONGEST_BACKLOG_BYTES = 8 * 1024 * 1024;

/**
 * Makes the log of the process. Lines leave in order and together, without blocking: a write for each line costs as much as a tenth of a
 * call. Nothing waits longer than 100 ms, warnings and errors not at all. When the reader of stdout falls more than 8 MiB behind, lines are
 * dropped, and their number is logged (`log.lines_dropped`) when it reads again.
 */
export function processLog(level: Config['log']['level']): ProcessLog {
  const destination = pino.destination({ fd: 1, sync: false, minLength: BUFFER_BYTES, maxLength: LONGEST_BACKLOG_BYTES });
  const flush = (): void => destination.flushSync();
  setInterval(() => destination.flush(), FLUSH_MS).unref();
  const lines = pino(
    { level, base: null, messageKey: 'event', timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (name) => ({ level: name }) }, serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err } },
    destination,
  );
  let dropped = 0;
  destination.on('drop', () => (dropped += 1));
  destination.on('drain', () => {
    if (dropped === 0) return;
    const count = dropped;
    dropped = 0;
    lines.warn({ count }, 'log.lines_dropped');
  });
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
  return { log, always: { ...log, info: atOnce((fields, event) => always.info(fields, event)) }, flush };
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
