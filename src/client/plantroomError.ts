/** One wrong field of a request, named by its path in JSON names (`physicalDevice.connectionId`, `mappings[2].sourcePath`). */
export interface FieldViolation {
  readonly field: string;
  /** What is wrong and what would be right. */
  readonly description: string;
}

/** What a failed call tells. */
export interface PlantroomErrorFacts {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /** snake_case, part of the API and never renamed, for example `device_not_found`; empty if it did not come from a Plantroom (a proxy, a broken link). */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  /** By this the server's log can be searched; empty if it is not known. */
  readonly requestId: string;
  /** When it is worth trying again, in milliseconds; undefined: the server did not say. */
  readonly retryAfterMs: number | undefined;
}

/** A failed call, as the server told it. */
export class PlantroomError extends Error implements PlantroomErrorFacts {
  override readonly name = 'PlantroomError';
  readonly status: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  readonly requestId: string;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, facts: PlantroomErrorFacts, options?: ErrorOptions) {
    super(message, options);
    this.status = facts.status;
    this.reason = facts.reason;
    this.metadata = facts.metadata;
    this.violations = facts.violations;
    this.requestId = facts.requestId;
    this.retryAfterMs = facts.retryAfterMs;
  }
}
