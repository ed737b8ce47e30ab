import type { Encoder } from '../commands';
import type { ConnectorHub } from '../connections';
import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import type { Cursors } from '../kernel/pages';
import { type ActiveExecutionStats, ActiveExecutionStatsRepository } from './store/activeExecutionStatsRepository';
import { Dispatcher } from './dispatch/dispatcher';
import { EvidenceService } from './evidence/evidenceService';
import { type Execution, isFinal } from './execution';
import { ChangeFeed } from '../kernel/changeFeed';
import { ExecutionCounts } from './executionCounts';
import { ExecutionService } from './executionService';
import { getNextDeadline } from './machine/executionTimes';
import { ExecutionWatch } from './watch/executionWatch';
import { type Change, ExecutionStore } from './changes/executionStore';
import { DisconnectHandler } from './evidence/disconnectHandler';
import { SensorEvidence } from './evidence/sensorEvidence';
import { TargetRemoval } from './evidence/targetRemoval';
import { DeadlineScheduler } from './timers/deadlineScheduler';

/** Dependencies of the module. */
interface ExecutionsOptions {
  readonly database: Database;
  /** Sends commands to connections. */
  readonly hub: Pick<ConnectorHub, 'peer' | 'connectSoon' | 'send' | 'cancelUnsent' | 'cancelAtGateway'>;
  /** Runs the encoders of commands. */
  readonly encoder: Encoder;
  /** Never goes backwards, see createSteadyClock. */
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly log: Logger;
  /** Called for every step of every execution after its commit; undefined if tracing is disabled. */
  readonly onStep?: ((step: ExecutionStep) => void) | undefined;
}

/** One step of an execution: what happened, and when (Unix milliseconds). */
export interface ExecutionStep {
  readonly execution: Pick<Execution, 'id' | 'state' | 'deviceId' | 'commandId' | 'connectionId'>;
  readonly entries: readonly {
    readonly event: string;
    readonly from: string | undefined;
    readonly to: string;
    readonly time: number;
  }[];
  /** No further step will follow. */
  readonly isFinal: boolean;
}

/**
 * Manages the life cycle of executions: submission, dispatch, evidence (reports of the peer) and deadlines. A peer is
 * the gateway or broker that is attached to a connection. An execution occupies the slot of its physical device while
 * its command is on its way, so that the device gets one command at a time. The constructor has no side effects.
 */
export class Executions {
  /** Submits, cancels and reads executions. */
  readonly service: ExecutionService;
  readonly watch: ExecutionWatch;
  readonly counts = new ExecutionCounts();
  readonly evidenceService: EvidenceService;
  readonly sensorEvidence: SensorEvidence;
  readonly targetRemoval: TargetRemoval;
  readonly deadlines: DeadlineScheduler;
  private readonly dispatcher: Dispatcher;
  private readonly disconnectHandler: DisconnectHandler;
  private readonly feed = new ChangeFeed();
  /**
   * By connection: the ids of final executions whose commands the peer still has, until it can be asked to cancel them.
   */
  private readonly finalIdsAtPeer = new Map<string, Set<string>>();

  constructor(private readonly options: ExecutionsOptions) {
    const { database, hub, encoder, clock, cursors, log } = options;
    const executionStore = new ExecutionStore({ clock, onCommitted: (changes) => this.handleCommitted(changes) });
    this.dispatcher = new Dispatcher({ database, executionStore, hub, clock, log, dispatches: this.counts.dispatches });
    this.deadlines = new DeadlineScheduler({ database, executionStore, dispatcher: this.dispatcher, clock, log });
    this.evidenceService = new EvidenceService({
      database,
      executionStore,
      log,
      onFinalCommandHeld: (connectionId, executionId) => this.rememberFinalAtPeer(connectionId, executionId),
    });
    this.disconnectHandler = new DisconnectHandler({ database, executionStore });
    this.sensorEvidence = new SensorEvidence(executionStore);
    this.targetRemoval = new TargetRemoval(executionStore, this.dispatcher);
    this.service = new ExecutionService({ database, executionStore, encoder, clock, cursors });
    this.watch = new ExecutionWatch({ database, cursors, feed: this.feed, clock });
  }

  /** Resumes the work of an earlier process. Call it before any peer can attach. */
  async start(): Promise<void> {
    await this.disconnectHandler.markAll();
    this.deadlines.start();
  }

