import { PAGE_BYTES, type QueuedUplink } from './gatewayStore';

/** A list with few uplinks is not compacted before it has this number of removed entries. */
const MAX_REMOVED_IN_SHORT_LIST = 1000;

/** Uplinks in memory, in the order of their arrival. A look-up by position uses binary search. */
export class UplinkList {
  /** Sorted by position; removed uplinks stay until the list is compacted. */
  private entries: QueuedUplink[] = [];
  private lastPosition = 0;
  private readonly byId = new Map<string, QueuedUplink>();
  private totalBytes = 0;

  get count(): number {
    return this.byId.size;
  }

  /** The total size of their messages in bytes. */
  get bytes(): number {
    return this.totalBytes;
  }

  /** Adds an uplink at the end, unless one with this id is present. */
  add(uplinkId: string, message: Uint8Array): void {
    if (this.byId.has(uplinkId)) return;
    this.lastPosition += 1;
    const uplink = { uplinkId, message, position: this.lastPosition };
    this.entries.push(uplink);
    this.byId.set(uplinkId, uplink);
    this.totalBytes += message.length;
  }

  /** Removes an uplink if it is present. */
  remove(uplinkId: string): void {
    const uplink = this.byId.get(uplinkId);
    if (!uplink) return;
    this.byId.delete(uplinkId);
    this.totalBytes -= uplink.message.length;
    // Compacts rarely, so that a removal is cheap on average, but often enough that at most about half of the entries
    // are removed ones.
    if (this.entries.length > 2 * this.count + MAX_REMOVED_IN_SHORT_LIST)
      this.entries = this.entries.filter((uplink) => this.isPresent(uplink));
  }

  /** Lists the uplinks after a position, as `GatewayStore.uplinksAfter` does. */
  listAfter(position: number, max: number): QueuedUplink[] {
    const uplinks: QueuedUplink[] = [];
    let bytes = 0;
    const start = this.findIndexAfter(position);
    for (let index = start; index < this.entries.length && uplinks.length < max && bytes < PAGE_BYTES; index += 1) {
      const uplink = this.entries[index] as QueuedUplink;
      if (!this.isPresent(uplink)) continue;
      uplinks.push(uplink);
      bytes += uplink.message.length;
    }
    return uplinks;
  }

  /** Whether the entry was not removed. A later uplink may have the same id. */
  private isPresent(uplink: QueuedUplink): boolean {
    return this.byId.get(uplink.uplinkId) === uplink;
  }

  /**
   * Returns the index of the first entry with a greater position, by binary search; the length of the list if there is
   * none.
   */
  private findIndexAfter(position: number): number {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.entries[middle] as QueuedUplink).position > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
