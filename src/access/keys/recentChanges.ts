import { dropOldest } from './oldest';

/** As many ids as are kept; whoever asks about a time before those that were let go is told that there was a change. */
const MOST = 10_000;

/** When which keys and organizations were last changed: nobody else's keys have to be read again. */
export class RecentChanges {
  /** The number of the last change of each id. */
  private readonly last = new Map<string, number>();
  private count = 0;
  /** Up to this one changes may have been let go. */
  private dropped = 0;

  /** The number of the last change of all. */
  get latest(): number {
    return this.count;
  }

  /** A key or an organization was changed. */
  note(id: string): void {
    this.count += 1;
    if (!this.last.delete(id)) this.makeRoom();
    this.last.set(id, this.count);
  }

  /** Whether the key or its organization may have been changed after the change of this number. */
  hasChanged(since: number, keyId: string, organizationId: string): boolean {
    if (since === this.count) return false;
    return since < this.dropped || (this.last.get(keyId) ?? 0) > since || (this.last.get(organizationId) ?? 0) > since;
  }

  private makeRoom(): void {
    const { size } = this.last;
    dropOldest(this.last, MOST);
    if (this.last.size === size) return;
    const [oldest = this.count] = this.last.values();
    this.dropped = oldest - 1;
  }
}
