const WIDTH = 30;

/** How far a run has come: one line on a terminal that is written over; elsewhere a line for each quarter. */
export class Progress {
  private done = 0;
  private quarters = 0;

  constructor(
    private readonly total: number,
    private readonly out: Pick<NodeJS.WriteStream, 'write' | 'isTTY'> = process.stdout,
  ) {}

  /** One more kill, or another step of that size. */
  step(): void {
    this.done += 1;
    const share = this.done / this.total;
    if (this.out.isTTY) return void this.out.write(`\r${'█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░')} ${this.done}/${this.total}${this.done === this.total ? '\n' : ''}`);
    if (Math.floor(share * 4) === this.quarters) return;
    this.quarters = Math.floor(share * 4);
    this.out.write(`${this.done} of ${this.total} steps\n`);
  }

  /** Something that a reader of the run should know and that is no fault. */
  note(text: string): void {
    this.out.write(`${this.out.isTTY ? '\r' : ''}${text}\n`);
  }
}
