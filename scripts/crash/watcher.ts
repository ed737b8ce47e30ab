import { setTimeout as wait } from 'node:timers/promises';
import {
  type Execution,
  WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Clients } from './clients';

const POLL_INTERVAL_MS = 20;
const MAX_POLLS = 500;

/** A client that watches all executions, and resumes after the last received event when the next server runs. */
export class Watcher {
  /** Events that were received twice or out of order. */
  readonly wrong: string[] = [];
  /** The sequence number of the last received event, by execution. */
  private readonly lastSequences = new Map<string, number>();
  private resumeToken = '';

  /** Watches until the server is killed. Resolves when the first resume token has arrived. */
  async follow({ commands, metadata }: Clients): Promise<void> {
    const stream = commands.watchExecutions(
      WatchExecutionsRequest.fromPartial({ resumeToken: this.resumeToken }),
      metadata,
    );
    const { promise: started, resolve } = Promise.withResolvers<void>();
    stream.on('data', (item: WatchExecutionsResponse) => {
      this.handleItem(item);
      resolve();
    });
    stream.on('error', () => resolve());
    stream.on('end', () => resolve());
    await started;
  }

  /** Lists the events of these executions that were not received, after waiting up to 10 s for them. */
  async listMissedEvents(executions: Iterable<Execution | undefined>): Promise<string[]> {
    const all = [...executions].filter((execution) => execution !== undefined);
    const open = (): Execution[] => all.filter(({ id, events }) => (this.lastSequences.get(id) ?? 0) < events.length);
    for (let poll = 0; open().length > 0 && poll < MAX_POLLS; poll += 1) await wait(POLL_INTERVAL_MS);
    return open().map(
      ({ id, events }) =>
        `a watcher received ${this.lastSequences.get(id) ?? 0} of the ${events.length} events of ${id}`,
    );
  }

  private handleItem({ execution, event, resumeToken }: WatchExecutionsResponse): void {
    this.resumeToken = resumeToken;
    if (!execution || !event) return;
    const last = this.lastSequences.get(execution.id) ?? 0;
    if (event.sequence !== last + 1)
      this.wrong.push(`a watcher received event ${event.sequence} of ${execution.id} after ${last}`);
    this.lastSequences.set(execution.id, event.sequence);
  }
}
