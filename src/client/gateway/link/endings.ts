import type { PlantroomError } from '../../plantroomError';

const STATUSES: readonly string[] = ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'NOT_FOUND', 'INVALID_ARGUMENT', 'UNIMPLEMENTED'];
const REASONS: readonly string[] = ['not_a_gateway', 'protocol_version_unsupported'];
const REFUSED_MS = 60_000;
const REPLACED_MS = 30_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Whether a person must act before the server will take the gateway. A disabled connection may be enabled again, a server may come back. */
export function isRefusal({ status, reason }: PlantroomError): boolean {
  return STATUSES.includes(status) || REASONS.includes(reason);
}

/** How long to wait before the next attempt, in milliseconds. */
export function pauseAfter(error: PlantroomError | undefined, backoffMs: number): number {
  if (error && isRefusal(error)) return REFUSED_MS;
  if (error?.reason === 'gateway_replaced') return error.retryAfterMs ?? REPLACED_MS;
  return Math.max(backoffMs, error?.retryAfterMs ?? 0);
}

/** The pause that a function of the gateway's maker gives; the usual one where it throws or gives none. */
export function givenBackoff(backoffMs: (failures: number) => number, failures: number): number {
  try {
    const ms: unknown = backoffMs(failures);
    if (typeof ms === 'number' && ms >= 0) return Math.min(Math.max(ms, 1), LONGEST_TIMER_MS);
    process.emitWarning(`backoffMs of a gateway gave ${String(ms)}, which is no pause in milliseconds`);
  } catch (error) {
    process.emitWarning(`backoffMs of a gateway threw: ${error instanceof Error ? error.message : String(error)}`);
  }
  return usualBackoff(failures);
}

/** From 1 s to 30 s, a quarter more or less by chance, so that the gateways of a site do not come all at once. */
export function usualBackoff(failures: number): number {
  return Math.min(1000 * 2 ** Math.min(failures, 5), 23_800) * (0.75 + Math.random() / 2) + 250;
}
