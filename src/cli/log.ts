import pino from 'pino';
import type { Config } from '../config';
import type { Logger } from '../kernel/logger';
import { formatConsoleLine } from './consoleFormat';
import { LineWriter } from './lineWriter';
import { LOG_MESSAGES } from './logMessages';
import { RepeatedWarnings } from './repeatedWarnings';

/**
 * The log of a server, on stdout: JSON lines with `level`, `time`, `message`, the fields and `event`, or readable lines
 * (console format).
 */
export interface ProcessLog {
  readonly log: Logger;
  /** Writes `info` lines whatever the log level: for the few lines that other programs wait for. */
  readonly always: Logger;
  /** Writes the lines that are still in memory. Call it before the process exits. */
  readonly flush: () => void;
}

const FLUSH_INTERVAL_MS = 100;

/** Level and format of the log of a server. */
type LogOptions = Pick<Config['log'], 'level' | 'format'>;

/**
 * Creates the log of the process. Lines are written in order and in batches, without blocking: a separate write for
 * each line would add about a tenth to the time of a call. No line waits longer than 100 ms; warnings and errors are
 * written immediately. If the reader of stdout is more than 8 MiB behind, or its disk is full, lines are dropped, and
 * their number is logged afterwards (`log.lines_dropped`).
 */
export function createProcessLog({ level, format }: LogOptions): ProcessLog {
  // Accessing stdout makes a pipe non-blocking. LineWriter writes to its descriptor and handles errors itself.
  process.stdout.on('error', () => {});
  const writer = new LineWriter(process.stdout.fd, (count) => log.warn({ count }, 'log.lines_dropped'));
  setInterval(() => writer.flush(), FLUSH_INTERVAL_MS).unref();
  const isConsole = format === 'console' || (format === 'auto' && process.stdout.isTTY);
  const jsonLog = pino(
    {
      level,
      base: null,
      messageKey: 'event',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (name) => ({ level: name }) },
      serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err },
    },
    isConsole ? { write: (line: string) => writer.write(formatConsoleLine(line)) } : writer,
  );
  const writeAt =
    (logger: pino.Logger, level: pino.Level, { isUrgent = false } = {}) =>
    (fields: object, event: string): void => {
      if (!logger.isLevelEnabled(level)) return;
      logger[level]({ message: getMessage(event), ...fields }, event);
      if (isUrgent) writer.flush();
    };
  const warn = writeAt(jsonLog, 'warn', { isUrgent: true });
  const repeated = new RepeatedWarnings((fields) => warn(fields, 'log.repeated'));
  const log: Logger = {
    debug: writeAt(jsonLog, 'debug'),
    info: writeAt(jsonLog, 'info'),
    warn: (fields, event) => {
      if (repeated.shouldWrite(fields, event)) warn(fields, event);
    },
    error: writeAt(jsonLog, 'error', { isUrgent: true }),
  };
  return {
    log,
    always: { ...log, info: writeAt(jsonLog.child({}, { level: 'info' }), 'info', { isUrgent: true }) },
    flush: () => {
      repeated.flush();
      writer.flushSync();
    },
  };
}

function getMessage(event: string): string {
  return LOG_MESSAGES[event] ?? event;
}

/** Creates a log for commands: readable text on stderr, only warnings and errors unless the level is `debug`. */
export function createCommandLog(level: Config['log']['level']): Logger {
  const isDebug = level === 'debug';
  return {
    debug: isDebug ? createWriter('debug') : () => {},
    info: isDebug ? createWriter('info') : () => {},
    warn: createWriter('warning'),
    error: createWriter('error'),
  };
}

function createWriter(word: string): (fields: object, event: string) => void {
  return (fields, event) =>
    void process.stderr.write(
      `plantroom: ${word}: ${getMessage(event)} (${event}) ${JSON.stringify(fields, errorsAsText)}\n`,
    );
}

/** The replacer of JSON.stringify: replaces an error by its message, which JSON.stringify would omit. */
function errorsAsText(_key: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value;
}
