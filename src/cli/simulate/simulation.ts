import { UsageError } from '../exit';
import { print, printJson } from '../output';

/** The command-line flags of every simulation; times in milliseconds. */
export interface SimulationFlags {
  readonly json?: boolean;
  readonly devices?: readonly string[];
  readonly interval: number;
  readonly delay: number;
  readonly simulateReject?: boolean;
  readonly simulateTimeout?: boolean;
  readonly duration?: number;
}

/** How the devices respond: `accept` executes the command; the others fail on purpose. */
export type Answer = 'accept' | 'reject' | 'no_answer';

/** An event of a simulation. */
export interface SimulationEvent {
  /** `thing.what_happened`. */
  readonly event: string;
  /** Unix milliseconds. */
  readonly time: number;
  /** The details, in snake_case. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Receives the events in order. */
export type OnSimulatedEvent = (event: SimulationEvent) => void;

/** Returns how the devices respond. Throws UsageError if the flags contradict each other. */
export function toAnswer({ simulateReject, simulateTimeout }: SimulationFlags): Answer {
  if (simulateReject && simulateTimeout)
    throw new UsageError('use either --simulate-reject or --simulate-timeout, not both');
  if (simulateReject) return 'reject';
  return simulateTimeout ? 'no_answer' : 'accept';
}

/** Runs a simulation until SIGINT, SIGTERM or the end of --duration, and prints its events, one per line. */
export async function simulate(
  flags: SimulationFlags,
  run: (signal: AbortSignal, onEvent: OnSimulatedEvent) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  const timer = flags.duration === undefined ? undefined : setTimeout(abort, flags.duration);
  try {
    await run(stop.signal, (event) =>
      flags.json
        ? printJson({ event: event.event, time: new Date(event.time).toISOString(), ...event.fields })
        : print(formatEvent(event)),
    );
  } finally {
    clearTimeout(timer);
    process.off('SIGINT', abort).off('SIGTERM', abort);
  }
}

/** Formats an event as one line: time, event, fields. */
function formatEvent({ event, time, fields }: SimulationEvent): string {
  const formattedFields = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' && !value.includes(' ') ? value : JSON.stringify(value)}`,
  );
  return `${new Date(time).toISOString().slice(11, 23)}  ${event.padEnd(20)}  ${formattedFields.join(' ')}`;
}
