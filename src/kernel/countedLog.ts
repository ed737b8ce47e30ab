import type { Logger } from './logger';
import { Tally } from './tally';

/** The same log, whose warnings and errors are counted. */
export function countedLog(log: Logger): { readonly log: Logger; readonly lines: Pick<Tally, 'entries'> } {
  const lines = new Tally(['warn', 'error']);
  const counted = (level: 'warn' | 'error') => (fields: object, event: string) => {
    lines.add(level);
    log[level](fields, event);
  };
  return { log: { debug: (fields, event) => log.debug(fields, event), info: (fields, event) => log.info(fields, event), warn: counted('warn'), error: counted('error') }, lines };
}
