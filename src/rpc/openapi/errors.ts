import { status } from '@grpc/grpc-js';
import type { ErrorKind } from '../../kernel/errors';
import { STATUS_OF } from '../errorTable';
import { messageOf } from './errorMessages';
import type { SharedExamples } from './examples';
import { ref, type JsonObject, type Schema } from './json';
import type { Reason } from './reasons';
import type { Place } from './routes';

/** The shape of every failure (contract.md, section 4). */
export const ERROR_SCHEMA: Schema = {
  type: 'object',
  description: 'Why a request failed.',
  properties: {
    error: {
      type: 'object',
      properties: {
        code: { type: 'string', description: 'The reason, for a program: one of those that the operation names. Never renamed.' },
        message: { type: 'string', description: 'What was wrong and what would be right, for people.' },
        status: { type: 'string', description: 'The status by its gRPC name.', enum: [...new Set(Object.values(STATUS_OF).map(({ grpc }) => status[grpc]))] },
        requestId: { type: 'string', description: 'As the header x-request-id; the log of the server tells more under it.' },
        details: {
          type: 'array',
          description:
            'Facts for a program; the `@type` of each says what it is: ErrorInfo (`reason`, `domain`, `metadata`), BadRequest (`fieldViolations`: `field` and `description` of everything that is wrong), RetryInfo (`retryDelay`).',
          items: { type: 'object', properties: { '@type': { type: 'string' } }, required: ['@type'], additionalProperties: true },
        },
      },
      required: ['code', 'message', 'status', 'requestId', 'details'],
    },
  },
  required: ['error'],
};

interface Cause extends Pick<Reason, 'reason' | 'kind' | 'when'> {
  /** Where it is not the one of the kind. */
  readonly status?: number;
}

const cause = (kind: ErrorKind, reason: string, when: string): Cause => ({ kind, reason, when });

// What any operation may answer that needs it, whatever else it does.
const USUAL = {
  BadRequest: [cause('invalid_argument', 'validation_failed', 'a field, a parameter or the JSON itself is wrong; everything that is wrong is named at once, by its path')],
  Unauthorized: [
    cause('unauthenticated', 'api_key_missing', 'there is no header X-API-Key'),
    cause('unauthenticated', 'api_key_invalid', 'nobody knows the key'),
    cause('unauthenticated', 'api_key_revoked', 'the key was revoked, or its owner is no member any more'),
    cause('unauthenticated', 'api_key_expired', 'its time is over'),
    cause('unauthenticated', 'organization_missing', 'neither the header X-Organization-Id nor the request names the organization'),
    cause('unauthenticated', 'organization_mismatch', 'an organization that is named is not the one of the key'),
  ],
  Forbidden: [
    cause('permission_denied', 'scope_missing', 'the key, or the role of its owner, does not hold the scope of the operation; or the key is limited to some devices or commands, and the operation is not for such keys'),
    cause('permission_denied', 'address_not_allowed', 'the key may not be used from the address of the caller'),
  ],
  ContentTooLarge: [cause('too_large', 'message_too_large', 'the body has more than 1 MiB (a picture: 10 MiB)')],
  UnsupportedMediaType: [cause('unsupported_media_type', 'media_type_unsupported', 'the body is of a type that the operation does not take')],
  NotAcceptable: [cause('not_acceptable', 'not_acceptable', 'the header Accept allows none of the types that the answer comes as')],
  RangeNotSatisfiable: [cause('range_not_satisfiable', 'range_not_satisfiable', 'no byte of the picture lies in the range; the header content-range says how many there are')],
  TooManyRequests: [cause('exhausted', 'rate_limited', 'too many calls came with this key or from this address, or too many without a good key')],
  HeadersTooLarge: [{ ...cause('too_large', 'headers_too_large', 'the address and the headers have more than 16 KiB together'), status: 431 }],
  InternalError: [cause('internal', 'internal', 'the server failed; its log names the cause under the request id')],
  Unavailable: [
    cause('unavailable', 'database_unavailable', 'safe to repeat'),
    cause('unavailable', 'shutting_down', 'safe to repeat'),
    cause('unavailable', 'storage_full', 'the disk of the server is full: of all changes only those that delete, remove, revoke or cancel are taken'),
    cause('unavailable', 'storage_read_only', 'the disk of the server cannot be written'),
  ],
} as const satisfies Readonly<Record<string, readonly Cause[]>>;

