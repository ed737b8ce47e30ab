import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { status, type ServiceError } from '@grpc/grpc-js';
import {
  CancelExecutionRequest,
  ExecuteCommandRequest,
  type ExecuteCommandResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { callUnary, type Clients, isServerGone } from './clients';
import type { Actuator } from './plant';

/** The response to one request. */
export interface Acknowledged {
  readonly trigger: string;
  readonly n: number;
  readonly actuator: Actuator;
  readonly executionId: string;
  readonly accepted: boolean;
}

const MAX_PER_ROUND = 60;

/** The callers, one per device. Each request has its own trigger id and is repeated until it has a response. */
export class Submitters {
  /** By trigger id. */
  readonly acknowledged = new Map<string, Acknowledged>();
  /** Executions that a caller wanted to cancel, and those of which the server confirmed it. */
  readonly toCancel = new Set<string>();
  readonly cancelled = new Set<string>();
  /** The accepted requests by device, in order. A duplicate has the id of the earlier execution. */
  readonly accepted = new Map<string, Pick<Acknowledged, 'n' | 'executionId'>[]>();
  /** Responses that contradict each other. */
  readonly contradictions: string[] = [];
  private readonly next: number[];
  /** The parameter `n` of the open request of each device; undefined: no open request. */
  private readonly openRequests: (number | undefined)[];

  /**
   * `cancels`: half of the executions are cancelled immediately. `repeats`: only two different positions are requested.
   */
  constructor(
    private readonly actuators: readonly Actuator[],
    private readonly options: { readonly cancels?: boolean; readonly repeats?: boolean },
  ) {
    this.next = actuators.map(() => 1);
    this.openRequests = actuators.map(() => undefined);
  }

  /**
   * Submits until the server is killed, or each caller has submitted `max` requests, with a pause after each request.
   */
  async run(clients: Clients, pauseMs: number, max = MAX_PER_ROUND): Promise<void> {
    await Promise.all(
      this.actuators.map(async (actuator, at) => await this.runOne(clients, actuator, at, pauseMs, max)),
    );
  }

  /** Repeats the requests that have no response yet. Throws if the server is gone. */
  async retryOpenRequests(clients: Clients): Promise<void> {
    for (const [at, actuator] of this.actuators.entries())
      if (this.openRequests[at] !== undefined) await this.submit(clients, actuator, at);
  }

  private async runOne(clients: Clients, actuator: Actuator, at: number, pauseMs: number, max: number): Promise<void> {
    try {
      for (let count = 0; count < max; count += 1) {
        const { executionId } = await this.submit(clients, actuator, at);
        if (this.options.cancels && randomInt(2) === 0) await this.cancel(clients, executionId);
        await wait(pauseMs);
      }
    } catch (error) {
      if (!isServerGone(error)) throw error;
    }
  }

  private async submit({ commands, metadata }: Clients, actuator: Actuator, at: number): Promise<Acknowledged> {
    const count = this.next[at] ?? 1;
    const isRepeated = this.openRequests[at] !== undefined;
    const n = (this.openRequests[at] ??= this.options.repeats ? randomInt(2) : count);
    const trigger = `${actuator.clientDeviceId}/${count}`;
    const request = ExecuteCommandRequest.fromPartial({
      id: actuator.deviceId,
      commandId: actuator.commandId,
      params: { n },
      triggerId: trigger,
    });
    const { accepted, duplicate, executionId } = await callUnary<ExecuteCommandResponse>((callback) =>
      commands.executeCommand(request, metadata, callback),
    );
    const acknowledged = { trigger, n, actuator, executionId, accepted };
    this.recordResponse(acknowledged, duplicate && !isRepeated);
    this.openRequests[at] = undefined;
    this.next[at] = count + 1;
    return acknowledged;
  }

  /** `isNewDuplicate`: the response to a first request named an execution that already existed. */
  private recordResponse(acknowledged: Acknowledged, isNewDuplicate: boolean): void {
    const { trigger, n, actuator, executionId, accepted } = acknowledged;
    const known = this.accepted.get(actuator.clientDeviceId) ?? [];
    const isExistingExecution = known.some((one) => one.executionId === executionId);
    const mayBeDuplicate = isExistingExecution && this.options.repeats === true;
    if (isNewDuplicate && !mayBeDuplicate) {
      this.contradictions.push(`${trigger} was new, but the response called it a duplicate of ${executionId}`);
    }
    if (!isExistingExecution) this.acknowledged.set(trigger, acknowledged);
    if (accepted) this.accepted.set(actuator.clientDeviceId, [...known, { n, executionId }]);
  }

  private async cancel({ commands, metadata }: Clients, executionId: string): Promise<void> {
    this.toCancel.add(executionId);
    try {
      await callUnary((callback) =>
        commands.cancelExecution(CancelExecutionRequest.fromPartial({ executionId }), metadata, callback),
      );
      this.cancelled.add(executionId);
    } catch (error) {
      if ((error as ServiceError).code !== status.FAILED_PRECONDITION) throw error; // it has already been sent
    }
  }
}
