import type { UplinkMessage } from '../../connections';
import type { Logger } from '../../kernel/logger';
import { Tally } from '../../kernel/tally';

/** Why an uplink was not decoded. */
export interface DecodeFailure {
  /** One of CodecErrorCode, or a code of ours. */
  readonly code: string;
  /** What the script or we say of it; it may hold what the device sent. */
  readonly message: string;
}

const MOST_DEVICES = 10_000;

/** Tells the log of uplinks that were not decoded, of each device the first, the second, the fourth and so on: a decoder that fails does so with every uplink. */
export class DecodeFailures {
  /** How often, by code. */
  readonly counts = new Tally();
  private readonly failures = new Map<string, number>();

  constructor(private readonly log: Logger) {}

  /** One more. */
  add({ organizationId, connectionId, clientDeviceId }: UplinkMessage, codecId: string, { code }: DecodeFailure): void {
    this.counts.add(code);
    const device = `${connectionId} ${clientDeviceId}`;
    const failures = (this.failures.get(device) ?? 0) + 1;
    this.failures.delete(device); // it becomes the youngest
    this.failures.set(device, failures);
    const [oldest] = this.failures.keys();
    if (this.failures.size > MOST_DEVICES && oldest !== undefined) this.failures.delete(oldest);
    if (Number.isInteger(Math.log2(failures))) this.log.warn({ organization_id: organizationId, connection_id: connectionId, client_device_id: clientDeviceId, codec_id: codecId, code, failures }, 'telemetry.decode_failed');
  }
}
