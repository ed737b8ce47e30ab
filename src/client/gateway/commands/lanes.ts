import { Fifo } from '../fifo';

/** Jobs in order: those of one lane one after another, of different lanes at the same time, and the lanes take turns. */
export class Lanes<Job> {
  private readonly lanes = new Map<string, Fifo<Job>>();
  /** Lanes that have a job and do none. */
  private readonly ready = new Fifo<string>();
  private running = 0;
  private isClosed = false;

  /** `work` does a job, and never rejects; at most `most` at the same time. */
  constructor(
    private readonly most: number,
    private readonly work: (job: Job) => Promise<void>,
  ) {}

  /** Puts a job at the end of its lane. */
  add(lane: string, job: Job): void {
    const known = this.lanes.get(lane);
    if (known) return known.add(job);
    const jobs = new Fifo<Job>();
    jobs.add(job);
    this.lanes.set(lane, jobs);
    this.ready.add(lane);
    this.turn();
  }

  /** Begins nothing any more. */
  close(): void {
    this.isClosed = true;
  }

  private turn(): void {
    while (!this.isClosed && this.running < this.most && this.ready.size > 0) void this.run(this.ready.take() as string);
  }

  private async run(lane: string): Promise<void> {
    const jobs = this.lanes.get(lane);
    const job = jobs?.take();
    this.running += 1;
    if (job !== undefined) await this.work(job);
    this.running -= 1;
    if (jobs && jobs.size > 0) this.ready.add(lane);
    else this.lanes.delete(lane);
    this.turn();
  }
}
