import { stringify } from './intrinsics';
import { show } from './show';

const LONGEST_LINE = 8192;

/** Takes a line as JSON text, in which every character comes through the wall, or counts one that is lost when called with none. Answers whether it takes more. */
export type LogSink = (line?: string) => boolean;

/** `console` of the scripts: one line a call, until the sink is full. */
export function makeConsole(sink: LogSink): Record<string, (...values: unknown[]) => void> {
  let open = true;
  const write = (...values: unknown[]): void => {
    if (!open) {
      sink();
      return;
    }
    let line = '';
    for (let at = 0; at < values.length && line.length <= LONGEST_LINE; at += 1) line += (at === 0 ? '' : ' ') + show(values[at], LONGEST_LINE);
    open = sink(stringify(line));
  };
  const assert = (holds?: unknown, ...values: unknown[]): void => {
    if (!holds) write(values.length === 0 ? 'Assertion failed' : 'Assertion failed:', ...values);
  };
  return { log: write, info: write, warn: write, error: write, debug: write, table: write, trace: write, assert };
}
