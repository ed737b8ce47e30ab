import { newId } from '../../../kernel/ids';
import { targetOf, type TargetFlags } from '../../call/target';
import { UsageError } from '../../exit';
import { answerOf, play, type PlayFlags } from '../playing';
import { simulatedDevices, USUAL_DEVICES } from '../simulatedDevices';
import { LONGEST_DELAY_MS, runSimulator } from './simulator';
import { simulatorStore } from './simulatorStore';

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
  if (target.key === '') throw new UsageError('the gateway needs an API key with the scope gateways:write; give --key, --key-file or PLANTROOM_API_KEY');
  if (target.organizationId === '') throw new UsageError('give the organization of the key: --organization, or PLANTROOM_ORGANIZATION_ID');
  if (!/^[\x21-\x7e]+$/.test(target.key)) throw new UsageError('the API key holds white space or a character that no key has; give it as it was shown when it was made: --key, --key-file or PLANTROOM_API_KEY');
  if (flags.delay > LONGEST_DELAY_MS) throw new UsageError(`--delay must be at most ${Math.floor(LONGEST_DELAY_MS / 86_400_000)}d`);
  const { gatewayId, store } = flags;
  const options = {
    ...target,
    connectionId: flags.connection,
    // With a store it is the one that the store keeps.
    gatewayId: gatewayId ?? (store === undefined ? `simulator-${newId()}` : undefined),
    devices: simulatedDevices(flags.devices ?? USUAL_DEVICES),
    store: simulatorStore(store, flags.volatile === true),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer,
    dropReceived: flags.dropReceived === true,
    raw: flags.raw === true,
  } as const;
  await play(flags, async (signal, onEvent) => await runSimulator(options, signal, onEvent));
}
