/** What a command told a device to do. */
export interface Deed {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly payload: unknown;
}

interface Told {
  readonly n?: number;
  readonly trigger?: string;
}

/** The devices: what was physically done, and how often. Nothing here is ever forgotten or done at most once by itself. */
export class World {
  /** How often each execution that acts was carried out. */
  readonly executions = new Map<string, number>();
  /** The same by what set it off. */
  readonly triggers = new Map<string, number>();
  /** How often each execution that only asks for the state was carried out. */
  readonly queries = new Map<string, number>();
  /** What each device was last told; it shows it in its uplinks. */
  readonly positions = new Map<string, number>();
  /** Where a device was told something older than what it had been told before. */
  readonly outOfOrder: string[] = [];

  /** The device does it. */
  carryOut({ executionId, clientDeviceId, payload }: Deed): void {
    const { n, trigger } = payload as Told;
    if (n === undefined || trigger === undefined) return count(this.queries, executionId);
    count(this.executions, executionId);
    count(this.triggers, trigger);
    if (n < (this.positions.get(clientDeviceId) ?? 0)) this.outOfOrder.push(`${clientDeviceId}: ${n} after ${this.positions.get(clientDeviceId)}`);
    this.positions.set(clientDeviceId, n);
  }

  /** What was done more than once. */
  doubled(): string[] {
    return [this.executions, this.triggers, this.queries].flatMap((counts) => [...counts].filter(([, times]) => times > 1).map(([id, times]) => `${id} was carried out ${times} times`));
  }
}

function count(counts: Map<string, number>, id: string): void {
  counts.set(id, (counts.get(id) ?? 0) + 1);
}
