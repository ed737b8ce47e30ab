import type { Logger } from './logger';
import { Counter } from './counter';

/** Wraps a logger and counts its warnings and errors. */
export function instrumentLogger(log: Logger): { readonly log: Logger; readonly lineCounts: Pick<Counter, 'entries'> } {
  const lineCounts = new Counter(['warn', 'error']);
  const countAndLog = (level: 'warn' | 'error') => (fields: object, event: string) => {
    lineCounts.add(level);
    log[level](fields, event);
  };
  return {
    log: {
      debug: (fields, event) => log.debug(fields, event),
      info: (fields, event) => log.info(fields, event),
      warn: countAndLog('warn'),
      error: countAndLog('error'),
    },
    lineCounts,
  };
}
