/** One line a fact: the event as `component.event`, then snake_case fields. Never a key, a payload only at debug. */
export interface Logger {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  /** Healed by itself. */
  warn(fields: object, event: string): void;
  /** A person must act. */
  error(fields: object, event: string): void;
}

/** Says nothing; for tools and tests that do not look at the log. */
export const silentLogger: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
