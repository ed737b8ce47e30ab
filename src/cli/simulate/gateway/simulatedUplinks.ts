import { type Gateway, GatewayError, type GatewayUplink } from '../../../client/gateway';
import { newId } from '../../../kernel/ids';
import { encodeReading } from '../rawReading';
import type { Report, SimulatorOptions } from './simulatorOptions';

/** The maximum number of buffered uplinks while the server is unreachable: further ones are dropped. */
export const MAX_UPLINKS = 1000;

const BINARY_F_PORT = 2;

/** Reads the devices and passes their readings to the gateway. */
export class SimulatedUplinks {
  /** The readings of unacknowledged uplinks, for the events. */
  private readonly readingsByUplinkId = new Map<string, SimulatorFields>();
  private timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly options: SimulatorOptions,
    private readonly gateway: Pick<Gateway, 'send'>,
    private readonly report: Report,
  ) {}

  /** Makes each device send immediately, and then at its interval. */
  start(): void {
    const { uplinkIntervalMs, devices } = this.options;
    if (uplinkIntervalMs === 0) return;
    for (const { clientDeviceId } of devices) {
      this.sendReadings(clientDeviceId);
      this.timers.push(setInterval(() => this.sendReadings(clientDeviceId), uplinkIntervalMs));
    }
  }

  stop(): void {
    for (const timer of this.timers) clearInterval(timer);
    this.timers = [];
  }

  /** Sends the current readings of a device. */
  sendReadings(clientDeviceId: string): void {
    const device = this.options.devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
    if (!device) return;
    const uplinkId = newId();
    const values = device.read();
    const bytes = this.options.binaryPayload === true ? encodeReading(values) : undefined;
    this.readingsByUplinkId.set(uplinkId, bytes ? { bytes: bytes.toString('hex') } : { values });
    const content = bytes
      ? ({ payload: { kind: 'bytes', bytes }, fPort: BINARY_F_PORT } as const)
      : ({ payload: { kind: 'json', value: values } } as const);
    void this.send({ uplinkId, clientDeviceId, time: new Date(), ...content });
  }

  /** Reports an uplink as sent. The readings of an uplink from an earlier start are unknown. */
  reportSent(uplinkId: string, clientDeviceId: string): void {
    this.report('uplink.sent', {
      uplink_id: uplinkId,
      device: clientDeviceId,
      ...this.readingsByUplinkId.get(uplinkId),
    });
  }

  /** Reports an uplink as acknowledged or rejected. */
  reportAcknowledged(uplinkId: string, outcome: string, reason: string): void {
    this.readingsByUplinkId.delete(uplinkId);
    this.report('uplink.acknowledged', { uplink_id: uplinkId, outcome, ...(reason && { reason }) });
  }

  /** Passes an uplink to the gateway; reports it as dropped if the gateway does not store it. */
  private async send(uplink: GatewayUplink & { readonly uplinkId: string }): Promise<void> {
    try {
      await this.gateway.send(uplink);
    } catch (error) {
      this.readingsByUplinkId.delete(uplink.uplinkId);
      const { reason, message } =
        error instanceof GatewayError ? error : { reason: 'internal', message: String(error) };
      if (reason !== 'stopped')
        this.report('uplink.dropped', { uplink_id: uplink.uplinkId, device: uplink.clientDeviceId, reason, message });
    }
  }
}

type SimulatorFields = Readonly<Record<string, unknown>>;
