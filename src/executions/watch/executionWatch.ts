import type { Database } from '../../database';
import { DeviceScopeRepository, DeviceRepository } from '../../devices';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { ResourceScope } from '../../kernel/resourceScope';
import { type ExecutionLogEntry, isFinal, type ShownExecution } from '../execution';
import { ExecutionEventRepository } from '../store/executionEventRepository';
import type { ChangeFeed, ChangeSubscription } from '../../kernel/changeFeed';
import { ResumeTokens } from './resumeTokens';
import { FinalStateTracker, EVENT_PAGE_SIZE, SentPosition } from './watchProgress';
import { TimeSlicer } from './timeSlicer';
import { ExecutionViewRepository } from '../store/executionViewRepository';

/** What to watch. An undefined field does not restrict it; an empty `resumeToken` starts with new events. */
export interface WatchQuery {
  readonly deviceId: string | undefined;
  readonly executionId: string | undefined;
  readonly resumeToken: string;
  /**
   * The watch ends when the execution `executionId` is final and everything stored until then is sent; requires
   * `executionId`.
   */
  readonly endsWhenFinal?: boolean;
  /** The scope of a restricted key; executions that it may not access at the time of sending are omitted. */
  readonly keyScope?: ResourceScope | undefined;
}

/** One event with the current execution, or only a token to resume at the position. */
export interface WatchItem {
  readonly update: { readonly execution: ShownExecution; readonly event: ExecutionLogEntry } | undefined;
  readonly resumeToken: string;
}

/** How many events of a page are sent before other watchers and calls run. */
const EVENTS_PER_TURN = 16;
/** A reader may be slow, so the scope of a restricted key is checked again after this many milliseconds. */
const SCOPE_CHECK_INTERVAL_MS = 500;

/**
 * Streams events of executions as they are stored. It reads from the database, so a slow reader costs no memory. Events
 * have positions: their order in the organization, without gaps. A restricted key may access only some devices and
 * commands (its scope), and must not learn of other events.
 */
export class ExecutionWatch {
  private readonly executions: ExecutionViewRepository;
  private readonly events: ExecutionEventRepository;
  private readonly devices: DeviceRepository;
  private readonly deviceScopes: DeviceScopeRepository;
  private readonly tokens: ResumeTokens;
  /**
   * An event wakes all watchers at the same time, and SQLite reads block the process, so their work is spread over
   * time.
   */
  private readonly slicer: TimeSlicer;

  constructor(
    private readonly options: {
      readonly database: Database;
      readonly cursors: Cursors;
      readonly feed: ChangeFeed;
      readonly clock: Clock;
    },
  ) {
    this.executions = new ExecutionViewRepository(options.database.db);
    this.events = new ExecutionEventRepository(options.database.db);
    this.devices = new DeviceRepository(options.database.db);
    this.deviceScopes = new DeviceScopeRepository(options.database.db);
    this.tokens = new ResumeTokens(options.cursors);
    this.slicer = new TimeSlicer(options.clock);
  }

  /**
   * Yields until the signal aborts, or until the execution is final. Throws `device_not_found`, `execution_not_found`,
   * `validation_failed`, `resume_token_expired`.
   */
  async *watch(organizationId: string, query: WatchQuery, signal: AbortSignal): AsyncGenerator<WatchItem> {
    if (query.endsWhenFinal && query.executionId === undefined)
      throw validationFailed([
        {
          field: 'endsWhenFinal',
          description: 'requires executionId: set both, or omit endsWhenFinal',
        },
      ]);
    if (query.deviceId !== undefined) await this.devices.get(organizationId, query.deviceId);
    if (query.executionId !== undefined) await this.executions.get(organizationId, query.executionId);
    const subscription = this.options.feed.subscribe(organizationId, signal);
    try {
      yield* this.follow(organizationId, query, subscription, signal);
    } finally {
      subscription.close();
    }
  }

  /** Yields the events after the start position page by page, and a resume position when one is due. */
  private async *follow(
    organizationId: string,
    query: WatchQuery,
    subscription: ChangeSubscription,
    signal: AbortSignal,
  ): AsyncGenerator<WatchItem> {
    let position = await this.findStartPosition(organizationId, query.resumeToken);
    const sentPosition = new SentPosition(this.options.clock, position, { isByTimeOnly: query.keyScope !== undefined });
    // Read after the position: an execution that finishes in between is in the next page.
    const finalState = await this.createFinalStateTracker(organizationId, query);
    yield this.createPositionItem(organizationId, position, query);
    while (!signal.aborted) {
      await this.slicer.acquire();
      subscription.markRead();
      finalState.markRead();
      const page = await this.readPage(organizationId, position);
      for await (const item of this.createItems(
        organizationId,
        page.filter((event) => matches(event, query)),
        query.keyScope,
        signal,
      )) {
        sentPosition.markSent(item.update?.event.position ?? position);
        finalState.markSent(item);
        yield item;
      }
      position = page.at(-1)?.position ?? position;
      if (finalState.isComplete(page.length)) return;
      if (sentPosition.isDue(position)) {
        sentPosition.markSent(position);
        yield this.createPositionItem(organizationId, position, query);
      }
      if (page.length === 0) await subscription.waitForChange();
    }
  }

