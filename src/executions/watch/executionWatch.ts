import type { Database } from '../../database';
import { DeviceReachRepository, DeviceRepository } from '../../devices';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { Reach } from '../../kernel/reach';
import { type ExecutionLogEntry, isFinal, type ShownExecution } from '../execution';
import { ExecutionEventRepository } from '../store/executionEventRepository';
import type { ExecutionFeed, NewsReader } from './executionFeed';
import { ExecutionViewRepository } from '../store/executionViewRepository';

/** What to watch; undefined or empty: no limit, and from now on. */
export interface WatchQuery {
  readonly deviceId: string | undefined;
  readonly executionId: string | undefined;
  readonly resumeToken: string;
  /** The watch ends when that execution is final and what was stored until then is shown; needs `executionId`. */
  readonly endsWhenFinal?: boolean;
  /** Of a limited key: nothing outside of it is shown, at the time when it would be. */
  readonly reach?: Reach | undefined;
}

/** One event with the execution as it is now, or only where to resume. */
export interface WatchItem {
  readonly happened: { readonly execution: ShownExecution; readonly event: ExecutionLogEntry } | undefined;
  readonly resumeToken: string;
}

const PAGE = 200;
/** Where to resume is told after so many events that were not asked for, and after so many milliseconds if there was any; to a limited key only by the clock. */
const MOST_PASSED = 200;
const LONGEST_SILENCE_MS = 30_000;
/** A reader may be slow: what a limited key reaches is looked at again after so many milliseconds. */
const REACH_HOLDS_MS = 500;

/** Shows events of executions as they are stored, from the database, so that a reader may be as slow as it likes. */
export class ExecutionWatch {
  private readonly executions: ExecutionViewRepository;
  private readonly events: ExecutionEventRepository;
  private readonly devices: DeviceRepository;
  private readonly reached: DeviceReachRepository;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors; readonly feed: ExecutionFeed; readonly clock: Clock }) {
    this.executions = new ExecutionViewRepository(options.database.db);
    this.events = new ExecutionEventRepository(options.database.db);
    this.devices = new DeviceRepository(options.database.db);
    this.reached = new DeviceReachRepository(options.database.db);
  }

  /** Yields until the signal aborts, or to the end of the execution. Throws `device_not_found`, `execution_not_found`, `validation_failed`, `resume_token_expired`. */
  async *watch(organizationId: string, query: WatchQuery, signal: AbortSignal): AsyncGenerator<WatchItem> {
    if (query.endsWhenFinal && query.executionId === undefined) throw validationFailed([{ field: 'endsWhenFinal', description: 'needs executionId: only one execution has an end; give both, or leave it out' }]);
    if (query.deviceId !== undefined) await this.devices.get(organizationId, query.deviceId);
    if (query.executionId !== undefined) await this.executions.get(organizationId, query.executionId);
    const reader = this.options.feed.open(organizationId, signal);
    try {
      yield* this.follow(organizationId, query, reader, signal);
    } finally {
      reader.close();
    }
  }

  private async *follow(organizationId: string, query: WatchQuery, reader: NewsReader, signal: AbortSignal): AsyncGenerator<WatchItem> {
    let position = await this.start(organizationId, query.resumeToken);
    const told = new Told(this.options.clock, position, query.reach !== undefined);
    // Looked at after the position was: an end between the two is in the next page.
    const ending = await this.ending(organizationId, query);
    yield this.item(organizationId, position, undefined);
    while (!signal.aborted) {
      reader.looks();
      ending.looks();
      const page = await this.pageAfter(organizationId, position);
      for await (const item of this.items(organizationId, page.filter((event) => matches(event, query)), query.reach, signal)) {
        told.upTo(item.happened?.event.position ?? position);
        ending.saw(item);
        yield item;
      }
      position = page.at(-1)?.position ?? position;
      if (ending.isShown(page.length)) return;
      if (told.isBehind(position)) {
        told.upTo(position);
        yield this.item(organizationId, position, undefined);
      }
      if (page.length === 0) await reader.news();
    }
  }

  private async ending(organizationId: string, { executionId, endsWhenFinal = false }: WatchQuery): Promise<Ending> {
    if (!endsWhenFinal || executionId === undefined) return new Ending(false, false);
    return new Ending(true, isFinal((await this.executions.get(organizationId, executionId)).state));
  }

  private async *items(organizationId: string, events: readonly ExecutionLogEntry[], reach: Reach | undefined, signal: AbortSignal): AsyncGenerator<WatchItem> {
    let [shown, lookedAt] = [await this.shown(organizationId, events, reach), this.options.clock.monotonic()];
    for (const [at, event] of events.entries()) {
      if (signal.aborted) return;
      if (reach && this.options.clock.monotonic() - lookedAt > REACH_HOLDS_MS) {
        [shown, lookedAt] = [await this.shown(organizationId, events.slice(at), reach), this.options.clock.monotonic()];
      }
      const execution = shown.get(event.executionId);
      if (execution) yield this.item(organizationId, event.position, { execution, event });
    }
  }

  /** The executions of these events that are there, by id; of a limited key those that it reaches now. */
  private async shown(organizationId: string, events: readonly ExecutionLogEntry[], reach: Reach | undefined): Promise<Map<string, ShownExecution>> {
    const devices = reach?.devices && events.length > 0 ? await this.reached.inside(organizationId, reach.devices, new Set(events.map((event) => event.deviceId))) : undefined;
    const wanted = devices ? events.filter((event) => devices.has(event.deviceId)) : events;
    const executions = await this.executions.findAll(organizationId, wanted.map((event) => event.executionId));
    const commands = reach?.commands;
    return commands ? new Map([...executions].filter(([, { commandId }]) => commandId !== undefined && commands.has(commandId))) : executions;
  }

  private async start(organizationId: string, resumeToken: string): Promise<number> {
    const given = this.options.cursors.decode<{ position: number }>(tokenOf(organizationId), resumeToken, 'resumeToken');
    const last = await this.events.lastPosition(organizationId);
    if (!given || given.position === last) return last;
    // A position that has not been yet is one of a database that was put back to an earlier day.
    const [next] = given.position > last ? [] : await this.events.after(organizationId, given.position, 1);
    if (next?.position !== given.position + 1) throw expired();
    return given.position;
  }

  /** The next events. Throws `resume_token_expired` if some of them are not kept any more: positions have no gaps. */
  private async pageAfter(organizationId: string, position: number): Promise<ExecutionLogEntry[]> {
    const page = await this.events.after(organizationId, position, PAGE);
    if (page.length > 0 && page.at(-1)?.position !== position + page.length) throw expired();
    return page;
  }

  private item(organizationId: string, position: number, happened: WatchItem['happened']): WatchItem {
    return { happened, resumeToken: this.options.cursors.encode(tokenOf(organizationId), { position }) };
  }
}

