const BAR_WIDTH = 24;
const SHOW_DELAY_MS = 500;
const REDRAW_INTERVAL_MS = 100;
/** Moves the cursor to the start of the line and clears the line. */
const CLEAR_LINE = '\r\u001b[K';

/** The output of a progress bar, usually stderr. */
export interface Terminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** A progress bar. It appears after half a second, and only on a terminal. */
export class Progress {
  private done = 0;
  /** The time of the next redraw, milliseconds of `now`. */
  private nextDrawAt: number;
  private isDrawn = false;

  constructor(
    private readonly total: number,
    private readonly terminal: Terminal,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.nextDrawAt = now() + SHOW_DELAY_MS;
  }

  /** Advances by one item; `name` is shown next to the bar. */
  step(name: string): void {
    this.done += 1;
    this.show(name);
  }

  /** Sets the number of completed items; `name` is shown next to the bar. */
  reached(done: number, name: string): void {
    this.done = done;
    this.show(name);
  }

  /** Shows another `name` without advancing. */
  show(name: string): void {
    if (!this.terminal.isTTY || this.now() < this.nextDrawAt) return;
    this.nextDrawAt = this.now() + REDRAW_INTERVAL_MS;
    this.isDrawn = true;
    const filled = Math.min(BAR_WIDTH, Math.round((this.done / this.total) * BAR_WIDTH));
    this.terminal.write(
      `${CLEAR_LINE}[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${this.done}/${this.total}  ${name.slice(-40)}`,
    );
  }

  /** Removes the bar from the terminal. */
  clear(): void {
    if (this.isDrawn) this.terminal.write(CLEAR_LINE);
  }
}
