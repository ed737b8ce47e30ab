import { setTimeout as wait } from 'node:timers/promises';
import { type ClientOptions, createPlantroomClient, PlantroomError } from '../../src/client';
import type { Actuator } from '../crash/plant';
import type { Acknowledged } from '../crash/submitters';

const RETRY_INTERVAL_MS = 50;
const MAX_DELAY_MS = 180_000;
const POLL_INTERVAL_MS = 20;
const NO_RESPONSE: ReadonlySet<string> = new Set(['UNAVAILABLE', 'DEADLINE_EXCEEDED']);

/**
 * The callers, one per device, which make one call after another with plantroom-client. Every other call has its own
 * trigger id; for the others the client creates one, if the server is never killed. It is a failure if the client gives
 * up while the server runs. If the server is killed again and again, a call may use up its attempts or its deadline; it
 * is then repeated with its trigger id.
 */
export class Callers {
  /** By trigger id, or by execution id if the client created the trigger id. */
  readonly acknowledged = new Map<string, Acknowledged>();
  /** Calls that failed although they should not. */
  readonly failed: string[] = [];
  /** How often the client gave up and a call was repeated with its trigger id. */
  repeatedCalls = 0;
  private readonly client: ReturnType<typeof createPlantroomClient>;
  private readonly next: number[];
  private readonly running = new Map<number, Promise<void>>();
  private allowed = 0;
  private startedCalls = 0;

  constructor(
    private readonly actuators: readonly Actuator[],
    private readonly serverStays: boolean,
    server: Pick<ClientOptions, 'address' | 'apiKey' | 'organizationId'>,
  ) {
    this.client = createPlantroomClient({ ...server, insecure: true });
    this.next = actuators.map(() => 1);
  }

  /** Sets the total number of calls that are made. */
  allow(total: number): void {
    this.allowed = total;
    for (const [at, actuator] of this.actuators.entries()) {
      // A caller without work would finish before it is registered, and seem to run forever.
      if (!this.running.has(at) && this.startedCalls < this.allowed) this.running.set(at, this.run(actuator, at));
    }
  }

  /** Resolves when every allowed call has its response. */
  async waitUntilDone(): Promise<void> {
    while (this.running.size > 0) await Promise.all(this.running.values());
  }

  /** Resolves when one more call has its response, or after `maxMs`. */
  async waitForResponse(maxMs: number): Promise<void> {
    const before = this.acknowledged.size;
    for (const since = performance.now(); this.acknowledged.size === before && performance.now() - since < maxMs;)
      await wait(POLL_INTERVAL_MS);
  }

  /** Makes one call for each device, concurrently. */
  async callAll(): Promise<void> {
    await Promise.all(this.actuators.map(async (actuator, at) => await this.call(actuator, at)));
  }

  close(): void {
    this.client.close();
  }

  private async run(actuator: Actuator, at: number): Promise<void> {
    while (this.startedCalls < this.allowed) {
      this.startedCalls += 1;
      await this.call(actuator, at);
    }
    this.running.delete(at);
  }

  private async call({ deviceId, commandId, clientDeviceId, sensorId }: Actuator, at: number): Promise<void> {
    const n = this.next[at] ?? 1;
    this.next[at] = n + 1;
    const ownTriggerId = n % 2 === 0 || !this.serverStays ? `${clientDeviceId}/${n}` : '';
    try {
      const { executionId, accepted } = await this.execute({
        id: deviceId,
        commandId,
        params: { n },
        ...(ownTriggerId && { triggerId: ownTriggerId }),
      });
      const trigger = ownTriggerId || executionId;
      this.acknowledged.set(trigger, {
        trigger,
        n,
        actuator: { deviceId, commandId, clientDeviceId, sensorId },
        executionId,
        accepted,
      });
    } catch (error) {
      this.failed.push(`the call ${n} of ${clientDeviceId} had no response: ${String(error)}`);
    }
  }

  private async execute(
    request: Parameters<typeof this.client.commands.executeCommand>[0],
  ): Promise<{ readonly executionId: string; readonly accepted: boolean }> {
    for (const since = performance.now(); ;) {
      try {
        return await this.client.commands.executeCommand(request);
      } catch (error) {
        const hasNoResponse = error instanceof PlantroomError && NO_RESPONSE.has(error.status);
        if (!hasNoResponse || this.serverStays || performance.now() - since > MAX_DELAY_MS) throw error;
        this.repeatedCalls += 1;
        await wait(RETRY_INTERVAL_MS);
      }
    }
  }
}