/** How far a reader was told where to resume, so that a reader of little among much moves on too. */
class Told {
  private at: number;

  constructor(
    private readonly clock: Clock,
    private position: number,
    private readonly byClockAlone: boolean,
  ) {
    this.at = clock.monotonic();
  }

  upTo(position: number): void {
    this.position = position;
    this.at = this.clock.monotonic();
  }

  isBehind(position: number): boolean {
    const isLate = this.clock.monotonic() - this.at >= LONGEST_SILENCE_MS;
    if (this.byClockAlone) return isLate; // else it would tell how much there is that is not shown
    const passed = position - this.position;
    return passed >= MOST_PASSED || (passed > 0 && isLate);
  }
}

/** Whether a reader of one execution has seen all of it. */
class Ending {
  private showsAll = false;

  constructor(
    private readonly isWanted: boolean,
    private isFinal: boolean,
  ) {}

  /** Call it before looking: its end is stored, and will be found, if it is known now. */
  looks(): void {
    this.showsAll = this.isFinal;
  }

  saw({ happened }: WatchItem): void {
    if (happened) this.isFinal ||= this.isWanted && isFinal(happened.execution.state);
  }

  /** Whether nothing is left after a page of so many events. */
  isShown(events: number): boolean {
    return this.showsAll && events < PAGE;
  }
}

function tokenOf(organizationId: string): string[] {
  return [organizationId, 'watch executions'];
}

function matches(event: ExecutionLogEntry, query: WatchQuery): boolean {
  return (query.deviceId === undefined || event.deviceId === query.deviceId) && (query.executionId === undefined || event.executionId === query.executionId);
}

function expired(): DomainError {
  return new DomainError('out_of_range', 'resume_token_expired', 'events after the resumeToken are not kept any more; read the executions by ListExecutions and GetExecution, then watch without a token');
}
