import {
  type AttachRequest,
  type UplinkAck,
  type Uplink,
  UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';

type Send = (message: NonNullable<AttachRequest['message']>) => void;

/** The uplinks of a gateway. Each one is kept and resent until the server has acknowledged it. */
export class FieldUplinks {
  private readonly open = new Map<string, Uplink>();
  private readonly stored = new Map<string, Uplink>();
  private recheck: { readonly lost: string[]; readonly waiting: Set<string>; readonly done: () => void } | undefined;
  /** Uplinks that the server rejected. */
  readonly rejected: string[] = [];

  constructor(private readonly send: Send) {}

  /** The number of uplinks that the server acknowledged as stored. */
  get acknowledgedCount(): number {
    return this.stored.size;
  }

  /** The number of unacknowledged uplinks. */
  get openCount(): number {
    return this.open.size;
  }

  /** Sends the position of a device as an uplink. */
  sendPosition(clientDeviceId: string, position: number): void {
    const uplink: Uplink = {
      uplinkId: newId(),
      clientDeviceId,
      time: toTimestamp(Date.now()),
      payload: { $case: 'json', value: { position } },
      fPort: undefined,
    };
    this.open.set(uplink.uplinkId, uplink);
    this.send({ $case: 'uplink', value: uplink });
  }

  /** Sends all unacknowledged uplinks again. */
  resend(): void {
    for (const uplink of this.open.values()) this.send({ $case: 'uplink', value: uplink });
  }

  /** Discards the unacknowledged uplinks, as a gateway with a volatile store does at its restart. */
  forgetOpen(): void {
    this.open.clear();
  }

  handleAck({ uplinkId, outcome, reason }: UplinkAck): void {
    const uplink = this.open.get(uplinkId);
    this.open.delete(uplinkId);
    if (outcome === UplinkOutcome.UPLINK_OUTCOME_REJECTED) this.rejected.push(`uplink ${uplinkId}: ${reason}`);
    else if (uplink) this.stored.set(uplinkId, uplink);
    if (!this.recheck?.waiting.delete(uplinkId)) return;
    if (outcome !== UplinkOutcome.UPLINK_OUTCOME_DUPLICATE)
      this.recheck.lost.push(`uplink ${uplinkId} was acknowledged but is not stored`);
    if (this.recheck.waiting.size === 0) this.recheck.done();
  }

  /**
   * Sends every acknowledged uplink again and returns those that the server does not report as duplicates. The gateway
   * must be attached.
   */
  async findLost(): Promise<string[]> {
    if (this.stored.size === 0) return [];
    const { promise, resolve } = Promise.withResolvers<void>();
    this.recheck = { lost: [], waiting: new Set(this.stored.keys()), done: resolve };
    for (const uplink of this.stored.values()) this.send({ $case: 'uplink', value: uplink });
    await promise;
    return this.recheck.lost;
  }
}
