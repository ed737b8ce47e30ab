import { X509Certificate } from 'node:crypto';
import { MAX_TIMER_MS } from '../delay';
import type { FieldViolation } from '../errorFields';
import type { CallOptions, ClientOptions, RetryOptions, ServerOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import type { LinkOptions } from '../streams/watchOptions';

const ADDRESS = /^(?:[^\s:/[\]]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/;
// Printable ASCII characters without the space.
const HEADER_TEXT = /^[\x21-\x7e]+$/;

/** The names of all client options. */
const CLIENT_OPTIONS = ['address', 'apiKey', 'organizationId', 'ca', 'insecure', 'deadlineMs', 'retry'];
const RETRY_OPTIONS = ['attempts', 'firstPauseMs', 'longestPauseMs'];
const CALL_OPTIONS = ['deadlineMs', 'signal', 'requestId', 'idempotencyKey'];

/** Validates the options of a client. Throws PlantroomError `options_invalid`, which lists every invalid field. */
export function checkClientOptions(options: ClientOptions): void {
  throwIfInvalid(
    findStructureViolations('', options, CLIENT_OPTIONS) ?? [
      ...listServerViolations(options),
      ...listDeadlineViolations(options),
      ...listRetryViolations(options.retry),
    ],
  );
}

/** Validates the options of one call. Throws like checkClientOptions. */
export function checkCallOptions(options: CallOptions): void {
  throwIfInvalid(
    findStructureViolations('', options, CALL_OPTIONS) ?? [
      ...listDeadlineViolations(options),
      ...listIdViolations('requestId', options.requestId, 128),
      ...listIdViolations('idempotencyKey', options.idempotencyKey, 255),
      ...listSignalViolations(options),
    ],
  );
}

/** Validates the options of a watch, which uses one link after another. Throws like checkClientOptions. */
export function checkLinkOptions(options: LinkOptions): void {
  const { firstPauseMs, longestPauseMs, giveUpAfterMs } = options;
  const isGiveUpInvalid = giveUpAfterMs !== undefined && !(typeof giveUpAfterMs === 'number' && giveUpAfterMs >= 0);
  const giveUpViolations = isGiveUpInvalid
    ? [{ field: 'giveUpAfterMs', description: 'must be a number of milliseconds, 0 or more' }]
    : [];
  throwIfInvalid([
    ...listPauseViolations('', { firstPauseMs, longestPauseMs }),
    ...giveUpViolations,
    ...listSignalViolations(options),
  ]);
}

/** Validates the options of waiting for a final state. Throws like checkClientOptions. */
export function checkSettleOptions(options: LinkOptions & { readonly timeoutMs: number }): void {
  const { timeoutMs } = options;
  throwIfInvalid(
    isWithin(timeoutMs, 1, MAX_TIMER_MS)
      ? []
      : [{ field: 'timeoutMs', description: `must be a whole number of milliseconds from 1 to ${MAX_TIMER_MS}` }],
  );
  checkLinkOptions(options);
}

/** Lists the violations of the options that every connection to a server needs: address, key, organization, TLS. */
export function listServerViolations(options: ServerOptions): FieldViolation[] {
  const { address, apiKey, organizationId, ca, insecure } = options;
  const isBoolean = insecure === undefined || typeof insecure === 'boolean';
  const violations: (FieldViolation | undefined)[] = [
    isAddress(address)
      ? undefined
      : {
          field: 'address',
          description:
            'must be host:port of the gRPC port, without a scheme, for example plantroom.local:50051 or [::1]:50051',
        },
    typeof apiKey === 'function'
      ? undefined
      : findHeaderViolation('apiKey', apiKey, 'the API key (plr_…), or a function that returns it'),
    findHeaderViolation('organizationId', organizationId, 'the organization id of the API key'),
    isBoolean
      ? undefined
      : {
          field: 'insecure',
          description: 'must be a boolean, not a string: any other value could send the key without TLS',
        },
    ca !== undefined && insecure === true
      ? {
          field: 'insecure',
          description:
            'cannot be combined with ca: omit ca to connect without TLS, or omit insecure to verify the server with the CA',
        }
      : undefined,
    ca === undefined ? undefined : findCaViolation(ca),
  ];
  return violations.filter((violation) => violation !== undefined);
}

/** Validates the value of a header. The description never contains the value. `expected` describes a valid value. */
export function findHeaderViolation(field: string, value: unknown, expected: string): FieldViolation | undefined {
  if (typeof value !== 'string' || value === '') return { field, description: `is required: set ${expected}` };
  return HEADER_TEXT.test(value)
    ? undefined
    : {
        field,
        description: `contains white space (for example a line break) or a character that is not valid in a header; set ${expected}`,
      };
}

/** Throws PlantroomError `options_invalid` if there are violations. */
export function throwIfInvalid(violations: readonly FieldViolation[]): void {
  if (violations.length > 0) throw PlantroomError.invalid('options_invalid', violations);
}

function isAddress(address: unknown): boolean {
  if (typeof address !== 'string') return false;
  const port = Number(ADDRESS.exec(address)?.[1]); // NaN if the address has another format
  return port >= 1 && port <= 65_535;
}

/**
 * Checks that the options are an object without unknown options. Returns undefined if so. `field`: where the options
 * are, for messages; empty for the options themselves.
 */
function findStructureViolations(
  field: string,
  options: unknown,
  names: readonly string[],
): FieldViolation[] | undefined {
  if (typeof options !== 'object' || options === null)
    return [{ field, description: `${field ? 'must be' : 'the options must be'} an object with ${names.join(', ')}` }];
  const unknown = Object.keys(options).filter((name) => !names.includes(name));
  if (unknown.length === 0) return undefined;
  return unknown.map((name) => ({
    field: field ? `${field}.${name}` : name,
    description: `is not an option: use ${names.join(', ')}`,
  }));
}

/** Checks that the CA is PEM text with a valid certificate. */
function findCaViolation(ca: string | Uint8Array): FieldViolation | undefined {
  const description = "must be the certificate as PEM text, not a file name: pass readFileSync('ca.pem')";
  if (!(typeof ca === 'string' || ca instanceof Uint8Array) || !Buffer.from(ca).includes('-----BEGIN CERTIFICATE-----'))
    return { field: 'ca', description };
  try {
    void new X509Certificate(ca); // throws if the certificate is invalid
    return undefined;
  } catch {
    return {
      field: 'ca',
      description:
        'is PEM text without a valid certificate: use tls/ca.pem from the data folder of the server, unchanged',
    };
  }
}

function listDeadlineViolations({ deadlineMs }: { readonly deadlineMs?: number }): FieldViolation[] {
  if (deadlineMs === undefined || isWithin(deadlineMs, 1, MAX_TIMER_MS)) return [];
  return [{ field: 'deadlineMs', description: `must be a whole number of milliseconds from 1 to ${MAX_TIMER_MS}` }];
}

/** Checks a request id or an idempotency key, which are sent as headers. */
function listIdViolations(
  field: 'requestId' | 'idempotencyKey',
  id: string | undefined,
  maxLength: number,
): FieldViolation[] {
  const isValid = id === undefined || (typeof id === 'string' && id.length <= maxLength && HEADER_TEXT.test(id));
  return isValid
    ? []
    : [{ field, description: `must be 1 to ${maxLength} printable ASCII characters without white space` }];
}

function listSignalViolations({ signal }: { readonly signal?: AbortSignal }): FieldViolation[] {
  return signal === undefined || signal instanceof AbortSignal
    ? []
    : [{ field: 'signal', description: 'must be an AbortSignal, for example new AbortController().signal' }];
}

function listRetryViolations(retry: RetryOptions | undefined): FieldViolation[] {
  if (retry === undefined) return [];
  const violations = findStructureViolations('retry', retry, RETRY_OPTIONS);
  if (violations) return violations;
  const { attempts, firstPauseMs, longestPauseMs } = retry;
  const isValid = attempts === undefined || isWithin(attempts, 1, 5);
  return [
    ...(isValid ? [] : [{ field: 'retry.attempts', description: 'must be a whole number from 1 (no retries) to 5' }]),
    ...listPauseViolations('retry.', { firstPauseMs, longestPauseMs }),
  ];
}

/** Checks pauses by name. `prefix`: the path of their options, for example `retry.`. */
function listPauseViolations(prefix: string, pauses: Readonly<Record<string, number | undefined>>): FieldViolation[] {
  const invalid = Object.entries(pauses).filter(
    ([, pause]) => pause !== undefined && !isWithin(pause, 1, MAX_TIMER_MS),
  );
  return invalid.map(([name]) => ({
    field: `${prefix}${name}`,
    description: `must be a whole number of milliseconds, 1 or more, at most ${MAX_TIMER_MS}`,
  }));
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max;
}
