import { DurationHistogram, LONG_DURATION_BUCKETS } from '../kernel/durations';
import { Counter } from '../kernel/counter';
import { DomainError } from '../kernel/errors';

/** The outcome of an upload: `refused`: unsupported image, or too much work; `failed`: an error of the server. */
type UploadResult = 'stored' | 'refused' | 'failed';

/** Counts the outcomes since the server started. */
export class MediaCounts {
  readonly uploads = new Counter<UploadResult>(['stored', 'refused', 'failed']);
  /** How long images waited and were processed. */
  readonly durations = new DurationHistogram(LONG_DURATION_BUCKETS);

  /** Records an upload that failed with this error. */
  recordFailure(error: unknown): void {
    const isCallerError = error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'internal';
    this.uploads.add(isCallerError ? 'refused' : 'failed');
  }
}
