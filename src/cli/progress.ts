const WIDTH = 24;
const QUIET_MS = 500;
const REDRAW_MS = 100;

/** Where a progress bar is drawn: stderr. */
export interface Terminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** A bar for work that takes longer than half a second; draws only on a terminal. */
export class Progress {
  private done = 0;
  /** When to draw next, milliseconds on the clock given. */
  private next: number;
  private drawn = false;

  constructor(
    private readonly total: number,
    private readonly terminal: Terminal,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.next = now() + QUIET_MS;
  }

  /** One more is done; `name` says what it was. */
  step(name: string): void {
    this.done += 1;
    this.show(name);
  }

  /** So many are done by now; `name` says of what. */
  reached(done: number, name: string): void {
    this.done = done;
    this.show(name);
  }

  /** Nothing more is done, but `name` says how far it is. */
  show(name: string): void {
    if (!this.terminal.isTTY || this.now() < this.next) return;
    this.next = this.now() + REDRAW_MS;
    this.drawn = true;
    const filled = Math.min(WIDTH, Math.round((this.done / this.total) * WIDTH));
    this.terminal.write(`\r\u001b[K[${'#'.repeat(filled)}${'-'.repeat(WIDTH - filled)}] ${this.done}/${this.total}  ${name.slice(-40)}`);
  }

  /** Takes the bar away. */
  clear(): void {
    if (this.drawn) this.terminal.write('\r\u001b[K');
  }
}
