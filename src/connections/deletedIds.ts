const MOST = 10_000;

/** The ids of the connections that were deleted last, for what still comes of them: that is a matter of seconds, so only the last 10,000 are kept. No id is ever used again. */
export class DeletedIds {
  private readonly ids = new Set<string>();

  /** The connection was deleted. */
  add(id: string): void {
    this.ids.add(id);
    if (this.ids.size <= MOST) return;
    const [oldest = id] = this.ids;
    this.ids.delete(oldest);
  }

  /** Whether it is one of them. */
  has(id: string): boolean {
    return this.ids.has(id);
  }
}
