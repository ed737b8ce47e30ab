/**
 * The work that must be done before the messages of a session are processed. The first caller of `run` starts the
 * work; it runs only once.
 */
export class SessionSetup {
  /** Whether the work has succeeded. */
  isDone = false;
  private running: Promise<void> | undefined;

  constructor(private readonly work: () => Promise<void>) {}

  /** Starts the work if necessary. Resolves when it is done; rejects if it failed. */
  async run(): Promise<void> {
    this.running ??= this.doWork();
    await this.running;
  }

  /** Resolves when the work is not running. Does not start it. Never rejects. */
  async waitUntilSettled(): Promise<void> {
    await this.running?.catch(() => {});
  }

  /** Does the work and records that it has succeeded. */
  private async doWork(): Promise<void> {
    await this.work();
    this.isDone = true;
  }
}
