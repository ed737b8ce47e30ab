import type { ConnectionRepository, UplinkMessage, UplinkOutcome } from '../connections';
import type { DeviceRepository } from '../devices';
import type { ConnectorKeyRepository } from './connectorKeyRepository';
import { flatten, type Flattened, type Sample } from './flatten';
import type { SeenUplinkRepository } from './seenUplinkRepository';

/** What the steps read and write, bound to the one transaction of an uplink. */
export interface UplinkRepositories {
  readonly connections: ConnectionRepository;
  readonly devices: DeviceRepository;
  readonly keys: ConnectorKeyRepository;
  readonly seen: SeenUplinkRepository;
}

/** What the steps learn on the way; the message itself never changes. */
export interface UplinkState {
  readonly message: UplinkMessage;
  samples: readonly Sample[];
  /** Whether the samples are all that the payload holds. */
  isComplete: boolean;
  /** The digital device; undefined while the physical device is bound to none. */
  deviceId: string | undefined;
}

/** `continue`, or how the uplink ends here; a stop is a normal end, not an error. */
export type StepOutcome = 'continue' | { readonly stop: UplinkOutcome };

/** One step of an uplink's way. */
export type UplinkStep = (state: UplinkState, repos: UplinkRepositories) => StepOutcome | Promise<StepOutcome>;

/** The way of an uplink, all of it in one transaction. */
export const UPLINK_STEPS: readonly (readonly [name: string, step: UplinkStep])[] = [
  ['check_ids', checkIds],
  ['read_payload', readPayload],
  ['remember_uplink', rememberUplink],
  ['find_device', findDevice],
  ['store_connector_keys', storeConnectorKeys],
  ['touch_last_seen', touchLastSeen],
];

const UNUSABLE = /[\p{Cc}\p{Cs}]/u; // control characters, and halves of surrogate pairs
const DUPLICATE: StepOutcome = { stop: { outcome: 'duplicate' } };

function checkIds({ message }: UplinkState): StepOutcome {
  if (!isId(message.uplinkId, 64)) return rejected('uplink_id_invalid');
  return isId(message.clientDeviceId, 255) ? 'continue' : rejected('client_device_id_invalid');
}

/**
 * The source paths of a JSON payload are those of its values. A payload of bytes, while nothing decodes it, has the paths
 * `bytes` (all of it as lower-case hex digits) and `fPort` (if the uplink has one).
 */
function readPayload(state: UplinkState): StepOutcome {
  const flattened = samplesOf(state.message);
  if ('reason' in flattened) return rejected(flattened.reason);
  state.samples = flattened.samples;
  state.isComplete = flattened.isComplete;
  return 'continue';
}

/** The id of a stored uplink is remembered for 7 days. Throws `connection_not_found`. */
async function rememberUplink({ message }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (await repos.seen.remember(message.organizationId, message.connectionId, message.uplinkId, message.receivedAt)) return 'continue';
  await repos.connections.get(message.organizationId, message.connectionId); // a deleted connection remembers nothing either
  return DUPLICATE;
}

/** A physical device that is bound to none goes on: its keys are what a binding is previewed with. */
async function findDevice(state: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  const { organizationId, connectionId, clientDeviceId } = state.message;
  const binding = await repos.devices.findBinding(organizationId, connectionId, clientDeviceId);
  state.deviceId = binding?.deviceId;
  return 'continue';
}

async function storeConnectorKeys({ message, samples }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  await repos.keys.store(message.organizationId, message, samples, sampledAt(message), message.receivedAt);
  return 'continue';
}

async function touchLastSeen({ message, deviceId }: UplinkState, repos: UplinkRepositories): Promise<StepOutcome> {
  if (deviceId !== undefined) await repos.devices.touchLastSeen(message.organizationId, deviceId, message.receivedAt);
  return 'continue';
}

function samplesOf({ payload, fPort }: UplinkMessage): Flattened {
  if (payload.kind === 'json') return flatten(payload.value);
  const bytes: Sample = ['bytes', Buffer.from(payload.bytes).toString('hex')];
  return { samples: fPort === undefined ? [bytes] : [bytes, ['fPort', fPort]], isComplete: true };
}

/** A device whose clock runs ahead must not keep its later samples out. */
function sampledAt({ time, receivedAt }: UplinkMessage): number {
  return time !== undefined && time >= 0 && time <= receivedAt ? Math.floor(time) : receivedAt;
}

function isId(text: string, longest: number): boolean {
  return text !== '' && Array.from(text).length <= longest && !UNUSABLE.test(text);
}

function rejected(reason: string): StepOutcome {
  return { stop: { outcome: 'rejected', reason } };
}
