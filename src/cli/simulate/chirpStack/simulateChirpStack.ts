import { UsageError } from '../../exit';
import { brokerTargetOf, type BrokerFlags } from '../broker/brokerFlags';
import { answerOf, play, type PlayFlags } from '../playing';
import { USUAL_DEVICES } from '../simulatedDevices';
import { lorawanDevices } from './lorawanDevices';
import { runNetworkServer } from './networkServer';

/** What `plantroom simulate chirpstack` is given; times in milliseconds. */
export interface ChirpStackFlags extends PlayFlags, BrokerFlags {
  readonly application: string;
  readonly join?: number;
  readonly raw?: boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** `plantroom simulate chirpstack`: until SIGINT, SIGTERM or the end of --for. */
export async function simulateChirpStack(flags: ChirpStackFlags): Promise<void> {
  if (!UUID.test(flags.application)) throw new UsageError(`--application ${JSON.stringify(flags.application)} must be a UUID in lower case, as ChirpStack shows it`);
  const options = {
    broker: brokerTargetOf(flags),
    applicationId: flags.application,
    devices: lorawanDevices(flags.devices ?? USUAL_DEVICES),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer: answerOf(flags),
    joinEveryMs: flags.join,
    raw: flags.raw === true,
  };
  await play(flags, async (signal, onEvent) => await runNetworkServer(options, signal, onEvent));
}
