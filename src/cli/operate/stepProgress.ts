import { Progress, type Terminal } from '../progress';

const MIB = 1024 * 1024;

const WORDS: Readonly<Record<string, string>> = { copy: 'copying the database', checksums: 'MiB, checksums', write: 'MiB, writing', verify: 'MiB, reading back' };

/** A bar for each step of work on many bytes. */
export class StepProgress {
  private step = '';
  private progress: Progress | undefined;

  constructor(private readonly terminal: Terminal) {}

  /** So many of so many bytes of this step are done. */
  reached(step: string, done: number, total: number): void {
    if (step !== this.step) {
      this.clear();
      this.step = step;
      this.progress = new Progress(Math.max(1, Math.ceil(total / MIB)), this.terminal);
    }
    this.progress?.reached(Math.floor(done / MIB), WORDS[step] ?? step);
  }

  /** Takes the bar away. */
  clear(): void {
    this.progress?.clear();
  }
}
