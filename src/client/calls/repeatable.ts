import type { RetryOptions } from '../options';
import type { MethodDefinition, ServiceDefinition } from './definitions';

// Our own options of a method, by their tag on the wire (plantroom/v1/options.proto).
const REQUIRED_SCOPE = (50001 << 3) | 2;
const CHANGES_NOTHING = 50009 << 3;
/** They change something, and the server makes it once however often it is asked. */
const ONCE: ReadonlySet<string> = new Set(['actuator_command.v2.ActuatorCommandService/ExecuteCommand', 'actuator_command.v2.ActuatorCommandService/CancelExecution']);

/** Pauses and attempts as they are used. */
export interface RetryPlan {
  readonly attempts: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/** The plan of what a client was given. Four pauses of 6 s in all outlast a restart of the server. */
export function retryPlan(retry: RetryOptions = {}): RetryPlan {
  return { attempts: retry.attempts ?? 5, firstPauseMs: retry.firstPauseMs ?? 400, longestPauseMs: retry.longestPauseMs ?? 5000 };
}

/** How long the pauses of a plan last together, in milliseconds. */
export function patience({ attempts, firstPauseMs, longestPauseMs }: RetryPlan): number {
  const pauses = Array.from({ length: attempts - 1 }, (_, n) => Math.min(firstPauseMs * 2 ** n, longestPauseMs));
  return pauses.reduce((sum, pause) => sum + pause, 0);
}

/** The pause after so many attempts beyond the first, with some chance in it, in milliseconds. */
export function pauseMs({ firstPauseMs, longestPauseMs }: RetryPlan, again: number): number {
  return Math.min(firstPauseMs * 2 ** again, longestPauseMs) * (0.8 + Math.random() * 0.4);
}

/** `package.Service/Method`, as in the path of a call. */
export function fullName(service: ServiceDefinition, method: MethodDefinition): string {
  return `${service.fullName}/${method.name}`;
}

/** Whether a call may be made again when nobody knows whether it was done: it only reads, changes nothing, or is done once however often it comes. */
export function isRepeatable(service: ServiceDefinition, method: MethodDefinition): boolean {
  if (service.fullName === 'grpc.health.v1.Health' || ONCE.has(fullName(service, method))) return true;
  const { _unknownFields: own = {} } = method.options;
  const scope = Buffer.from(own[REQUIRED_SCOPE]?.[0]?.subarray(1) ?? []).toString(); // after its length
  return /:read$|^any$|^none$/.test(scope) || own[CHANGES_NOTHING]?.[0]?.[0] === 1;
}

/** gRPC's service config: which methods are tried again, and when. Not streams of answers: their readers open them again, and say when it is enough. */
export function serviceConfig(services: readonly ServiceDefinition[], plan: RetryPlan): string {
  const name = services.flatMap((service) => Object.values(service.methods).filter((method) => !method.responseStream && isRepeatable(service, method)).map((method) => ({ service: service.fullName, method: method.name })));
  const retryPolicy = { maxAttempts: plan.attempts, initialBackoff: `${plan.firstPauseMs / 1000}s`, maxBackoff: `${plan.longestPauseMs / 1000}s`, backoffMultiplier: 2, retryableStatusCodes: ['UNAVAILABLE'] };
  return JSON.stringify({ loadBalancingConfig: [], methodConfig: plan.attempts > 1 ? [{ name, retryPolicy }] : [] });
}
