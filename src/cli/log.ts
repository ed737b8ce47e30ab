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

/** Makes the log of the process. Lines leave without blocking, in order. */
export function processLog(level: Config['log']['level']): ProcessLog {
  const destination = pino.destination({ fd: 1, sync: false });
  const log = pino(
    { level, base: null, messageKey: 'event', timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (name) => ({ level: name }) }, serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err } },
    destination,
  );
  return { log, always: log.child({}, { level: 'info' }), flush: () => destination.flushSync() };
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
