import { hourOf } from '../readings/hourSummary';

/** How long an organization keeps its readings, in days; `thinAfterDays` null: it never thins them. */
export interface RetentionDays {
  readonly retentionDays: number;
  readonly thinAfterDays: number | null;
}

/** How far back readings go. Both times are the beginning of an hour, Unix milliseconds. */
export interface ReadingTimes {
  /** Readings and hours before it are gone, or about to be. */
  readonly keptSince: number;
  /** Of numbers before it only the hours are left, or are about to be; undefined where nothing is thinned. */
  readonly thinnedBefore: number | undefined;
}

const DAY_MS = 86_400_000;

/** What is kept at a time. Whole hours go at once, so that an hour and its readings never tell different things. */
export function readingTimes({ retentionDays, thinAfterDays }: RetentionDays, now: number): ReadingTimes {
  return { keptSince: hourOf(now - retentionDays * DAY_MS), thinnedBefore: thinAfterDays === null ? undefined : hourOf(now - thinAfterDays * DAY_MS) };
}
