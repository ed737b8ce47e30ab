import { UsageError } from '../exit';
import { say, sayJson } from '../output';

/** What every simulation is given on the command line; times in milliseconds. */
export interface PlayFlags {
  readonly json?: boolean;
  readonly devices?: readonly string[];
  readonly interval: number;
  readonly delay: number;
  readonly reject?: boolean;
  /** False with --no-answer. */
  readonly answer: boolean;
  readonly for?: number;
}

/** What the devices answer: `accept` does what the command says; the others fail on purpose. */
export type Answer = 'accept' | 'reject' | 'no_answer';

/** Something that a simulation did or saw. */
export interface PlayedEvent {
  /** `thing.what_happened`. */
  readonly event: string;
  /** Unix milliseconds. */
  readonly time: number;
  /** More about it, in snake_case. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Takes what happens, in the order in which it happens. */
export type OnPlayed = (event: PlayedEvent) => void;

/** How the devices answer. Throws UsageError where the flags contradict each other. */
export function answerOf({ reject, answer }: PlayFlags): Answer {
  if (reject && !answer) throw new UsageError('give --reject or --no-answer, not both');
  if (reject) return 'reject';
  return answer ? 'accept' : 'no_answer';
}

/** Runs a simulation until SIGINT, SIGTERM or the end of --for, and shows what happens, an event on each line. */
export async function play(flags: PlayFlags, run: (signal: AbortSignal, onEvent: OnPlayed) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  const timer = flags.for === undefined ? undefined : setTimeout(abort, flags.for);
  try {
    await run(stop.signal, (event) => (flags.json ? sayJson({ event: event.event, time: new Date(event.time).toISOString(), ...event.fields }) : say(eventText(event))));
  } finally {
    clearTimeout(timer);
    process.off('SIGINT', abort).off('SIGTERM', abort);
  }
}

/** One event on one line: time, event, fields. */
export function eventText({ event, time, fields }: PlayedEvent): string {
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' && !value.includes(' ') ? value : JSON.stringify(value)}`);
  return `${new Date(time).toISOString().slice(11, 23)}  ${event.padEnd(20)}  ${shown.join(' ')}`;
}