  /** Resolves when nothing is written or sent any more. */
  async stop(): Promise<void> {
    await Promise.all([this.dispatcher.stop(), this.deadlines.stop(), this.disconnectHandler.stop()]);
  }

  /** Counts executions that are not final, across all organizations. */
  async readActiveStats(): Promise<ActiveExecutionStats> {
    return await new ActiveExecutionStatsRepository(this.options.database.db).read();
  }

  /** Handles a peer that detached: ConnectorEvents.detached. */
  async detached(organizationId: string, connectionId: string): Promise<void> {
    this.finalIdsAtPeer.delete(connectionId); // the next peer reports again which commands it has
    await this.dispatcher.finishConnection(connectionId); // what has not left the server is back in its queue
    await this.disconnectHandler.markConnection(organizationId, connectionId);
  }

  /** Releases the state of a deleted connection. Call it after the commit. */
  connectionDeleted(connectionId: string): void {
    this.finalIdsAtPeer.delete(connectionId);
    void this.dispatcher.finishConnection(connectionId);
  }

  /**
   * Reports that a connection may have capacity: ConnectorEvents.ready. First asks the peer to cancel the commands that
   * it still has although their executions are final.
   */
  ready(organizationId: string, connectionId: string): void {
    const finalIds = this.finalIdsAtPeer.get(connectionId);
    if (finalIds && this.options.hub.peer(connectionId)) {
      this.finalIdsAtPeer.delete(connectionId);
      for (const executionId of finalIds) this.options.hub.cancelAtGateway(connectionId, executionId);
    }
    this.dispatcher.ready(organizationId, connectionId);
  }

  /** Remembers that the peer still has a command whose execution is final, until the peer can be asked to cancel it. */
  private rememberFinalAtPeer(connectionId: string, executionId: string): void {
    const finalIds = this.finalIdsAtPeer.get(connectionId) ?? new Set();
    this.finalIdsAtPeer.set(connectionId, finalIds.add(executionId));
  }

  /** Runs the follow-up work of committed changes. */
  private handleCommitted(changes: readonly Change[]): void {
    for (const organizationId of new Set(changes.map((change) => change.after.organizationId)))
      this.feed.notify(organizationId);
    for (const change of changes) {
      const { after, effects } = change;
      if (effects.includes('cancel_unsent')) {
        this.dispatcher.cancelUnsent(after);
        continue; // such a change has no other effect and no log entries
      }
      this.reportStep(change);
      this.deadlines.addDeadline(getNextDeadline(after));
      if (after.connectionId === undefined || after.physicalDeviceId === undefined) continue;
      if (effects.includes('cancel_at_gateway')) this.options.hub.cancelAtGateway(after.connectionId, after.id);
      if (after.state === 'enqueued') this.options.hub.connectSoon(after.connectionId);
      if (mayUnblockQueue(change))
        this.dispatcher.wake(after.organizationId, after.connectionId, after.physicalDeviceId);
    }
  }

  /** Reports a step of an execution to tracing, metrics and the log. */
  private reportStep({ before, after, entries }: Change): void {
    this.options.onStep?.({ execution: after, entries, isFinal: isFinal(after.state) });
    const isSubmission = before === after; // planSubmission creates such a change
    const fields = {
      execution_id: after.id,
      organization_id: after.organizationId,
      device_id: after.deviceId,
      ...(!isSubmission && { from_state: before.state }),
      state: after.state,
      detail: after.detail,
      cause: entries.at(-1)?.event,
    };
    const becameFinal = isFinal(after.state) && (isSubmission || !isFinal(before.state));
    if (!becameFinal) {
      this.options.log.debug(fields, 'executions.transitioned');
      return;
    }
    this.counts.addFinished(after, fields.cause);
    this.options.log.info(fields, 'executions.completed');
  }
}

/**
 * Whether a change allows the device's queue to continue: an execution was added, the first one left without holding
 * the slot, or the slot (one command at a time is on its way to a device) is free again.
 */
function mayUnblockQueue({ before, after }: Change): boolean {
  return (
    after.state === 'enqueued' ||
    (before.state === 'enqueued' && !after.holdsSlot) ||
    (before.holdsSlot && !after.holdsSlot)
  );
}
