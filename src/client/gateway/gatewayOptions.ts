import { listServerViolations } from '../calls/checkOptions';
import { MAX_TIMER_MS } from '../delay';
import { GatewayError } from './gatewayError';
import type { GatewayOptions } from './options';

const MAX_ID_LENGTH = 128;
const MAX_SOFTWARE_LENGTH = 128;

/** Validates the options. Throws GatewayError `options_invalid`, which lists every invalid field and a valid value. */
export function checkGatewayOptions(options: GatewayOptions): void {
  const server = listServerViolations(options).map(({ field, description }) => `${field} ${description}`);
  const violations = [
    ...server,
    ...listIdentityViolations(options),
    ...listTypeViolations(options),
    ...listNumberViolations(options),
  ];
  if (violations.length > 0) throw new GatewayError('options_invalid', violations.join('; '));
}

/** Lists the violations of the options that say who the gateway is. */
function listIdentityViolations({ connectionId, gatewayId, software }: GatewayOptions): string[] {
  return [
    ...(isId(connectionId) ? [] : ['connectionId must be the id of a connection of connector type gateway']),
    ...(gatewayId === undefined || isId(gatewayId)
      ? []
      : [`gatewayId must be 1 to ${MAX_ID_LENGTH} characters without white space; or omit it`]),
    ...(software === undefined || isShortText(software)
      ? []
      : [`software must be at most ${MAX_SOFTWARE_LENGTH} characters; or omit it`]),
  ];
}

/** Checks types at run time, because callers without TypeScript may pass any value. */
function listTypeViolations({ store, deliver, uplinks, onEvent, backoffMs, onRejected }: GatewayOptions): string[] {
  return [
    ...(typeof (store as GatewayOptions['store'] | undefined)?.apply === 'function'
      ? []
      : ['store is required: use sqliteStore(file) or memoryStore()']),
    ...(typeof deliver === 'function'
      ? []
      : ['deliver is required: set a function that delivers a command to its device']),
    ...(uplinks === undefined || typeof uplinks[Symbol.asyncIterator] === 'function'
      ? []
      : ['uplinks must be an async iterable; or omit it']),
    ...(isOptionalFunction(onEvent) ? [] : ['onEvent must be a function; or omit it']),
    ...(isOptionalFunction(backoffMs) ? [] : ['backoffMs must be a function; or omit it']),
    ...(onRejected === undefined || ['retry', 'stop'].includes(onRejected)
      ? []
      : ["onRejected must be 'retry' or 'stop'; or omit it"]),
  ];
}

/** Lists the options that are not whole numbers within their limits. */
function listNumberViolations(options: GatewayOptions): string[] {
  const limits = {
    maxConcurrentDeliveries: Number.MAX_SAFE_INTEGER,
    deliveryTimeoutMs: MAX_TIMER_MS,
    maxUplinks: Number.MAX_SAFE_INTEGER,
    maxUplinkBytes: Number.MAX_SAFE_INTEGER,
  };
  return Object.entries(limits).flatMap(([field, maxValue]) => {
    const value: unknown = options[field as keyof typeof limits];
    const isWithinLimits = Number.isInteger(value) && (value as number) >= 1 && (value as number) <= maxValue;
    if (value === undefined || isWithinLimits) return [];
    return [`${field} must be a whole number from 1 to ${maxValue}; or omit it`];
  });
}

/** Whether the value is an id that the server accepts: no white space, control characters or broken surrogates. */
function isId(value: unknown): boolean {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= MAX_ID_LENGTH &&
    value.isWellFormed() &&
    !/[\p{Cc}\s]/u.test(value)
  );
}

function isShortText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= MAX_SOFTWARE_LENGTH;
}

function isOptionalFunction(value: unknown): boolean {
  return value === undefined || typeof value === 'function';
}
