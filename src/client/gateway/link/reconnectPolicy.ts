import { MAX_TIMER_MS } from '../../delay';
import type { PlantroomError } from '../../plantroomError';

const PERMANENT_STATUSES: readonly string[] = [
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'NOT_FOUND',
  'INVALID_ARGUMENT',
  'UNIMPLEMENTED',
];
const PERMANENT_REASONS: readonly string[] = ['not_a_gateway', 'protocol_version_unsupported'];
const REJECTED_PAUSE_MS = 60_000;
const REPLACED_PAUSE_MS = 30_000;
/** More failures do not double the pause again. */
const MAX_DOUBLINGS = 5;

/**
 * Returns whether the server will reject the gateway until an operator fixes something. A disabled connection or an
 * unavailable server is not permanent.
 */
export function isPermanentRejection({ status, reason }: PlantroomError): boolean {
  return PERMANENT_STATUSES.includes(status) || PERMANENT_REASONS.includes(reason);
}

/**
 * Returns the pause before the next attempt, in milliseconds: a minute after a permanent rejection; what the server
 * asks for (or 30 s) if another gateway with the same id has attached, so that the two do not replace each other all
 * the time; otherwise `backoffMs`, or longer if the server asks for that.
 */
export function getPauseAfter(error: PlantroomError | undefined, backoffMs: number): number {
  if (error && isPermanentRejection(error)) return REJECTED_PAUSE_MS;
  if (error?.reason === 'gateway_replaced') return error.retryAfterMs ?? REPLACED_PAUSE_MS;
  return Math.max(backoffMs, error?.retryAfterMs ?? 0);
}

/**
 * Calls `backoffMs` of the gateway options. Returns the default pause, with a warning, if that function throws or
 * returns an invalid value.
 */
export function getBackoff(backoffMs: (failures: number) => number, failures: number): number {
  try {
    const ms: unknown = backoffMs(failures);
    if (typeof ms === 'number' && ms >= 0) return Math.min(Math.max(ms, 1), MAX_TIMER_MS);
    process.emitWarning(`backoffMs of a gateway returned ${String(ms)}, which is not a valid pause in milliseconds`);
  } catch (error) {
    process.emitWarning(`backoffMs of a gateway threw: ${error instanceof Error ? error.message : String(error)}`);
  }
  return defaultBackoff(failures);
}

/**
 * Returns a pause from 1 s to 30 s that grows with the failures, with 25 % random variation so that the gateways of a
 * site do not reconnect at the same time.
 */
export function defaultBackoff(failures: number): number {
  // 1 s with the minimum variation is 750 ms, and 23.8 s with the maximum variation is 29,750 ms; both plus 250 ms.
  const pauseMs = Math.min(1000 * 2 ** Math.min(failures, MAX_DOUBLINGS), 23_800);
  const variation = 0.75 + Math.random() / 2;
  return pauseMs * variation + 250;
}