  /** Creates the tracker that ends the watch of one execution, if that is requested. */
  private async createFinalStateTracker(
    organizationId: string,
    { executionId, endsWhenFinal = false }: WatchQuery,
  ): Promise<FinalStateTracker> {
    if (!endsWhenFinal || executionId === undefined) return new FinalStateTracker({ isWanted: false, isFinal: false });
    const { state } = await this.executions.get(organizationId, executionId);
    return new FinalStateTracker({ isWanted: true, isFinal: isFinal(state) });
  }

  /**
   * Yields an item for each event whose execution exists and is accessible, checking access again if the reader is
   * slow.
   */
  private async *createItems(
    organizationId: string,
    events: readonly ExecutionLogEntry[],
    keyScope: ResourceScope | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<WatchItem> {
    const { clock } = this.options;
    let executions = await this.findAccessibleExecutions(organizationId, events, keyScope);
    let checkedAt = clock.monotonic();
    for (const [index, event] of events.entries()) {
      if (index > 0 && index % EVENTS_PER_TURN === 0) await this.slicer.acquire();
      if (signal.aborted) return;
      if (keyScope && clock.monotonic() - checkedAt > SCOPE_CHECK_INTERVAL_MS) {
        executions = await this.findAccessibleExecutions(organizationId, events.slice(index), keyScope);
        checkedAt = clock.monotonic();
      }
      const execution = executions.get(event.executionId);
      if (!execution) continue;
      // A shared token reveals nothing here: every reader of it receives the event at its position.
      yield { update: { execution, event }, resumeToken: this.tokens.getShared(organizationId, event.position) };
    }
  }

  /** Returns the existing executions of these events by id; for a restricted key only those that it may access now. */
  private async findAccessibleExecutions(
    organizationId: string,
    events: readonly ExecutionLogEntry[],
    keyScope: ResourceScope | undefined,
  ): Promise<Map<string, ShownExecution>> {
    const accessibleDeviceIds =
      keyScope?.devices && events.length > 0
        ? await this.deviceScopes.filterInScope(
            organizationId,
            keyScope.devices,
            new Set(events.map((event) => event.deviceId)),
          )
        : undefined;
    const accessibleEvents = accessibleDeviceIds
      ? events.filter((event) => accessibleDeviceIds.has(event.deviceId))
      : events;
    const executions = await this.executions.findAll(
      organizationId,
      accessibleEvents.map((event) => event.executionId),
    );
    const commands = keyScope?.commands;
    return commands
      ? new Map([...executions].filter(([, { commandId }]) => commandId !== undefined && commands.has(commandId)))
      : executions;
  }

  /** Returns the position of the resume token, or the current one without a token. Throws `resume_token_expired`. */
  private async findStartPosition(organizationId: string, resumeToken: string): Promise<number> {
    const resumed = this.tokens.parse(organizationId, resumeToken);
    const last = await this.events.findLastPosition(organizationId);
    if (resumed === undefined || resumed === last) return last;
    if (resumed > last) throw tokenExpired(); // the database was restored to an earlier state
    const [next] = await this.events.listAfter(organizationId, resumed, 1);
    const isNextStored = next?.position === resumed + 1; // positions have no gaps
    if (!isNextStored) throw tokenExpired();
    return resumed;
  }

  /** Returns the next events. Throws `resume_token_expired` if some of them were deleted: positions have no gaps. */
  private async readPage(organizationId: string, position: number): Promise<ExecutionLogEntry[]> {
    const page = await this.events.listAfter(organizationId, position, EVENT_PAGE_SIZE);
    const hasGap = page.length > 0 && page.at(-1)?.position !== position + page.length;
    if (hasGap) throw tokenExpired();
    return page;
  }

  /**
   * Creates an item without an event. A restricted key gets a separate token, so that it cannot notice other events.
   */
  private createPositionItem(organizationId: string, position: number, { keyScope }: WatchQuery): WatchItem {
    const { tokens } = this;
    const resumeToken = keyScope ? tokens.create(organizationId, position) : tokens.getShared(organizationId, position);
    return { update: undefined, resumeToken };
  }
}

/** Whether an event belongs to the requested device and execution. */
function matches(event: ExecutionLogEntry, query: WatchQuery): boolean {
  return (
    (query.deviceId === undefined || event.deviceId === query.deviceId) &&
    (query.executionId === undefined || event.executionId === query.executionId)
  );
}

/** Creates the error for a token after which events were deleted. */
function tokenExpired(): DomainError {
  return new DomainError(
    'out_of_range',
    'resume_token_expired',
    'the events after the resumeToken are no longer stored; watch without a token, then read the executions with ListExecutions and GetExecution',
  );
}
