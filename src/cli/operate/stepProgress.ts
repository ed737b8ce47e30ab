import { Progress, type Terminal } from '../progress';

const MIB = 1024 * 1024;

const STEP_LABELS: Readonly<Record<string, string>> = {
  copy: 'copying the database',
  checksums: 'MiB, checksums',
  write: 'MiB, writing',
  verify: 'MiB, reading back',
};

/** Shows a progress bar for each step of a backup or of its verification. */
export class StepProgress {
  private step = '';
  private progress: Progress | undefined;

  constructor(private readonly terminal: Terminal) {}

  /** Shows that `done` of `total` bytes of a step are processed. */
  reached(step: string, done: number, total: number): void {
    if (step !== this.step) {
      this.clear();
      this.step = step;
      this.progress = new Progress(Math.max(1, Math.ceil(total / MIB)), this.terminal);
    }
    this.progress?.reached(Math.floor(done / MIB), STEP_LABELS[step] ?? step);
  }

  /** Removes the bar from the terminal. */
  clear(): void {
    this.progress?.clear();
  }
}
