import { newId } from '../../../kernel/ids';
import { getTarget, type TargetFlags } from '../../call/target';
import { UsageError } from '../../exit';
import { toAnswer, simulate, type SimulationFlags } from '../simulation';
import { createSimulatedDevices, DEFAULT_DEVICES } from '../simulatedDevices';
import { MAX_DELAY_MS, runSimulator } from './simulator';
import { createSimulatorStore } from './simulatorStore';

/** The flags of `plantroom simulate gateway`; times in milliseconds. */
export interface GatewayFlags extends TargetFlags, SimulationFlags {
  readonly json?: boolean;
  readonly connection: string;
  readonly gatewayId?: string;
  /** False with --no-receipts. */
  readonly receipts: boolean;
  readonly volatile?: boolean;
  readonly binaryPayload?: boolean;
  readonly store?: string;
}

/** Runs `plantroom simulate gateway` until SIGINT, SIGTERM or the end of --duration. */
export async function simulateGateway(flags: GatewayFlags): Promise<void> {
  const answer = toAnswer(flags);
  const target = getTarget(flags);
  if (target.key === '')
    throw new UsageError(
      'the gateway requires an API key with the scope gateways:write: set --key, --key-file or PLANTROOM_API_KEY',
    );
  if (target.organizationId === '')
    throw new UsageError('the organization of the key is required: set --organization or PLANTROOM_ORGANIZATION_ID');
  if (!/^[\x21-\x7e]+$/.test(target.key))
    throw new UsageError(
      'the API key contains white space or an invalid character: set the key exactly as it was shown at its creation, with --key, --key-file or PLANTROOM_API_KEY',
    );
  if (flags.delay > MAX_DELAY_MS)
    throw new UsageError(`--delay must be at most ${Math.floor(MAX_DELAY_MS / 86_400_000)}d`);
  const { gatewayId, store } = flags;
  const options = {
    ...target,
    connectionId: flags.connection,
    // Undefined with a store: the id in the store is used.
    gatewayId: gatewayId ?? (store === undefined ? `simulator-${newId()}` : undefined),
    devices: createSimulatedDevices(flags.devices ?? DEFAULT_DEVICES),
    store: createSimulatorStore(store, flags.volatile === true),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer,
    sendReceipts: flags.receipts,
    binaryPayload: flags.binaryPayload === true,
  } as const;
  await simulate(flags, async (signal, onEvent) => await runSimulator(options, signal, onEvent));
}
