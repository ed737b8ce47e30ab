import { serverMistakes } from '../calls/checkOptions';
import { GatewayError } from './gatewayError';
import type { GatewayOptions } from './options';

const LONGEST_ID = 128;
const LONGEST_SOFTWARE = 128;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Throws GatewayError `options_invalid` that names every wrong field and what would be right. */
export function checkGatewayOptions(options: GatewayOptions): void {
  const server = serverMistakes(options).map(({ field, description }) => `${field} ${description}`);
  const wrong = [...server, ...identityMistakes(options), ...partMistakes(options), ...numberMistakes(options)];
  if (wrong.length > 0) throw new GatewayError('options_invalid', wrong.join('; '));
}

function identityMistakes({ connectionId, gatewayId, software }: GatewayOptions): string[] {
  return [
    ...(isId(connectionId) ? [] : ['connectionId must be the id of a connection of connector type gateway']),
    ...(gatewayId === undefined || isId(gatewayId) ? [] : [`gatewayId must be 1 to ${LONGEST_ID} characters without white space; or leave it out`]),
    ...(software === undefined || isShortText(software) ? [] : [`software must be at most ${LONGEST_SOFTWARE} characters; or leave it out`]),
  ];
}

/** Callers without types may give anything. */
function partMistakes({ store, deliver, uplinks, onEvent, backoffMs, whenRefused }: GatewayOptions): string[] {
  return [
    ...(typeof (store as GatewayOptions['store'] | undefined)?.apply === 'function' ? [] : ['store must be given: sqliteStore(file), or memoryStore()']),
    ...(typeof deliver === 'function' ? [] : ['deliver must be given: a function that delivers a command to its device']),
    ...(uplinks === undefined || typeof uplinks[Symbol.asyncIterator] === 'function' ? [] : ['uplinks must be an async iterable; or leave it out']),
    ...(isFunctionOrLeftOut(onEvent) ? [] : ['onEvent must be a function; or leave it out']),
    ...(isFunctionOrLeftOut(backoffMs) ? [] : ['backoffMs must be a function; or leave it out']),
    ...(whenRefused === undefined || ['retry', 'stop'].includes(whenRefused) ? [] : ["whenRefused must be 'retry' or 'stop'; or leave it out"]),
  ];
}

function numberMistakes(options: GatewayOptions): string[] {
  const most = { deliveriesAtOnce: Number.MAX_SAFE_INTEGER, deliveryTimeoutMs: LONGEST_TIMER_MS, mostUplinks: Number.MAX_SAFE_INTEGER, mostUplinkBytes: Number.MAX_SAFE_INTEGER };
  return Object.entries(most).flatMap(([field, largest]) => {
    const value: unknown = options[field as keyof typeof most];
    return value === undefined || (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest) ? [] : [`${field} must be a whole number from 1 to ${largest}; or leave it out`];
  });
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_ID && value.isWellFormed() && !/[\p{Cc}\s]/u.test(value);
}

function isShortText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= LONGEST_SOFTWARE;
}

function isFunctionOrLeftOut(value: unknown): boolean {
  return value === undefined || typeof value === 'function';
}