type UsualName = keyof typeof USUAL;

/** The responses that many operations share. */
export function sharedResponses(examples: SharedExamples): JsonObject {
  return Object.fromEntries(Object.entries(USUAL).map(([name, causes]) => [name, errorResponse(causes, examples)]));
}

/** The failures of a place by their HTTP status. */
export function errorsOf(place: Place, named: readonly Reason[], examples: SharedExamples): Map<number, JsonObject> {
  const usual = usualOf(place);
  const statuses = new Set([...usual.map((name) => statusOf(USUAL[name])), ...named.map(({ status }) => status)]);
  return new Map([...statuses].toSorted((a, b) => a - b).map((code) => [code, responseOf(usual.find((name) => statusOf(USUAL[name]) === code), named.filter((one) => one.status === code), examples)]));
}

function usualOf({ facts, notInBody, verb }: Place): UsualName[] {
  const hasBody = notInBody !== undefined || facts.content === 'upload';
  const needsKey = facts.scope !== 'none';
  return ['BadRequest', ...(needsKey ? (['Unauthorized', 'Forbidden', 'TooManyRequests'] as const) : []), ...(hasBody ? (['ContentTooLarge', 'UnsupportedMediaType'] as const) : []), ...(facts.content === 'download' && verb === 'get' ? (['RangeNotSatisfiable'] as const) : []), ...(facts.kind === 'server_streaming' && facts.content === 'json' ? (['NotAcceptable'] as const) : []), 'HeadersTooLarge', 'InternalError', 'Unavailable'];
}

function responseOf(usual: UsualName | undefined, named: readonly Reason[], examples: SharedExamples): JsonObject {
  const known: readonly Cause[] = usual ? USUAL[usual] : [];
  const more = named.filter(({ reason, when }) => when !== '' || !known.some((one) => one.reason === reason));
  if (usual && more.length === 0) return ref('responses', usual);
  const whole = more.map((one) => ({ ...one, when: [known.find(({ reason }) => reason === one.reason)?.when ?? '', one.when].filter((text) => text !== '').join('; ') }));
  const others = known.filter(({ reason }) => !more.some((one) => one.reason === reason));
  return errorResponse([...whole, ...others], examples);
}

function errorResponse(causes: readonly Cause[], examples: SharedExamples): JsonObject {
  const retry = causes.some(({ kind }) => kind === 'exhausted' || kind === 'unavailable');
  const isKeyless = causes.some(({ kind }) => kind === 'unauthenticated');
  const first = causes[0] as Cause;
  return {
    description: causes.map(({ reason, when }) => (when === '' ? `\`${reason}\`` : `\`${reason}\`: ${when}`)).join('\n\n'),
    headers: { 'x-request-id': ref('headers', 'RequestId'), ...(retry && { 'retry-after': ref('headers', 'RetryAfter') }), ...(isKeyless && { 'www-authenticate': ref('headers', 'WwwAuthenticate') }) },
    content: { 'application/json': { schema: ref('schemas', 'Failure'), examples: examples.ref(first.reason, errorExample(first)) } },
  };
}

function statusOf(causes: readonly Cause[]): number {
  const { kind, status: own } = causes[0] as Cause;
  return own ?? STATUS_OF[kind].http;
}

const TYPE = 'type.googleapis.com/google.rpc.';

/** A failure as a client sees it. */
export function errorExample({ reason, kind }: Pick<Reason, 'reason' | 'kind'>): JsonObject {
  const info = { '@type': `${TYPE}ErrorInfo`, reason, domain: 'plantroom', metadata: {} };
  const invalid = { '@type': `${TYPE}BadRequest`, fieldViolations: [{ field: 'name', description: 'is required; give a value' }] };
  const retry = { '@type': `${TYPE}RetryInfo`, retryDelay: '1s' };
  const details = [info, ...(kind === 'invalid_argument' ? [invalid] : []), ...(kind === 'exhausted' || kind === 'unavailable' ? [retry] : [])];
  return { error: { code: reason, message: messageOf(reason), status: status[STATUS_OF[kind].grpc], requestId: '0199a3c4-5d10-7c3e-9f21-6b7a8c9d0e1f', details } };
}
