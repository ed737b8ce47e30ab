import { newId } from '../../kernel/ids';
import { targetOf, type TargetFlags } from '../call/target';
import { UsageError } from '../exit';
import { say } from '../output';
import { GatewayMemory } from './gatewayMemory';
import { simulatedDevices, USUAL_DEVICES } from './simulatedDevices';
import { runSimulator } from './simulator';
import { usualBackoff, type SimulatorEvent } from './simulatorOptions';

/** What `plantroom simulate` is given; times in milliseconds. */
export interface SimulateFlags extends TargetFlags {
  readonly connection: string;
  readonly gatewayId?: string;
  readonly devices?: readonly string[];
  readonly interval: number;
  readonly delay: number;
  readonly reject?: boolean;
  /** False with --no-answer. */
  readonly answer: boolean;
  readonly dropReceived?: boolean;
  readonly volatile?: boolean;
  readonly store?: string;
  readonly for?: number;
}

/** `plantroom simulate`: until SIGINT, SIGTERM or the end of --for. */
export async function runSimulate(flags: SimulateFlags): Promise<void> {
  if (flags.reject && !flags.answer) throw new UsageError('give --reject or --no-answer, not both');
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  const timer = flags.for === undefined ? undefined : setTimeout(abort, flags.for);
  const target = targetOf(flags);
  const { gatewayId, store } = flags;
  try {
    const options = {
      ...target,
      connectionId: flags.connection,
      gatewayId: gatewayId ?? `simulator-${newId()}`,
      devices: simulatedDevices(flags.devices ?? USUAL_DEVICES),
      memory: new GatewayMemory(store),
      // A gateway that may come back under its name without its memory must not call itself durable.
      volatile: flags.volatile === true || (gatewayId !== undefined && store === undefined),
      uplinkIntervalMs: flags.interval,
      answerDelayMs: flags.delay,
      answer: flags.reject ? 'reject' : flags.answer ? 'accept' : 'no_answer',
      dropReceived: flags.dropReceived === true,
      backoffMs: usualBackoff,
    } as const;
    await runSimulator(options, stop.signal, (event) => say(flags.json ? JSON.stringify({ event: event.event, time: new Date(event.time).toISOString(), ...event.fields }) : eventText(event)));
  } finally {
    clearTimeout(timer);
    process.off('SIGINT', abort).off('SIGTERM', abort);
  }
}

/** One event on one line: time, event, fields. */
export function eventText({ event, time, fields }: SimulatorEvent): string {
  const shown = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' && !value.includes(' ') ? value : JSON.stringify(value)}`);
  return `${new Date(time).toISOString().slice(11, 23)}  ${event.padEnd(20)}  ${shown.join(' ')}`;
}
