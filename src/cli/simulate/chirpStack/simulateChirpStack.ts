import { UUID } from '../../../kernel/ids';
import { UsageError } from '../../exit';
import { getBrokerTarget, type BrokerFlags } from '../broker/brokerFlags';
import { toAnswer, simulate, type SimulationFlags } from '../simulation';
import { DEFAULT_DEVICES } from '../simulatedDevices';
import { createLorawanDevices } from './lorawanDevices';
import { runNetworkServer } from './networkServer';

/** The flags of `plantroom simulate chirpstack`; times in milliseconds. */
export interface ChirpStackFlags extends SimulationFlags, BrokerFlags {
  readonly application: string;
  readonly join?: number;
  readonly binaryPayload?: boolean;
}

/** Runs `plantroom simulate chirpstack` until SIGINT, SIGTERM or the end of --duration. */
export async function simulateChirpStack(flags: ChirpStackFlags): Promise<void> {
  if (!UUID.test(flags.application))
    throw new UsageError(
      `--application ${JSON.stringify(flags.application)} must be a lower-case UUID, as shown in ChirpStack`,
    );
  const options = {
    broker: getBrokerTarget(flags),
    applicationId: flags.application,
    devices: createLorawanDevices(flags.devices ?? DEFAULT_DEVICES),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer: toAnswer(flags),
    joinEveryMs: flags.join,
    binaryPayload: flags.binaryPayload === true,
  };
  await simulate(flags, async (signal, onEvent) => await runNetworkServer(options, signal, onEvent));
}
