import { type Gateway, GatewayError, type GatewayUplink } from '../../../client/gateway';
import { newId } from '../../../kernel/ids';
import { rawReading } from '../rawReading';
import type { Report, SimulatorOptions } from './simulatorOptions';

/** More are not kept while the server is away: each new one is dropped then. */
export const MOST_UPLINKS = 1000;

const RAW_PORT = 2;

/** Reads the devices and hands their readings to the gateway. */
export class SimulatedUplinks {
  /** What the events show of uplinks that are not acknowledged. */
  private readonly shown = new Map<string, SimulatorFields>();
  private timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly options: SimulatorOptions,
    private readonly gateway: Pick<Gateway, 'send'>,
    private readonly report: Report,
  ) {}

  /** Has each device send at once, and then in its interval. */
  start(): void {
    const { uplinkIntervalMs, devices } = this.options;
    if (uplinkIntervalMs === 0) return;
    for (const { clientDeviceId } of devices) {
      this.measure(clientDeviceId);
      this.timers.push(setInterval(() => this.measure(clientDeviceId), uplinkIntervalMs));
    }
  }

  stop(): void {
    for (const timer of this.timers) clearInterval(timer);
    this.timers = [];
  }

  /** A device sends what it shows now. */
  measure(clientDeviceId: string): void {
    const device = this.options.devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
    if (!device) return;
    const uplinkId = newId();
    const values = device.read();
    const bytes = this.options.raw === true ? rawReading(values) : undefined;
    this.shown.set(uplinkId, bytes ? { bytes: bytes.toString('hex') } : { values });
    const reading = bytes ? ({ payload: { kind: 'bytes', bytes }, fPort: RAW_PORT } as const) : ({ payload: { kind: 'json', value: values } } as const);
    void this.send({ uplinkId, clientDeviceId, time: new Date(), ...reading });
  }

  /** An uplink leaves; one of an earlier start is known by its names alone. */
  sent(uplinkId: string, clientDeviceId: string): void {
    this.report('uplink.sent', { uplink_id: uplinkId, device: clientDeviceId, ...this.shown.get(uplinkId) });
  }

  /** The server has it, or will never take it. */
  acknowledged(uplinkId: string, outcome: string, reason: string): void {
    this.shown.delete(uplinkId);
    this.report('uplink.acknowledged', { uplink_id: uplinkId, outcome, ...(reason && { reason }) });
  }

  private async send(uplink: GatewayUplink & { readonly uplinkId: string }): Promise<void> {
    try {
      await this.gateway.send(uplink);
    } catch (error) {
      this.shown.delete(uplink.uplinkId);
      const { reason, message } = error instanceof GatewayError ? error : { reason: 'internal', message: String(error) };
      if (reason !== 'stopped') this.report('uplink.dropped', { uplink_id: uplink.uplinkId, device: uplink.clientDeviceId, reason, message });
    }
  }
}

type SimulatorFields = Readonly<Record<string, unknown>>;
