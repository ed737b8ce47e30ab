import type { Violation } from '../../kernel/errors';

/** A customer's or site's world: everything but users belongs to one. Times are Unix milliseconds. */
export interface Organization extends ReadingRetention {
  readonly id: string;
  /** Not unique: ids tell organizations apart. */
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

/** How long an organization keeps its readings. */
export interface ReadingRetention {
  /** 1 to LONGEST_RETENTION_DAYS. */
  readonly readingRetentionDays: number;
  /** When single readings of numbers make way for their hours: 1 to readingRetentionDays; undefined: never. */
  readonly thinReadingsAfterDays: number | undefined;
}

/** What to change on an organization; undefined stays as it is. */
export interface OrganizationChange {
  readonly name?: string | undefined;
  readonly readingRetentionDays?: number | undefined;
  /** 0: never. */
  readonly thinReadingsAfterDays?: number | undefined;
}

/** What a new organization keeps: a year of readings, all of them. */
export const NEW_RETENTION: ReadingRetention = { readingRetentionDays: 365, thinReadingsAfterDays: undefined };

const LONGEST_RETENTION_DAYS = 36_500;

/** What is wrong with how long readings are kept, by the names of the request's fields. */
export function retentionViolations({ readingRetentionDays, thinReadingsAfterDays }: ReadingRetention): Violation[] {
  const violations: Violation[] = [];
  if (!isDays(readingRetentionDays)) violations.push({ field: 'readingRetentionDays', description: `is ${readingRetentionDays}; give 1 to ${LONGEST_RETENTION_DAYS} whole days` });
  if (thinReadingsAfterDays === undefined) return violations;
  if (!isDays(thinReadingsAfterDays)) violations.push({ field: 'thinReadingsAfterDays', description: `is ${thinReadingsAfterDays}; give 1 to ${LONGEST_RETENTION_DAYS} whole days, or 0 for never` });
  else if (thinReadingsAfterDays > readingRetentionDays) violations.push({ field: 'thinReadingsAfterDays', description: `is ${thinReadingsAfterDays}, but readings are kept for ${readingRetentionDays} days; give at most that, or 0 for never` });
  return violations;
}

/** The organization with the change, its name as given: the next revision. */
export function changedOrganization(organization: Organization, change: OrganizationChange, now: number): Organization {
  const { thinReadingsAfterDays = organization.thinReadingsAfterDays } = change;
  return {
    ...organization,
    name: change.name ?? organization.name,
    readingRetentionDays: change.readingRetentionDays ?? organization.readingRetentionDays,
    thinReadingsAfterDays: thinReadingsAfterDays === 0 ? undefined : thinReadingsAfterDays,
    updatedAt: now,
    revision: organization.revision + 1,
  };
}

function isDays(days: number): boolean {
  return Number.isInteger(days) && days >= 1 && days <= LONGEST_RETENTION_DAYS;
}
