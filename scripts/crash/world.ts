/** A command as a device receives it. */
export interface DeviceCommand {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly payload: unknown;
}

interface MovePayload {
  readonly n?: number;
  readonly trigger?: string;
}

/** The devices: records what they did and how often. It does not suppress repeated commands. */
export class World {
  /** How often each move was carried out, by execution id. */
  readonly executions = new Map<string, number>();
  /** How often each move was carried out, by trigger id. */
  readonly triggers = new Map<string, number>();
  /** How often each query was carried out, by execution id. */
  readonly queries = new Map<string, number>();
  /** The last position of each device, which its uplinks report. */
  readonly positions = new Map<string, number>();
  /** Commands that a device received after a newer one. */
  readonly outOfOrder: string[] = [];

  /** `repeats`: the same positions are requested repeatedly, so that the order of commands cannot be checked. */
  constructor(private readonly options: { readonly repeats?: boolean } = {}) {}

  /** Carries out a command. */
  carryOut({ executionId, clientDeviceId, payload }: DeviceCommand): void {
    const { n, trigger } = payload as MovePayload;
    if (n === undefined || trigger === undefined) return increment(this.queries, executionId);
    increment(this.executions, executionId);
    increment(this.triggers, trigger);
    if (!this.options.repeats && n < (this.positions.get(clientDeviceId) ?? 0))
      this.outOfOrder.push(`${clientDeviceId}: ${n} after ${this.positions.get(clientDeviceId)}`);
    this.positions.set(clientDeviceId, n);
  }

  /** Lists what was carried out more than once. */
  listDuplicates(): string[] {
    return [this.executions, this.triggers, this.queries].flatMap((counts) =>
      [...counts].filter(([, times]) => times > 1).map(([id, times]) => `${id} was carried out ${times} times`),
    );
  }
}

function increment(counts: Map<string, number>, id: string): void {
  counts.set(id, (counts.get(id) ?? 0) + 1);
}
