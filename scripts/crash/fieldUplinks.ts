import { type AttachRequest, type UplinkAck, type Uplink, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';

type Send = (message: NonNullable<AttachRequest['message']>) => void;

/** The uplinks of a gateway: each is kept and resent until the server has acknowledged it. */
export class FieldUplinks {
  private readonly open = new Map<string, Uplink>();
  private readonly stored = new Map<string, Uplink>();
  private rechecking: { readonly lost: string[]; readonly waiting: Set<string>; readonly done: () => void } | undefined;
  /** What the server would not take. */
  readonly rejected: string[] = [];

  constructor(private readonly send: Send) {}

  /** How many the server has acknowledged as stored. */
  get acknowledgedCount(): number {
    return this.stored.size;
  }

  /** How many wait for that. */
  get openCount(): number {
    return this.open.size;
  }

  /** A device shows its position. */
  measured(clientDeviceId: string, position: number): void {
    const uplink: Uplink = { uplinkId: newId(), clientDeviceId, time: toTimestamp(Date.now()), payload: { $case: 'json', value: { position } }, fPort: undefined };
    this.open.set(uplink.uplinkId, uplink);
    this.send({ $case: 'uplink', value: uplink });
  }

  /** Everything that was not acknowledged, once more. */
  resend(): void {
    for (const uplink of this.open.values()) this.send({ $case: 'uplink', value: uplink });
  }

  /** The gateway lost its memory. */
  forgetOpen(): void {
    this.open.clear();
  }

  acknowledged({ uplinkId, outcome, reason }: UplinkAck): void {
    const uplink = this.open.get(uplinkId);
    this.open.delete(uplinkId);
    if (outcome === UplinkOutcome.UPLINK_OUTCOME_REJECTED) this.rejected.push(`uplink ${uplinkId}: ${reason}`);
    else if (uplink) this.stored.set(uplinkId, uplink);
    if (!this.rechecking?.waiting.delete(uplinkId)) return;
    if (outcome !== UplinkOutcome.UPLINK_OUTCOME_DUPLICATE) this.rechecking.lost.push(`uplink ${uplinkId} was acknowledged and is not there`);
    if (this.rechecking.waiting.size === 0) this.rechecking.done();
  }

  /** Sends every acknowledged uplink again: the server must know them all. Resolves to those that it does not; call it while attached. */
  async lost(): Promise<string[]> {
    if (this.stored.size === 0) return [];
    const { promise, resolve } = Promise.withResolvers<void>();
    this.rechecking = { lost: [], waiting: new Set(this.stored.keys()), done: resolve };
    for (const uplink of this.stored.values()) this.send({ $case: 'uplink', value: uplink });
    await promise;
    return this.rechecking.lost;
  }
}
