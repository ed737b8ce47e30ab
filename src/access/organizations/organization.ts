import type { Violation } from '../../kernel/errors';

/** A customer or site. Every record except users belongs to one organization. Times are Unix milliseconds. */
export interface Organization extends ReadingRetention {
  readonly id: string;
  /** Not unique: organizations are identified by their ids. */
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

/** The retention of an organization's readings. */
interface ReadingRetention {
  /** How long readings are kept, 1 to MAX_RETENTION_DAYS days. */
  readonly readingRetentionDays: number;
  /**
   * The age at which single numeric readings are replaced by hourly summaries, 1 to readingRetentionDays days;
   * undefined: never.
   */
  readonly downsampleAfterDays: number | undefined;
}

/** The fields to change; undefined fields stay unchanged. */
export interface OrganizationChange {
  readonly name?: string | undefined;
  readonly readingRetentionDays?: number | undefined;
  /** In days; 0: never. */
  readonly downsampleAfterDays?: number | undefined;
}

/** The default retention of a new organization: all readings for a year. */
export const NEW_RETENTION: ReadingRetention = { readingRetentionDays: 365, downsampleAfterDays: undefined };

const MAX_RETENTION_DAYS = 36_500;

/** Returns the violations of a retention, by the field names of the request. */
export function findRetentionViolations({ readingRetentionDays, downsampleAfterDays }: ReadingRetention): Violation[] {
  const violations: Violation[] = [];
  if (!isValidDays(readingRetentionDays))
    violations.push({
      field: 'readingRetentionDays',
      description: `must be a whole number of days from 1 to ${MAX_RETENTION_DAYS} (got ${readingRetentionDays})`,
    });
  if (downsampleAfterDays === undefined) return violations;
  if (!isValidDays(downsampleAfterDays))
    violations.push({
      field: 'downsampleAfterDays',
      description: `must be a whole number of days from 1 to ${MAX_RETENTION_DAYS}, or 0 for never (got ${downsampleAfterDays})`,
    });
  else if (downsampleAfterDays > readingRetentionDays)
    violations.push({
      field: 'downsampleAfterDays',
      description: `must be at most readingRetentionDays (${readingRetentionDays}), or 0 for never (got ${downsampleAfterDays})`,
    });
  return violations;
}

/** Returns the organization with the change, as the next revision. Expects a validated name. */
export function applyChange(organization: Organization, change: OrganizationChange, now: number): Organization {
  const { downsampleAfterDays = organization.downsampleAfterDays } = change; // 0 in a change means never
  return {
    ...organization,
    name: change.name ?? organization.name,
    readingRetentionDays: change.readingRetentionDays ?? organization.readingRetentionDays,
    downsampleAfterDays: downsampleAfterDays === 0 ? undefined : downsampleAfterDays,
    updatedAt: now,
    revision: organization.revision + 1,
  };
}

function isValidDays(days: number): boolean {
  return Number.isInteger(days) && days >= 1 && days <= MAX_RETENTION_DAYS;
}
