/** What kind of failure it is; decides the status on every protocol. */
export type ErrorKind =
  | 'unauthenticated'
  | 'permission_denied'
  | 'invalid_argument'
  | 'not_found'
  | 'conflict'
  | 'already_exists'
  | 'exhausted'
  | 'changed_meanwhile'
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

/** One wrong field of a request, named by its path in JSON names (`physicalDevice.connectionId`, `mappings[2].sourcePath`). */
export interface Violation {
  readonly field: string;
  /** What is wrong and what would be right. */
  readonly description: string;
}

/** What a failure may carry beside its message. */
export interface DomainErrorOptions extends ErrorOptions {
  /** Facts for a program, by snake_case name; never a secret. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly Violation[];
  /** When it is worth trying again, in milliseconds. */
  readonly retryAfterMs?: number;
  /** Nobody knows whether it was done all the same. */
  readonly isInDoubt?: boolean;
}

/** A failure that the caller can act on. `reason` is part of the API: never rename one. `cause` is logged, never sent. */
export class DomainError extends Error {
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  readonly retryAfterMs: number | undefined;
  readonly isInDoubt: boolean;

  constructor(
    readonly kind: ErrorKind,
    /** snake_case, named for the fact: `device_not_found`, never `get_device_failed`. */
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

/** All wrong fields of a request at once. */
export function validationFailed(violations: readonly Violation[]): DomainError {
  const named = violations.slice(0, 5).map((v) => (v.field === '' ? v.description : `${v.field}: ${v.description}`));
  const more = violations.length > 5 ? ` (and ${violations.length - 5} more)` : '';
  return new DomainError('invalid_argument', 'validation_failed', `${named.join('; ')}${more}`, { violations });
}

/** Throws `validation_failed` if there is anything to say. */
export function throwIfAny(violations: readonly Violation[]): void {
  if (violations.length > 0) throw validationFailed(violations);
}

/** `thing` in snake_case, for example `device`; the reason is `device_not_found`. */
export function notFound(thing: string, id: string): DomainError {
  const words = thing.replaceAll('_', ' ');
  return new DomainError('not_found', `${thing}_not_found`, `${words} ${JSON.stringify(id)} does not exist in this organization; list the ${words}s to see those that do`, {
    metadata: { [`${thing}_id`]: id },
  });
}

/** The etag that was given no longer fits. */
export function changedMeanwhile(thing: string, current: string): DomainError {
  return new DomainError('changed_meanwhile', 'changed_meanwhile', `the ${thing.replaceAll('_', ' ')} was changed since it was read; read it again (its etag is ${current} now) and repeat the change`, {
    metadata: { etag: current },
  });
}
