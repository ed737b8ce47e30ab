const WIDTH = 30;

/** Shows the progress of a run: one updated line on a terminal, otherwise a line for each quarter. */
export class Progress {
  private done = 0;
  private quarters = 0;

  constructor(
    private readonly total: number,
    private readonly out: Pick<NodeJS.WriteStream, 'write' | 'isTTY'> = process.stdout,
  ) {}

  /** Reports one more step, for example a kill. */
  step(): void {
    this.done += 1;
    const share = this.done / this.total;
    if (this.out.isTTY)
      return void this.out.write(
        `\r${'█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░')} ${this.done}/${this.total}${this.done === this.total ? '\n' : ''}`,
      );
    if (Math.floor(share * 4) === this.quarters) return;
    this.quarters = Math.floor(share * 4);
    this.out.write(`${this.done} of ${this.total} steps\n`);
  }

  /** Prints a message that is not a failure. */
  note(text: string): void {
    this.out.write(`${this.out.isTTY ? '\r' : ''}${text}\n`);
  }
}
