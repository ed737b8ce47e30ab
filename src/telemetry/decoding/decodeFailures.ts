import type { UplinkMessage } from '../../connections';
import type { Logger } from '../../kernel/logger';
import { Counter } from '../../kernel/counter';

/** Why an uplink was not decoded. */
export interface DecodeFailure {
  /** A CodecErrorCode, or a code of this module. */
  readonly code: string;
  /** The message of the script or of the server; it may contain data of the device. */
  readonly message: string;
}

const MAX_DEVICES = 10_000;

/**
 * Counts and logs uplinks that were not decoded. Of each device, the 1st, 2nd, 4th, 8th and so on is logged, because a
 * broken decoder fails with every uplink.
 */
export class DecodeFailures {
  /** The number of failures by code. */
  readonly counts = new Counter();
  private readonly countByDevice = new Map<string, number>();

  constructor(private readonly log: Logger) {}

  /** Counts one failure, and logs it if its number for the device is a power of two. */
  add({ organizationId, connectionId, clientDeviceId }: UplinkMessage, codecId: string, { code }: DecodeFailure): void {
    this.counts.add(code);
    const deviceKey = `${connectionId} ${clientDeviceId}`;
    const failures = (this.countByDevice.get(deviceKey) ?? 0) + 1;
    // Moves the device to the end of the map, so that the least recent one is first.
    this.countByDevice.delete(deviceKey);
    this.countByDevice.set(deviceKey, failures);
    const [oldestKey] = this.countByDevice.keys();
    if (this.countByDevice.size > MAX_DEVICES && oldestKey !== undefined) this.countByDevice.delete(oldestKey);
    if (Number.isInteger(Math.log2(failures)))
      this.log.warn(
        {
          organization_id: organizationId,
          connection_id: connectionId,
          client_device_id: clientDeviceId,
          codec_id: codecId,
          code,
          failures,
        },
        'telemetry.decode_failed',
      );
  }
}
