import { truncate } from '../kernel/truncate';

/** The last uplink of a physical device that could not be read or decoded. */
export interface UplinkFailureRecord {
  /** Unix milliseconds, with a fraction (see MonotonicTimestamps). */
  readonly receivedAt: number;
  /** A code, a colon and a description. */
  readonly reason: string;
  /** Whether a later uplink could be read. */
  readonly isResolved: boolean;
}

/** The last warnings that the decoder of a physical device returned. */
export interface DecoderWarnings {
  /** When the uplink arrived, Unix milliseconds. */
  readonly receivedAt: number;
  /** At most MAX_WARNINGS texts. */
  readonly warnings: readonly string[];
}

const MAX_WARNINGS = 10;
const MAX_TEXT_LENGTH = 500;

/** Formats a failure for its column. */
export function formatFailure({ reason, ...failure }: UplinkFailureRecord): string {
  return JSON.stringify({ ...failure, reason: truncate(reason, MAX_TEXT_LENGTH) });
}

/** Formats warnings for their column: at most MAX_WARNINGS of them, shortened. */
export function formatDecoderWarnings({ receivedAt, warnings }: DecoderWarnings): string {
  const shown = warnings.slice(0, MAX_WARNINGS).map((text) => truncate(text, MAX_TEXT_LENGTH));
  return JSON.stringify({ receivedAt, warnings: shown });
}

/** Parses the column of a failure. */
export function parseFailure(text: string | null): UplinkFailureRecord | undefined {
  return text === null ? undefined : (JSON.parse(text) as UplinkFailureRecord);
}

/** Parses the column of warnings. */
export function parseDecoderWarnings(text: string | null): DecoderWarnings | undefined {
  return text === null ? undefined : (JSON.parse(text) as DecoderWarnings);
}
