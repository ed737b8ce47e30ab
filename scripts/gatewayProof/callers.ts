import { setTimeout as wait } from 'node:timers/promises';
import { type ClientOptions, createPlantroomClient, PlantroomError } from '../../src/client';
import type { Actuator } from '../crash/plant';
import type { Acknowledged } from '../crash/submitters';

const AGAIN_MS = 50;
const LONGEST_MS = 60_000;
const LOOK_EVERY_MS = 20;

/**
 * The callers: one for each device, one call after another, by plantroom-client. Every other call brings a trigger id of its own; of the others the client
 * makes one, where the server stays. No server is away for long, so a client that gives up is at fault; then the call is made again, to go on.
 */
export class Callers {
  /** By trigger id, or by execution id where the client made it. */
  readonly acknowledged = new Map<string, Acknowledged>();
  /** Calls that had no answer, or not at the first time. */
  readonly failed: string[] = [];
  /** How often the client gave up, and a call was made again with its trigger id. */
  calledAgain = 0;
  private readonly client: ReturnType<typeof createPlantroomClient>;
  private readonly next: number[];
  private readonly running = new Map<number, Promise<void>>();
  private allowed = 0;
  private begun = 0;

  constructor(
    private readonly actuators: readonly Actuator[],
    private readonly serverStays: boolean,
    server: Pick<ClientOptions, 'address' | 'apiKey' | 'organizationId'>,
  ) {
    this.client = createPlantroomClient({ ...server, insecure: true });
    this.next = actuators.map(() => 1);
  }

  /** So many calls are to be made in all. */
  allow(total: number): void {
    this.allowed = total;
    for (const [at, actuator] of this.actuators.entries()) {
      // One that has nothing to do would be over before it is noted, and seem to run for ever.
      if (!this.running.has(at) && this.begun < this.allowed) this.running.set(at, this.run(actuator, at));
    }
  }

  /** Resolves when every call that is allowed has its answer. */
  async done(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running.values());
  }

  /** Resolves when one more call has its answer, or after so long. */
  async answers(longestMs: number): Promise<void> {
    const before = this.acknowledged.size;
    for (const since = performance.now(); this.acknowledged.size === before && performance.now() - since < longestMs; ) await wait(LOOK_EVERY_MS);
  }

  /** One call for each device, at once. */
  async callAll(): Promise<void> {
    await Promise.all(this.actuators.map(async (actuator, at) => await this.call(actuator, at)));
  }

  close(): void {
    this.client.close();
  }

  private async run(actuator: Actuator, at: number): Promise<void> {
    while (this.begun < this.allowed) {
      this.begun += 1;
      await this.call(actuator, at);
    }
    this.running.delete(at);
  }

  private async call({ deviceId, commandId, clientDeviceId, sensorId }: Actuator, at: number): Promise<void> {
    const n = this.next[at] ?? 1;
    this.next[at] = n + 1;
    const own = n % 2 === 0 || !this.serverStays ? `${clientDeviceId}/${n}` : '';
    try {
      const { executionId, accepted } = await this.execute({ id: deviceId, commandId, params: { n }, ...(own && { triggerId: own }) });
      const trigger = own || executionId;
      this.acknowledged.set(trigger, { trigger, n, actuator: { deviceId, commandId, clientDeviceId, sensorId }, executionId, accepted });
    } catch (error) {
      this.failed.push(`the call ${n} of ${clientDeviceId} had no answer: ${String(error)}`);
    }
  }

  private async execute(request: Parameters<typeof this.client.commands.executeCommand>[0]): Promise<{ readonly executionId: string; readonly accepted: boolean }> {
    for (const since = performance.now(); ; ) {
      try {
        return await this.client.commands.executeCommand(request);
      } catch (error) {
        const isAway = error instanceof PlantroomError && error.status === 'UNAVAILABLE';
        if (!isAway || !request.triggerId || performance.now() - since > LONGEST_MS) throw error;
        this.calledAgain += 1;
        this.failed.push(`the client gave up on ${request.triggerId} after ${Math.round(performance.now() - since)} ms: ${error.message}`);
        await wait(AGAIN_MS);
      }
    }
  }
}
