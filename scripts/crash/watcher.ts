import { setTimeout as wait } from 'node:timers/promises';
import { type Execution, WatchExecutionsRequest, type WatchExecutionsResponse } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Clients } from './clients';

const LOOK_EVERY_MS = 20;
const MOST_LOOKS = 500;

/** A client that watches all executions and, when the server is gone, resumes at the next one after the last event that it saw. */
export class Watcher {
  /** What it saw twice, out of order, or not at all. */
  readonly wrong: string[] = [];
  /** The last event of each execution. */
  private readonly seen = new Map<string, number>();
  private resumeToken = '';

  /** Watches until the server is gone. Resolves when it has been told where to resume. */
  async follow({ commands, metadata }: Clients): Promise<void> {
    const stream = commands.watchExecutions(WatchExecutionsRequest.fromPartial({ resumeToken: this.resumeToken }), metadata);
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    stream.on('data', (item: WatchExecutionsResponse) => {
      this.take(item);
      resolve();
    });
    stream.on('error', () => resolve());
    stream.on('end', () => resolve());
    await begun;
  }

  /** What it missed of these, once it has seen as much as it will. */
  async missed(executions: Iterable<Execution | undefined>): Promise<string[]> {
    const all = [...executions].filter((execution) => execution !== undefined);
    const open = (): Execution[] => all.filter(({ id, events }) => (this.seen.get(id) ?? 0) < events.length);
    for (let look = 0; open().length > 0 && look < MOST_LOOKS; look += 1) await wait(LOOK_EVERY_MS);
    return open().map(({ id, events }) => `a watcher saw ${this.seen.get(id) ?? 0} of the ${events.length} events of ${id}`);
  }

  private take({ execution, event, resumeToken }: WatchExecutionsResponse): void {
    this.resumeToken = resumeToken;
    if (!execution || !event) return;
    const last = this.seen.get(execution.id) ?? 0;
    if (event.sequence !== last + 1) this.wrong.push(`a watcher saw event ${event.sequence} of ${execution.id} after ${last}`);
    this.seen.set(execution.id, event.sequence);
  }
}
