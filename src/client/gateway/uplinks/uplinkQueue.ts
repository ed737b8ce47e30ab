import type { GatewayEvent } from '../events';
import { GatewayError } from '../gatewayError';
import type { GatewayUplink } from '../options';
import { delay } from '../../delay';
import type { StoredUplink } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import { encodeUplink } from './uplinkMessage';

/** Dependencies of UplinkQueue. */
export interface UplinkQueueOptions {
  readonly writer: StoreWriter;
  readonly maxUplinks: number;
  readonly maxUplinkBytes: number;
  readonly report: (event: GatewayEvent) => void;
  /** Called after uplinks were stored. */
  readonly onAdded: () => void;
}

// The maximum number of uplinks of the source that are being stored at a time; they share disk writes.
const MAX_IN_PROGRESS = 256;
const RETRY_MS = 1000;
const CHECK_INTERVAL_MS = 50;

/** Stores uplinks from `send`, and from a source as long as there is capacity. */
export class UplinkQueue {
  private isStopped = false;
  private inProgressCount = 0;
  /** Resumes the reading of the source. */
  private resumeReading: (() => void) | undefined;
  /** Ends the wait for the next uplink of the source, as if the source had ended. */
  private stopWaiting: (() => void) | undefined;
  /** The wait after a failed write; all uplinks of the source share it, so that their order is kept. */
  private recovery: Promise<void> | undefined;
  private readonly stopped = new AbortController();

  constructor(private readonly options: UplinkQueueOptions) {}

  /**
   * Stores an uplink. Rejects with GatewayError `stopped`, `uplink_invalid`, `uplinks_full`, or an error of the store.
   */
  async send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }> {
    if (this.isStopped) throw new GatewayError('stopped', 'the gateway has stopped and accepts no more uplinks');
    const stored = encodeUplink(uplink);
    if (!this.hasCapacity()) throw this.createFullError();
    await this.write(stored);
    return { uplinkId: stored.uplinkId };
  }

  /**
   * Reads a source to its end as fast as its uplinks can be stored, until the gateway stops. Rejects with the error of
   * the source.
   */
  async readAll(source: AsyncIterable<GatewayUplink>): Promise<void> {
    const uplinks = source[Symbol.asyncIterator]();
    while (await this.waitForCapacity()) {
      const next = await this.readNext(uplinks);
      if (next.done === true) break;
      this.addFromSource(next.value);
    }
    // Not awaited: the source may never return.
    if (this.isStopped) void Promise.resolve(uplinks.return?.()).catch(() => {});
  }

  /** Accepts no more uplinks. */
  stop(): void {
    this.isStopped = true;
    this.stopped.abort();
    this.stopWaiting?.();
    this.resumeReading?.();
  }

  private hasCapacity(): boolean {
    const { writer, maxUplinks, maxUplinkBytes } = this.options;
    return writer.uplinkCount < maxUplinks && writer.uplinkBytes < maxUplinkBytes;
  }

  private createFullError(): GatewayError {
    const { uplinkCount, uplinkBytes } = this.options.writer;
    return new GatewayError(
      'uplinks_full',
      `the gateway already stores ${uplinkCount} uplinks with ${uplinkBytes} bytes that the server has not acknowledged (limits: maxUplinks, maxUplinkBytes); try again after the server acknowledged some`,
    );
  }

  /** Writes an uplink to the store, and reports that one was added. */
  private async write(stored: StoredUplink): Promise<void> {
    await this.options.writer.write({ kind: 'uplink', uplink: stored });
    this.options.onAdded();
  }

  /**
   * Waits until the store has capacity and less than MAX_IN_PROGRESS uplinks of the source are being stored. Returns
   * false when the gateway stops.
   */
  private async waitForCapacity(): Promise<boolean> {
    // The store removes acknowledged uplinks after a short delay, so it is checked again and again.
    while (!this.isStopped && !this.hasCapacity()) await delay(CHECK_INTERVAL_MS, this.stopped.signal);
    while (!this.isStopped && this.inProgressCount >= MAX_IN_PROGRESS)
      await new Promise<void>((resolve) => (this.resumeReading = resolve));
    return !this.isStopped;
  }

  /** Returns the next uplink of the source, or the end of the iteration when the gateway stops. */
  private async readNext(
    uplinks: AsyncIterator<GatewayUplink, unknown>,
  ): Promise<IteratorResult<GatewayUplink, unknown>> {
    return await new Promise((resolve, reject) => {
      this.stopWaiting = () => resolve({ done: true, value: undefined });
      Promise.resolve(uplinks.next()).then(resolve, reject);
    });
  }

  /** Starts to store an uplink of the source; an invalid one is reported and skipped. */
  private addFromSource(uplink: GatewayUplink): void {
    const stored = this.tryEncode(uplink);
    if (!stored) return;
    this.inProgressCount += 1;
    void this.storeWithRetry(stored, uplink.clientDeviceId).finally(() => {
      this.inProgressCount -= 1;
      this.resumeReading?.();
    });
  }

  /** Encodes an uplink; undefined: it is invalid, which was reported. */
  private tryEncode(uplink: GatewayUplink): StoredUplink | undefined {
    try {
      return encodeUplink(uplink);
    } catch (error) {
      this.reportRejected(String((uplink as GatewayUplink | undefined)?.clientDeviceId), (error as Error).message);
      return undefined;
    }
  }

  /** Stores an uplink of the source and retries until it succeeds or the gateway stops. */
  private async storeWithRetry(stored: StoredUplink, clientDeviceId: string): Promise<void> {
    for (;;) {
      await this.recovery;
      try {
        await this.write(stored);
        return;
      } catch {
        if (this.isStopped) {
          this.reportRejected(clientDeviceId, 'the gateway stopped before it was stored');
          return;
        }
        this.recovery ??= delay(RETRY_MS, this.stopped.signal).then(() => (this.recovery = undefined));
      }
    }
  }

  private reportRejected(clientDeviceId: string, message: string): void {
    this.options.report({ event: 'uplink_rejected', clientDeviceId, message });
  }
}
