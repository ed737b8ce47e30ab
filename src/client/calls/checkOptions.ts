import { X509Certificate } from 'node:crypto';
import type { FieldViolation } from '../errorFacts';
import type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import type { LinkOptions } from '../streams/watchOptions';

/** The longest time that a timer can wait, in milliseconds: 24 days. */
export const LONGEST_MS = 2_147_483_647;
const ADDRESS = /^(?:[^\s:/[\]]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/;
const HEADER_TEXT = /^[\x21-\x7e]+$/;

/** The names of all options of a client. */
const CLIENT_OPTIONS = ['address', 'apiKey', 'organizationId', 'ca', 'insecure', 'deadlineMs', 'retry'];
const RETRY_OPTIONS = ['attempts', 'firstPauseMs', 'longestPauseMs'];
const CALL_OPTIONS = ['deadlineMs', 'signal', 'requestId'];

/** Throws PlantroomError `options_invalid` that names every wrong field. */
export function checkClientOptions(options: ClientOptions): void {
  throwIfAny(structureMistakes('', options, CLIENT_OPTIONS) ?? [...serverMistakes(options), ...deadlineMistakes(options), ...retryMistakes(options.retry)]);
}

/** As checkClientOptions, for one call. */
export function checkCallOptions(options: CallOptions): void {
  throwIfAny(structureMistakes('', options, CALL_OPTIONS) ?? [...deadlineMistakes(options), ...requestIdMistakes(options), ...signalMistakes(options)]);
}

/** As checkClientOptions, for a watch. */
export function checkLinkOptions(options: LinkOptions): void {
  const { firstPauseMs, longestPauseMs, giveUpAfterMs } = options;
  const isWrong = giveUpAfterMs !== undefined && !(typeof giveUpAfterMs === 'number' && giveUpAfterMs >= 0);
  const enough = isWrong ? [{ field: 'giveUpAfterMs', description: 'must be a number of milliseconds, 0 or more' }] : [];
  throwIfAny([...pauseMistakes('', { firstPauseMs, longestPauseMs }), ...enough, ...signalMistakes(options)]);
}

/** As checkClientOptions, for waiting until an execution is final. */
export function checkSettleOptions(options: LinkOptions & { readonly timeoutMs: number }): void {
  const { timeoutMs } = options;
  throwIfAny(isWithin(timeoutMs, 1, LONGEST_MS) ? [] : [{ field: 'timeoutMs', description: `must be a whole number of milliseconds from 1 to ${LONGEST_MS}` }]);
  checkLinkOptions(options);
}

/** What is wrong with an address, a key, an organization, a CA; for everything that calls a server. */
export function serverMistakes(options: ServerOptions): FieldViolation[] {
  const { address, apiKey, organizationId, ca, insecure } = options;
  const isSwitch = insecure === undefined || typeof insecure === 'boolean';
  const wrong: (FieldViolation | undefined)[] = [
    isAddress(address) ? undefined : { field: 'address', description: 'must be host:port of the gRPC port, without a scheme, for example plantroom.local:50051 or [::1]:50051' },
    typeof apiKey === 'function' ? undefined : headerMistake('apiKey', apiKey, 'the key as it was created, plr_…, or a function that returns it'),
    headerMistake('organizationId', organizationId, 'the id of the organization of the key'),
    isSwitch ? undefined : { field: 'insecure', description: 'must be true or false, not a text: what is not false would send the key without TLS' },
    ca !== undefined && insecure === true ? { field: 'insecure', description: 'and ca exclude one another: leave ca out to do without TLS, or insecure to check the server with the CA' } : undefined,
    ca === undefined ? undefined : caMistake(ca),
  ];
  return wrong.filter((one) => one !== undefined);
}

/** What is wrong with a value that travels as a header; it is never told itself. */
export function headerMistake(field: string, value: unknown, right: string): FieldViolation | undefined {
  if (typeof value !== 'string' || value === '') return { field, description: `must be given: ${right}` };
  return HEADER_TEXT.test(value) ? undefined : { field, description: `holds white space, a line break for example, or a character that no key or id has; give ${right}` };
}

/** Throws PlantroomError `options_invalid` if there are any. */
export function throwIfAny(violations: readonly FieldViolation[]): void {
  if (violations.length > 0) throw PlantroomError.invalid('options_invalid', violations);
}

function isAddress(address: unknown): boolean {
  const port = typeof address === 'string' ? Number(ADDRESS.exec(address)?.[1]) : Number.NaN;
  return port >= 1 && port <= 65_535;
}

/** Why it holds no options at all, or which of them there are not; undefined: it can be looked at. */
function structureMistakes(field: string, options: unknown, names: readonly string[]): FieldViolation[] | undefined {
  if (typeof options !== 'object' || options === null) return [{ field, description: `${field ? 'must be' : 'the options must be'} an object with ${names.join(', ')}` }];
  const unknown = Object.keys(options).filter((name) => !names.includes(name));
  if (unknown.length === 0) return undefined;
  return unknown.map((name) => ({ field: field ? `${field}.${name}` : name, description: `is no option; there are ${names.join(', ')}` }));
}

function caMistake(ca: string | Uint8Array): FieldViolation | undefined {
  const description = "must be the certificate itself, PEM text, not the name of its file: give readFileSync('ca.pem')";
  if (!(typeof ca === 'string' || ca instanceof Uint8Array) || !Buffer.from(ca).includes('-----BEGIN CERTIFICATE-----')) return { field: 'ca', description };
  try {
    void new X509Certificate(ca);
    return undefined;
  } catch {
    return { field: 'ca', description: 'is PEM text, but the certificate in it cannot be read; take tls/ca.pem of the server\'s data folder as it is' };
  }
}

function deadlineMistakes({ deadlineMs }: { readonly deadlineMs?: number }): FieldViolation[] {
  if (deadlineMs === undefined || isWithin(deadlineMs, 1, LONGEST_MS)) return [];
  return [{ field: 'deadlineMs', description: `must be a whole number of milliseconds from 1 to ${LONGEST_MS}` }];
}

function requestIdMistakes({ requestId }: CallOptions): FieldViolation[] {
  const isRight = requestId === undefined || (typeof requestId === 'string' && requestId.length <= 128 && HEADER_TEXT.test(requestId));
  return isRight ? [] : [{ field: 'requestId', description: 'must be 1 to 128 printable ASCII characters without white space' }];
}

function signalMistakes({ signal }: { readonly signal?: AbortSignal }): FieldViolation[] {
  return signal === undefined || signal instanceof AbortSignal ? [] : [{ field: 'signal', description: 'must be an AbortSignal, for example that of a new AbortController()' }];
}

function retryMistakes(retry: RetryOptions | undefined): FieldViolation[] {
  if (retry === undefined) return [];
  const wrong = structureMistakes('retry', retry, RETRY_OPTIONS);
  if (wrong) return wrong;
  const { attempts, firstPauseMs, longestPauseMs } = retry;
  const isRight = attempts === undefined || isWithin(attempts, 1, 5);
  return [...(isRight ? [] : [{ field: 'retry.attempts', description: 'must be a whole number from 1 (never again) to 5' }]), ...pauseMistakes('retry.', { firstPauseMs, longestPauseMs })];
}

function pauseMistakes(under: string, pauses: Readonly<Record<string, number | undefined>>): FieldViolation[] {
  const wrong = Object.entries(pauses).filter(([, pause]) => pause !== undefined && !isWithin(pause, 1, LONGEST_MS));
  return wrong.map(([name]) => ({ field: `${under}${name}`, description: `must be a whole number of milliseconds, 1 or more, at most ${LONGEST_MS}` }));
}

function isWithin(value: number, least: number, most: number): boolean {
  return Number.isInteger(value) && value >= least && value <= most;
}
