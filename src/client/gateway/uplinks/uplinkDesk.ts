import type { GatewayEvent } from '../events';
import { GatewayError } from '../gatewayError';
import type { GatewayUplink } from '../options';
import { pause } from '../pause';
import type { KeptUplink } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import { uplinkMessage } from './uplinkMessage';

/** What taking uplinks in needs. */
export interface UplinkDeskOptions {
  readonly writer: StoreWriter;
  readonly mostUplinks: number;
  readonly mostUplinkBytes: number;
  readonly report: (event: GatewayEvent) => void;
  /** There are new ones in the store. */
  readonly onAdded: () => void;
}

// So many of a source are being kept at a time: they share the wait for the disk.
const MOST_UNDER_WAY = 256;
const RETRY_MS = 1000;
const LOOK_MS = 50;

/** Takes uplinks in: from `send`, and from a source as long as there is room. */
export class UplinkDesk {
  private isStopped = false;
  private underWay = 0;
  /** Resumes the reading of the source. */
  private wake: (() => void) | undefined;
  /** Ends the wait for the source. */
  private leave: (() => void) | undefined;
  /** The wait for a store that refused one; all of the source share it, so that they get in in their order. */
  private recovery: Promise<void> | undefined;
  private readonly stopped = new AbortController();

  constructor(private readonly options: UplinkDeskOptions) {}

  /** Keeps one. Rejects with GatewayError: `stopped`, `uplink_invalid`, `uplinks_full`, or what the store says. */
  async send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }> {
    if (this.isStopped) throw new GatewayError('stopped', 'the gateway has stopped and takes no uplinks any more');
    const kept = uplinkMessage(uplink);
    if (!this.hasRoom()) throw this.full();
    await this.write(kept);
    return { uplinkId: kept.uplinkId };
  }

  /** Reads a source to its end, as fast as its uplinks can be kept, until the gateway stops. Rejects with what it throws. */
  async readAll(source: AsyncIterable<GatewayUplink>): Promise<void> {
    const uplinks = source[Symbol.asyncIterator]();
    while (await this.room()) {
      const next = await this.next(uplinks);
      if (next.done === true) break;
      this.take(next.value);
    }
    if (this.isStopped) void Promise.resolve(uplinks.return?.()).catch(() => {}); // it may wait for something that never comes
  }

  /** Takes nothing any more. */
  stop(): void {
    this.isStopped = true;
    this.stopped.abort();
    this.leave?.();
    this.wake?.();
  }

  private hasRoom(): boolean {
    const { writer, mostUplinks, mostUplinkBytes } = this.options;
    return writer.uplinkCount < mostUplinks && writer.uplinkBytes < mostUplinkBytes;
  }

  private full(): GatewayError {
    const { uplinkCount, uplinkBytes } = this.options.writer;
    return new GatewayError('uplinks_full', `the gateway keeps ${uplinkCount} uplinks of ${uplinkBytes} bytes that the server has not acknowledged (mostUplinks, mostUplinkBytes), and takes more when it has`);
  }

  private async write(kept: KeptUplink): Promise<void> {
    await this.options.writer.write({ kind: 'uplink', uplink: kept });
    this.options.onAdded();
  }

  /** Waits for room. Answers false when the gateway stops. */
  private async room(): Promise<boolean> {
    while (!this.isStopped && !this.hasRoom()) await pause(LOOK_MS, this.stopped.signal); // the store lets what was acknowledged go in a moment
    while (!this.isStopped && this.underWay >= MOST_UNDER_WAY) await new Promise<void>((resolve) => (this.wake = resolve));
    return !this.isStopped;
  }

  /** The next of the source; its end as well when the gateway stops. */
  private async next(uplinks: AsyncIterator<GatewayUplink, unknown>): Promise<IteratorResult<GatewayUplink, unknown>> {
    return await new Promise((resolve, reject) => {
      this.leave = () => resolve({ done: true, value: undefined });
      Promise.resolve(uplinks.next()).then(resolve, reject);
    });
  }

  private take(uplink: GatewayUplink): void {
    const kept = this.findMessage(uplink);
    if (!kept) return;
    this.underWay += 1;
    void this.keep(kept, uplink.clientDeviceId).finally(() => {
      this.underWay -= 1;
      this.wake?.();
    });
  }

  private findMessage(uplink: GatewayUplink): KeptUplink | undefined {
    try {
      return uplinkMessage(uplink);
    } catch (error) {
      this.refuse(String((uplink as GatewayUplink | undefined)?.clientDeviceId), (error as Error).message);
      return undefined;
    }
  }

  /** Keeps one of the source, as often as it takes. */
  private async keep(kept: KeptUplink, clientDeviceId: string): Promise<void> {
    for (;;) {
      await this.recovery;
      try {
        return await this.write(kept);
      } catch {
        if (this.isStopped) return this.refuse(clientDeviceId, 'the gateway stopped before the store took it');
        this.recovery ??= pause(RETRY_MS, this.stopped.signal).then(() => (this.recovery = undefined));
      }
    }
  }

  private refuse(clientDeviceId: string, message: string): void {
    this.options.report({ event: 'uplink_refused', clientDeviceId, message });
  }
}
