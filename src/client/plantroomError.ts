import type { ServiceError } from '@grpc/grpc-js';
import { hintOf } from './calls/hints';
import { factsOf } from './calls/wireFacts';
import type { FieldViolation, PlantroomErrorFacts } from './errorFacts';

export type { FieldViolation, PlantroomErrorFacts } from './errorFacts';

/** A failed call, as the server told it, or as it failed on the way. */
export class PlantroomError extends Error implements PlantroomErrorFacts {
  override readonly name = 'PlantroomError';
  readonly status: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  readonly requestId: string;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, facts: Partial<PlantroomErrorFacts> & Pick<PlantroomErrorFacts, 'status'>, options?: ErrorOptions) {
    super(message, options);
    this.status = facts.status;
    this.reason = facts.reason ?? '';
    this.metadata = facts.metadata ?? {};
    this.violations = facts.violations ?? [];
    this.requestId = facts.requestId ?? '';
    this.retryAfterMs = facts.retryAfterMs;
  }

  /**
   * The error of a call that was made with gRPC itself, for example with the stubs. `address`: where it was made to, to name it in what is said of
   * a broken link; `requestId`: what it was sent with, for where no server answered.
   */
  static from(error: ServiceError, address?: string, requestId = ''): PlantroomError {
    const told = factsOf(error);
    const facts = { ...told, requestId: told.requestId || requestId };
    const hint = facts.reason ? undefined : hintOf(error.details, address);
    const details = error.details.replace(/\s*\. Resolution note: $/, '').trim();
    return new PlantroomError(hint === undefined ? details : `${hint} (${details})`, facts, { cause: error });
  }

  /** What is wrong with what the caller gave the client itself, all of it at once. */
  static invalid(reason: 'options_invalid' | 'request_invalid', violations: readonly FieldViolation[], options?: ErrorOptions): PlantroomError {
    const message = violations.map(({ field, description }) => (field ? `${field} ${description}` : description)).join('; ');
    return new PlantroomError(message, { status: 'INVALID_ARGUMENT', reason, violations }, options);
  }
}

/** Whether it is a PlantroomError, and of this reason where one is named. */
export function isPlantroomError(error: unknown, reason?: string): error is PlantroomError {
  return error instanceof PlantroomError && (reason === undefined || error.reason === reason);
}
