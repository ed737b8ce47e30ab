/** The kind of an error; determines its status on every protocol. */
export type ErrorKind =
  | 'unauthenticated'
  | 'permission_denied'
  | 'invalid_argument'
  | 'not_found'
  | 'conflict'
  | 'already_exists'
  | 'exhausted'
  | 'version_conflict'
  | 'too_large'
  | 'unsupported_media_type'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'range_not_satisfiable'
  | 'out_of_range'
  | 'unavailable'
  | 'cancelled'
  | 'deadline_exceeded'
  | 'request_timeout'
  | 'unimplemented'
  | 'internal';

/**
 * One invalid field of a request, named by its path in JSON names (`physicalDevice.connectionId`,
 * `mappings[2].sourcePath`).
 */
export interface Violation {
  readonly field: string;
  /** What is wrong and how to fix it. */
  readonly description: string;
}

/** Optional details of a DomainError. */
interface DomainErrorOptions extends ErrorOptions {
  /** Machine-readable facts by snake_case name; never a secret. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly Violation[];
  /** Delay after which a retry makes sense, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The operation may have succeeded despite the error. */
  readonly isInDoubt?: boolean;
}

/**
 * An error that the caller can act on. `reason` is part of the API: never rename one. `cause` is logged, never sent.
 */
export class DomainError extends Error {
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  readonly retryAfterMs: number | undefined;
  readonly isInDoubt: boolean;

  constructor(
    readonly kind: ErrorKind,
    /** snake_case, describes the fact: `device_not_found`, never `get_device_failed`. */
    readonly reason: string,
    message: string,
    options: DomainErrorOptions = {},
  ) {
    super(message, options);
    this.name = 'DomainError';
    this.metadata = options.metadata ?? {};
    this.violations = options.violations ?? [];
    this.retryAfterMs = options.retryAfterMs;
    this.isInDoubt = options.isInDoubt ?? false;
  }
}

/** The number of violations in the message of an error; the error itself contains all of them. */
const MAX_LISTED_VIOLATIONS = 5;

/** Creates one error for all invalid fields of a request. */
export function validationFailed(violations: readonly Violation[]): DomainError {
  const listed = violations
    .slice(0, MAX_LISTED_VIOLATIONS)
    .map((violation) =>
      violation.field === '' ? violation.description : `${violation.field}: ${violation.description}`,
    );
  const omittedCount = violations.length - listed.length;
  const more = omittedCount > 0 ? ` (and ${omittedCount} more)` : '';
  return new DomainError('invalid_argument', 'validation_failed', `${listed.join('; ')}${more}`, { violations });
}

/** Throws `validation_failed` if there are violations. */
export function throwIfAny(violations: readonly Violation[]): void {
  if (violations.length > 0) throw validationFailed(violations);
}

/** Creates the error `<resourceType>_not_found`. `resourceType`: in snake_case, for example `device`. */
export function notFound(resourceType: string, id: string): DomainError {
  const words = resourceType.replaceAll('_', ' ');
  return new DomainError(
    'not_found',
    `${resourceType}_not_found`,
    `${words} ${JSON.stringify(id)} not found in this organization: list the ${words}s to see the existing ones`,
    {
      metadata: { [`${resourceType}_id`]: id },
    },
  );
}

/**
 * Creates the error `version_conflict`: the etag of the request is outdated. `current`: the etag that the record has
 * now.
 */
export function versionConflict(resourceType: string, current: string): DomainError {
  return new DomainError(
    'version_conflict',
    'version_conflict',
    `the ${resourceType.replaceAll('_', ' ')} was changed since it was read: read it again (its etag is now ${current}) and repeat the change`,
    {
      metadata: { etag: current },
    },
  );
}
