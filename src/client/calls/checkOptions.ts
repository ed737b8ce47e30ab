import { X509Certificate } from 'node:crypto';
import type { FieldViolation } from '../errorFacts';
import type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from '../options';
import { PlantroomError } from '../plantroomError';

/** The longest time that a timer can wait, in milliseconds: 24 days. */
const LONGEST_MS = 2_147_483_647;
const ADDRESS = /^(?:[^\s:/[\]]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/;
const HEADER_TEXT = /^[\x21-\x7e]+$/;

/** Throws PlantroomError `options_invalid` that names every wrong field. */
export function checkClientOptions(options: ClientOptions): void {
  throwIfAny([...serverMistakes(options), ...deadlineMistakes(options), ...retryMistakes(options.retry ?? {})]);
}

/** As checkClientOptions, for one call. */
export function checkCallOptions(options: CallOptions): void {
  const { requestId } = options;
  const isWrong = requestId !== undefined && (requestId.length > 128 || !HEADER_TEXT.test(requestId));
  throwIfAny([...deadlineMistakes(options), ...(isWrong ? [{ field: 'requestId', description: 'must be 1 to 128 printable ASCII characters without white space' }] : [])]);
}

/** What is wrong with an address, a key, an organization, a CA; for everything that calls a server. */
export function serverMistakes(options: ServerOptions): FieldViolation[] {
  const { address, apiKey, organizationId, ca, insecure } = options;
  const wrong: (FieldViolation | undefined)[] = [
    isAddress(address) ? undefined : { field: 'address', description: 'must be host:port of the gRPC port, without a scheme, for example plantroom.local:50051 or [::1]:50051' },
    typeof apiKey === 'function' ? undefined : headerMistake('apiKey', apiKey, 'the key as it was created, plr_…, or a function that returns it'),
    headerMistake('organizationId', organizationId, 'the id of the organization of the key'),
    ca !== undefined && insecure ? { field: 'insecure', description: 'and ca exclude one another: leave ca out to do without TLS, or insecure to check the server with the CA' } : undefined,
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

function caMistake(ca: string | Uint8Array): FieldViolation | undefined {
  const description = "must be the certificate itself, PEM text, not the name of its file: give readFileSync('ca.pem')";
  if (!Buffer.from(ca).includes('-----BEGIN CERTIFICATE-----')) return { field: 'ca', description };
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

function retryMistakes({ attempts, firstPauseMs, longestPauseMs }: RetryOptions): FieldViolation[] {
  const wrong: FieldViolation[] = [];
  if (attempts !== undefined && !isWithin(attempts, 1, 5)) wrong.push({ field: 'retry.attempts', description: 'must be a whole number from 1 (never again) to 5' });
  const pauses = { firstPauseMs, longestPauseMs };
  for (const [name, pause] of Object.entries(pauses)) if (pause !== undefined && !isWithin(pause, 1, LONGEST_MS)) wrong.push({ field: `retry.${name}`, description: 'must be a whole number of milliseconds, 1 or more' });
  return wrong;
}

function isWithin(value: number, least: number, most: number): boolean {
  return Number.isInteger(value) && value >= least && value <= most;
}
