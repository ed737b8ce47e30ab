import { Durations, LONG } from '../kernel/durations';
import { Tally } from '../kernel/tally';
import { DomainError } from '../kernel/errors';

/** What became of an upload: `refused`: it is none that is taken, or too much was to be done; `failed`: that is not the caller's fault. */
export type UploadResult = 'stored' | 'refused' | 'failed';

/** What became of pictures since the server started. */
export class PictureCounts {
  readonly uploads = new Tally<UploadResult>(['stored', 'refused', 'failed']);
  /** How long they waited and were looked at. */
  readonly durations = new Durations(LONG);

  /** An upload ended by this error. */
  fail(error: unknown): void {
    const isTheirs = error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'internal';
    this.uploads.add(isTheirs ? 'refused' : 'failed');
  }
}
