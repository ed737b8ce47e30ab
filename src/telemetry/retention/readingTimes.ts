import { toHour } from '../readings/hourSummary';
import { DAY_MS } from '../../kernel/timeUnits';

/** The retention of an organization, in days. `downsampleAfterDays` is null if its readings are never downsampled. */
export interface RetentionDays {
  readonly retentionDays: number;
  readonly downsampleAfterDays: number | null;
}

/** The age limits of readings. Both times are the start of an hour, Unix milliseconds. */
export interface AgeLimits {
  /** Readings and hours before this time are deleted, or will be soon. */
  readonly keptSince: number;
  /** Numbers before this time are downsampled to hours, or will be soon; undefined without downsampling. */
  readonly downsampledBefore: number | undefined;
}

/**
 * Returns the age limits at a time. They are rounded to full hours, so that the summary of an hour never contradicts
 * its readings.
 */
export function computeAgeLimits({ retentionDays, downsampleAfterDays }: RetentionDays, now: number): AgeLimits {
  return {
    keptSince: toHour(now - retentionDays * DAY_MS),
    downsampledBefore: downsampleAfterDays === null ? undefined : toHour(now - downsampleAfterDays * DAY_MS),
  };
}
