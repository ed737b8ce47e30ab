import { FifoQueue } from '../fifoQueue';

/**
 * Runs jobs: those with the same key (for example a device) one after another, those of different keys concurrently and
 * in turn.
 */
export class KeyedQueue<Job> {
  private readonly jobsByKey = new Map<string, FifoQueue<Job>>();
  /** Keys with a waiting job and no running job. */
  private readonly readyKeys = new FifoQueue<string>();
  private runningCount = 0;
  private isClosed = false;

  /** `runJob` must not reject. */
  constructor(
    private readonly maxConcurrentJobs: number,
    private readonly runJob: (job: Job) => Promise<void>,
  ) {}

  /** Adds a job behind the other jobs of its key. */
  add(key: string, job: Job): void {
    const waitingJobs = this.jobsByKey.get(key);
    if (waitingJobs) {
      waitingJobs.add(job);
      return;
    }
    const jobs = new FifoQueue<Job>();
    jobs.add(job);
    this.jobsByKey.set(key, jobs);
    this.readyKeys.add(key);
    this.startReady();
  }

  /** Starts no more jobs. */
  close(): void {
    this.isClosed = true;
  }

  /** Starts jobs of waiting keys until the maximum number is running. */
  private startReady(): void {
    while (!this.isClosed && this.runningCount < this.maxConcurrentJobs && this.readyKeys.size > 0)
      void this.run(this.readyKeys.take() as string);
  }

  /**
   * Runs the first job of a key. After it, the key goes to the end of the waiting keys, so that a key with many jobs
   * does not delay the other keys.
   */
  private async run(key: string): Promise<void> {
    const jobs = this.jobsByKey.get(key);
    const job = jobs?.take();
    this.runningCount += 1;
    if (job !== undefined) await this.runJob(job);
    this.runningCount -= 1;
    if (jobs && jobs.size > 0) this.readyKeys.add(key);
    else this.jobsByKey.delete(key);
    this.startReady();
  }
}
