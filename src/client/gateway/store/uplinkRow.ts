import { PAGE_BYTES, type QueuedUplink } from './gatewayStore';

/** Uplinks in memory, in the order in which they came. Looking from a position costs no walk from the beginning. */
export class UplinkRow {
  /** By position; what is acknowledged stays until the row is tidied. */
  private row: QueuedUplink[] = [];
  private lastPosition = 0;
  private readonly kept = new Map<string, QueuedUplink>();
  private keptBytes = 0;

  get count(): number {
    return this.kept.size;
  }

  /** How many bytes their messages have. */
  get bytes(): number {
    return this.keptBytes;
  }

  /** Adds one at the end, unless one of this id is in it. */
  add(uplinkId: string, message: Uint8Array): void {
    if (this.kept.has(uplinkId)) return;
    this.lastPosition += 1;
    const uplink = { uplinkId, message, position: this.lastPosition };
    this.row.push(uplink);
    this.kept.set(uplinkId, uplink);
    this.keptBytes += message.length;
  }

  /** Takes one out, if it is in it. */
  remove(uplinkId: string): void {
    const uplink = this.kept.get(uplinkId);
    if (!uplink) return;
    this.kept.delete(uplinkId);
    this.keptBytes -= uplink.message.length;
    // Seldom, so that a removal costs little on the whole, and often enough that the row is not mostly of what is gone.
    if (this.row.length > 2 * this.count + 1000) this.row = this.row.filter((uplink) => this.isKept(uplink));
  }

  /** Those after a position, as of `GatewayStore.uplinksAfter`. */
  after(position: number, most: number): QueuedUplink[] {
    const found: QueuedUplink[] = [];
    let bytes = 0;
    for (let at = this.indexAfter(position); at < this.row.length && found.length < most && bytes < PAGE_BYTES; at += 1) {
      const uplink = this.row[at] as QueuedUplink;
      if (!this.isKept(uplink)) continue;
      found.push(uplink);
      bytes += uplink.message.length;
    }
    return found;
  }

  private isKept(uplink: QueuedUplink): boolean {
    return this.kept.get(uplink.uplinkId) === uplink;
  }

  private indexAfter(position: number): number {
    let low = 0;
    let high = this.row.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.row[middle] as QueuedUplink).position > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
