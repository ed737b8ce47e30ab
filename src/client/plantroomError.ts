import type { ServiceError } from '@grpc/grpc-js';
import { getErrorHint } from './calls/hints';
import { parseErrorDetails } from './calls/errorDetails';
import type { FieldViolation, PlantroomErrorFields } from './errorFields';

export type { FieldViolation, PlantroomErrorFields as PlantroomErrorFacts } from './errorFields';

/** The error of a failed call: reported by the server, or caused by the client or the network. */
export class PlantroomError extends Error implements PlantroomErrorFields {
  override readonly name = 'PlantroomError';
  readonly status: string;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  readonly requestId: string;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    fields: Partial<PlantroomErrorFields> & Pick<PlantroomErrorFields, 'status'>,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = fields.status;
    this.reason = fields.reason ?? '';
    this.metadata = fields.metadata ?? {};
    this.violations = fields.violations ?? [];
    this.requestId = fields.requestId ?? '';
    this.retryAfterMs = fields.retryAfterMs;
  }

  /**
   * Converts the error of a call that was made directly with grpc-js, for example with generated stubs. `address`: the
   * address of the server, for hints about connection errors. `requestId`: the id that was sent, used if the error has
   * none.
   */
  static from(error: ServiceError, address?: string, requestId = ''): PlantroomError {
    const parsed = parseErrorDetails(error);
    const fields = { ...parsed, requestId: parsed.requestId || requestId };
    const hint = fields.reason ? undefined : getErrorHint(error.details, address);
    // grpc-js appends an empty note if there was no error of the name resolution.
    const details = error.details.replace(/\s*\. Resolution note: $/, '').trim();
    return new PlantroomError(hint === undefined ? details : `${hint} (${details})`, fields, { cause: error });
  }

  /** Creates the error for invalid options or an invalid request, with all violations. */
  static invalid(
    reason: 'options_invalid' | 'request_invalid',
    violations: readonly FieldViolation[],
    options?: ErrorOptions,
  ): PlantroomError {
    const message = violations
      .map(({ field, description }) => (field ? `${field} ${description}` : description))
      .join('; ');
    return new PlantroomError(message, { status: 'INVALID_ARGUMENT', reason, violations }, options);
  }
}

/** Returns whether an error is a PlantroomError, and has this reason if one is given. */
export function isPlantroomError(error: unknown, reason?: string): error is PlantroomError {
  return error instanceof PlantroomError && (reason === undefined || error.reason === reason);
}
