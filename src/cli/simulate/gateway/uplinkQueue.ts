import { newId } from '../../../kernel/ids';
import { toTimestamp } from '../../../kernel/timestamps';
import type { Uplink } from '../../../gen/gateway/v1/gateway_service';

// The oldest go first when the server is away for long.
const MOST = 1000;

/** Uplinks that the server has not acknowledged yet. */
export class UplinkQueue {
  private readonly waiting = new Map<string, { readonly uplink: Uplink; sentAt: number }>();

  /** Puts a reading in the queue. `dropped` is the uplink that had to go for it. */
  add(clientDeviceId: string, reading: Pick<Uplink, 'payload' | 'fPort'>, time: number): { uplink: Uplink; dropped: Uplink | undefined } {
    const uplink: Uplink = { uplinkId: newId(), clientDeviceId, time: toTimestamp(time), ...reading };
    this.waiting.set(uplink.uplinkId, { uplink, sentAt: 0 });
    const oldest = this.waiting.size > MOST ? this.waiting.values().next().value?.uplink : undefined;
    if (oldest) this.waiting.delete(oldest.uplinkId);
    return { uplink, dropped: oldest };
  }

  /** Those to send now: never sent, or sent before `before` and not acknowledged. They count as sent at `time`. */
  due(before: number, time: number): Uplink[] {
    const due = [...this.waiting.values()].filter((entry) => entry.sentAt < before);
    for (const entry of due) entry.sentAt = time;
    return due.map((entry) => entry.uplink);
  }

  /** The server has it, or will never take it. */
  acknowledge(uplinkId: string): void {
    this.waiting.delete(uplinkId);
  }
}
