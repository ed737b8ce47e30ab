import type { Logger } from '../kernel/logger';

type DisposeAction = () => void | Promise<void>;

/** The actions that close what a server has opened. They run in reverse order of opening. */
export class Disposables {
  private actions: DisposeAction[] = [];

  constructor(private readonly log: Logger) {}

  /** Adds an action. It runs before all actions that were added earlier. */
  add(action: DisposeAction): void {
    this.actions.push(action);
  }

  /** Runs all actions once, even if some fail. Rethrows the first failure at the end and logs the others. */
  async disposeAll(): Promise<void> {
    const actions = this.actions.toReversed();
    this.actions = [];
    const failures: unknown[] = [];
    for (const action of actions) {
      try {
        await action();
      } catch (error) {
        failures.push(error);
      }
    }
    for (const failure of failures.slice(1)) this.log.error({ err: failure }, 'server.close_failed');
    if (failures.length > 0) throw failures[0];
  }
}
