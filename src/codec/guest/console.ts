import { stringify } from './intrinsics';
import { formatValue } from './formatValue';

const MAX_LINE_LENGTH = 8192;

/**
 * The host's log. Receives a line as JSON text, in which every character passes to the host unchanged, or no argument
 * to count a discarded line. Returns whether it has space for more lines.
 */
export type LogSink = (line?: string) => boolean;

/** Creates the `console` of the scripts. Each call writes one line, until the sink is full. */
export function makeConsole(sink: LogSink): Record<string, (...values: unknown[]) => void> {
  let hasSpace = true;
  const write = (...values: unknown[]): void => {
    if (!hasSpace) {
      sink(); // counts a discarded line
      return;
    }
    let line = '';
    for (let index = 0; index < values.length && line.length <= MAX_LINE_LENGTH; index += 1)
      line += (index === 0 ? '' : ' ') + formatValue(values[index], MAX_LINE_LENGTH);
    hasSpace = sink(stringify(line));
  };
  const assert = (condition?: unknown, ...values: unknown[]): void => {
    if (!condition) write(values.length === 0 ? 'Assertion failed' : 'Assertion failed:', ...values);
  };
  return {
    log: write,
    info: write,
    warn: write,
    error: write,
    debug: write,
    dir: write,
    dirxml: write,
    table: write,
    trace: write,
    group: write,
    groupCollapsed: write,
    groupEnd: () => {},
    assert,
  };
}
