import type { RetryOptions } from '../options';
import type { MethodDefinition, ServiceDefinition } from './definitions';

// The wire tags of Plantroom's own method options (plantroom/v1/options.proto): the field number, shifted by three
// bits, and the wire type (2: length-delimited, 0: a number).
const REQUIRED_SCOPE_TAG = (50001 << 3) | 2;
const READ_ONLY_TAG = 50009 << 3;
const IDEMPOTENCY_KEY_TAG = (50011 << 3) | 2;
// Health methods have no scope option. A repeated cancellation has no further effect.
const ALWAYS_REPEATABLE = /^grpc\.health\.v1\.Health\/|^actuator_command\.v2\.ActuatorCommandService\/CancelExecution$/;

/** The retry options with defaults applied. */
export interface RetryPlan {
  readonly attempts: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/**
 * Applies the default retry options: five attempts, whose four pauses of 6 s in total outlast a restart of the server.
 */
export function createRetryPlan(retry: RetryOptions = {}): RetryPlan {
  return {
    attempts: retry.attempts ?? 5,
    firstPauseMs: retry.firstPauseMs ?? 400,
    longestPauseMs: retry.longestPauseMs ?? 5000,
  };
}

/** Returns the total duration of the pauses of a plan, in milliseconds. */
export function getTotalPauseMs({ attempts, firstPauseMs, longestPauseMs }: RetryPlan): number {
  const pauses = Array.from({ length: attempts - 1 }, (_, retry) =>
    Math.min(firstPauseMs * 2 ** retry, longestPauseMs),
  );
  return pauses.reduce((sum, pause) => sum + pause, 0);
}

/**
 * Returns the pause before a retry in milliseconds, with 20 % random variation. `retry`: the number of the retry, from
 * 0.
 */
export function getPauseMs({ firstPauseMs, longestPauseMs }: RetryPlan, retry: number): number {
  const pauseMs = Math.min(firstPauseMs * 2 ** retry, longestPauseMs);
  const variation = 0.8 + Math.random() * 0.4;
  return pauseMs * variation;
}

/** Returns `package.Service/Method`, the path of a call without the leading slash. */
export function getFullName(service: ServiceDefinition, method: MethodDefinition): string {
  return `${service.fullName}/${method.name}`;
}

/**
 * Returns whether a call may be repeated when it is unknown whether it was executed: it only reads, changes nothing, or
 * is executed only once however often it is sent.
 */
export function isRepeatable(service: ServiceDefinition, method: MethodDefinition): boolean {
  if (ALWAYS_REPEATABLE.test(getFullName(service, method)) || takesIdempotencyKey(method)) return true;
  const { _unknownFields: options = {} } = method.options;
  // Method options are undecoded, by wire tag; an option that is set once has one value.
  const [encodedScope] = options[REQUIRED_SCOPE_TAG] ?? [];
  const scope = Buffer.from(encodedScope?.subarray(1) ?? []).toString(); // Without the length byte.
  const [encodedReadOnly] = options[READ_ONLY_TAG] ?? [];
  // Methods that need a key with any scope (`any`) or no key (`none`) only read.
  return /:read$|^any$|^none$/.test(scope) || encodedReadOnly?.[0] === 1;
}

/** Returns whether the server executes calls of the method with the same idempotency key only once. */
export function takesIdempotencyKey({ options: { _unknownFields: options = {} } }: MethodDefinition): boolean {
  return options[IDEMPOTENCY_KEY_TAG] !== undefined;
}

/**
 * Builds gRPC's service config: the methods to retry, and when. Methods with a stream of responses are excluded; their
 * readers reopen them.
 */
export function buildServiceConfig(services: readonly ServiceDefinition[], plan: RetryPlan): string {
  const name = services.flatMap((service) =>
    Object.values(service.methods)
      .filter((method) => !method.responseStream && isRepeatable(service, method))
      .map((method) => ({ service: service.fullName, method: method.name })),
  );
  const retryPolicy = {
    maxAttempts: plan.attempts,
    initialBackoff: `${plan.firstPauseMs / 1000}s`,
    maxBackoff: `${plan.longestPauseMs / 1000}s`,
    backoffMultiplier: 2,
    retryableStatusCodes: ['UNAVAILABLE'],
  };
  return JSON.stringify({ loadBalancingConfig: [], methodConfig: plan.attempts > 1 ? [{ name, retryPolicy }] : [] });
}
