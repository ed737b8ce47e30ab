import { newId } from '../../../kernel/ids';
import { targetOf, type TargetFlags } from '../../call/target';
import { answerOf, play, type PlayFlags } from '../playing';
import { simulatedDevices, USUAL_DEVICES } from '../simulatedDevices';
import { GatewayMemory } from './gatewayMemory';
import { runSimulator } from './simulator';
import { usualBackoff } from './simulatorOptions';

/** What `plantroom simulate gateway` is given; times in milliseconds. */
export interface GatewayFlags extends TargetFlags, PlayFlags {
  readonly json?: boolean;
  readonly connection: string;
  readonly gatewayId?: string;
  readonly dropReceived?: boolean;
  readonly volatile?: boolean;
  readonly raw?: boolean;
  readonly store?: string;
}

/** `plantroom simulate gateway`: until SIGINT, SIGTERM or the end of --for. */
export async function simulateGateway(flags: GatewayFlags): Promise<void> {
  const answer = answerOf(flags);
  const target = targetOf(flags);
  const { gatewayId, store } = flags;
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
    answer,
    dropReceived: flags.dropReceived === true,
    raw: flags.raw === true,
    backoffMs: usualBackoff,
  } as const;
  await play(flags, async (signal, onEvent) => await runSimulator(options, signal, onEvent));
}
