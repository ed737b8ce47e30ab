import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { status, type ServiceError } from '@grpc/grpc-js';
import { CancelExecutionRequest, ExecuteCommandRequest, type ExecuteCommandResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { answer, type Clients, isGone } from './clients';
import type { Actuator } from './plant';

/** What the server said about one request. */
export interface Acknowledged {
  readonly trigger: string;
  readonly n: number;
  readonly actuator: Actuator;
  readonly executionId: string;
  readonly accepted: boolean;
}

const MOST_IN_A_ROUND = 60;

/** The callers: one for each device. Each gives every request a trigger id of its own, and repeats it until it has an answer. */
export class Submitters {
  /** By trigger id. */
  readonly acknowledged = new Map<string, Acknowledged>();
  /** What was to be taken back, and what the server said was. */
  readonly toCancel = new Set<string>();
  readonly cancelled = new Set<string>();
  /** Answers that cannot both be true. */
  readonly contradictions: string[] = [];
  private readonly next: number[];
  private readonly isOpen: boolean[];

  /** `cancels`: half of what was submitted is taken back at once. */
  constructor(
    private readonly actuators: readonly Actuator[],
    private readonly cancels: boolean,
  ) {
    this.next = actuators.map(() => 1);
    this.isOpen = actuators.map(() => false);
  }

  /** Submits until the server is gone, or each has submitted `most`, with a pause (milliseconds) after each request. */
  async run(clients: Clients, pauseMs: number, most = MOST_IN_A_ROUND): Promise<void> {
    await Promise.all(this.actuators.map(async (actuator, at) => await this.runOne(clients, actuator, at, pauseMs, most)));
  }

  /** Repeats what has no answer yet. Throws if the server is gone. */
  async finish(clients: Clients): Promise<void> {
    for (const [at, actuator] of this.actuators.entries()) if (this.isOpen[at]) await this.submit(clients, actuator, at);
  }

  private async runOne(clients: Clients, actuator: Actuator, at: number, pauseMs: number, most: number): Promise<void> {
    try {
      for (let count = 0; count < most; count += 1) {
        const { executionId } = await this.submit(clients, actuator, at);
        if (this.cancels && randomInt(2) === 0) await this.cancel(clients, executionId);
        await wait(pauseMs);
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  }

  private async submit({ commands, metadata }: Clients, actuator: Actuator, at: number): Promise<Acknowledged> {
    const n = this.next[at] ?? 1;
    const trigger = `${actuator.clientDeviceId}/${n}`;
    const request = ExecuteCommandRequest.fromPartial({ id: actuator.deviceId, commandId: actuator.commandId, params: { n }, triggerId: trigger });
    const isRepeated = this.isOpen[at] === true;
    this.isOpen[at] = true;
    const { accepted, duplicate, executionId } = await answer<ExecuteCommandResponse>((answered) => commands.executeCommand(request, metadata, answered));
    if (duplicate && !isRepeated) this.contradictions.push(`${trigger} was new, and answered as a duplicate of ${executionId}`);
    const acknowledged = { trigger, n, actuator, executionId, accepted };
    this.acknowledged.set(trigger, acknowledged);
    this.isOpen[at] = false;
    this.next[at] = n + 1;
    return acknowledged;
  }

  private async cancel({ commands, metadata }: Clients, executionId: string): Promise<void> {
    this.toCancel.add(executionId);
    try {
      await answer((answered) => commands.cancelExecution(CancelExecutionRequest.fromPartial({ executionId }), metadata, answered));
      this.cancelled.add(executionId);
    } catch (error) {
      if ((error as ServiceError).code !== status.FAILED_PRECONDITION) throw error; // it has left already
    }
  }
}
