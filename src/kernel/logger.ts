/**
 * Structured logger: one line per fact, with the event as `component.event` and snake_case fields. Lines never contain
 * a key, and payloads only at debug level.
 */
export interface Logger {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  /** A problem that may need a person. */
  warn(fields: object, event: string): void;
  /** A problem that needs a person. */
  error(fields: object, event: string): void;
}

/** Discards every line; for tools and tests that do not check the log. */
export const silentLogger: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
