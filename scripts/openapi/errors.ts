import { status } from '@grpc/grpc-js';
import type { ErrorKind } from '../../src/kernel/errors';
import { STATUS_BY_KIND } from '../../src/api/errors/errorTable';
import { formatMessage } from './errorMessages';
import type { SharedExamples } from './examples';
import { ref, type JsonObject, type Schema } from './json';
import type { Reason } from './reasons';
import type { Operation } from './routes';

/** The schema of every error response (docs/rest.md, Errors). */
export const ERROR_SCHEMA: Schema = {
  type: 'object',
  description: 'The error of a request.',
  properties: {
    error: {
      type: 'object',
      properties: {
        code: {
          type: 'string',
          description: 'The reason, for programs: one of those that the operation lists. Reasons are never renamed.',
        },
        message: { type: 'string', description: 'What is wrong and how to fix it, for people.' },
        status: {
          type: 'string',
          description: 'The gRPC name of the status.',
          enum: [...new Set(Object.values(STATUS_BY_KIND).map(({ grpc }) => status[grpc]))],
        },
        requestId: {
          type: 'string',
          description: 'The same as the header x-request-id. Use it to find the request in the server log.',
        },
        details: {
          type: 'array',
          description:
            'Details for programs, identified by `@type`: ErrorInfo (`reason`, `domain`, `metadata`), BadRequest (`fieldViolations`: the `field` and `description` of every violation), RetryInfo (`retryDelay`).',
          items: {
            type: 'object',
            properties: { '@type': { type: 'string' } },
            required: ['@type'],
            additionalProperties: true,
          },
        },
      },
      required: ['code', 'message', 'status', 'requestId', 'details'],
    },
  },
  required: ['error'],
};

interface Cause extends Pick<Reason, 'reason' | 'kind' | 'when'> {
  /** The HTTP status, if it differs from that of the kind. */
  readonly status?: number;
}

const cause = (kind: ErrorKind, reason: string, when: string): Cause => ({ kind, reason, when });

// Errors that operations share.
const SHARED_RESPONSES = {
  BadRequest: [
    cause(
      'invalid_argument',
      'validation_failed',
      'a field, a parameter or the JSON itself is invalid; the response lists all violations with their paths',
    ),
  ],
  Unauthorized: [
    cause('unauthenticated', 'api_key_missing', 'the header X-API-Key is missing'),
    cause('unauthenticated', 'api_key_invalid', 'the key is unknown'),
    cause('unauthenticated', 'api_key_revoked', 'the key was revoked, or its owner is no longer a member'),
    cause('unauthenticated', 'api_key_expired', 'the key has expired'),
    cause(
      'unauthenticated',
      'organization_required',
      'neither the header X-Organization-Id nor the request contains the organization',
    ),
    cause('unauthenticated', 'organization_mismatch', 'the organization in the request is not that of the key'),
  ],
  Forbidden: [
    cause(
      'permission_denied',
      'insufficient_scope',
      'the key, or the role of its owner, does not have the scope of the operation; or the key is restricted to some devices or commands, and the operation does not allow such keys',
    ),
    cause('permission_denied', 'address_not_allowed', 'the key may not be used from this IP address'),
  ],
  ContentTooLarge: [cause('too_large', 'message_too_large', 'the body is larger than 1 MiB (an image: 10 MiB)')],
  UnsupportedMediaType: [
    cause('unsupported_media_type', 'media_type_unsupported', 'the operation does not support the type of the body'),
  ],
  NotAcceptable: [
    cause('not_acceptable', 'not_acceptable', 'the header Accept allows none of the types of the response'),
  ],
  RangeNotSatisfiable: [
    cause(
      'range_not_satisfiable',
      'range_not_satisfiable',
      'the range contains no byte of the image; the header content-range contains its size',
    ),
  ],
  TooManyRequests: [
    cause(
      'exhausted',
      'rate_limited',
      'too many requests with this key or from this IP address, or too many with an invalid key',
    ),
  ],
  HeadersTooLarge: [
    {
      ...cause('too_large', 'headers_too_large', 'the URL and the headers are larger than 16 KiB in total'),
      status: 431,
    },
  ],
  InternalError: [cause('internal', 'internal', 'the server failed; its log contains the cause under the request id')],
  Unavailable: [
    cause('unavailable', 'database_unavailable', 'safe to retry'),
    cause('unavailable', 'shutting_down', 'safe to retry'),
    cause(
      'unavailable',
      'storage_full',
      'the disk of the server is full: only changes that delete, remove, revoke or cancel are accepted',
    ),
    cause('unavailable', 'storage_read_only', 'the database of the server is read-only at the moment'),
  ],
} as const satisfies Readonly<Record<string, readonly Cause[]>>;

type SharedResponseName = keyof typeof SHARED_RESPONSES;

/** Returns the error responses that operations share. */
export function buildSharedResponses(examples: SharedExamples): JsonObject {
  return Object.fromEntries(
    Object.entries(SHARED_RESPONSES).map(([name, causes]) => [name, buildErrorResponse(causes, examples)]),
  );
}

/**
 * Returns the error responses of an operation by their HTTP status: the errors that all operations of its kind have,
 * and those that its comment lists (`documented`).
 */
export function listErrors(
  operation: Operation,
  documented: readonly Reason[],
  examples: SharedExamples,
): Map<number, JsonObject> {
  const sharedNames = listSharedResponseNames(operation);
  const statuses = new Set([
    ...sharedNames.map((name) => getStatus(SHARED_RESPONSES[name])),
    ...documented.map(({ status }) => status),
  ]);
  return new Map(
    [...statuses]
      .toSorted((a, b) => a - b)
      .map((code) => [
        code,
        mergeErrors(
          sharedNames.find((name) => getStatus(SHARED_RESPONSES[name]) === code),
          documented.filter(({ status }) => status === code),
          examples,
        ),
      ]),
  );
}

/** Returns the names of the shared error responses that an operation can have. */
function listSharedResponseNames({ method, notInBody, verb }: Operation): SharedResponseName[] {
  const hasBody = notInBody !== undefined || method.content === 'upload';
  const needsKey = method.scope !== 'none';
  return [
    'BadRequest',
    ...(needsKey ? (['Unauthorized', 'Forbidden', 'TooManyRequests'] as const) : []),
    ...(hasBody ? (['ContentTooLarge', 'UnsupportedMediaType'] as const) : []),
    ...(method.content === 'download' && verb === 'get' ? (['RangeNotSatisfiable'] as const) : []),
    ...(method.kind === 'server_streaming' && method.content === 'json' ? (['NotAcceptable'] as const) : []),
    'HeadersTooLarge',
    'InternalError',
    'Unavailable',
  ];
}

/**
 * Builds the response for one status from the errors that operations share (`sharedName`) and those that the operation
 * documents. Returns a reference to the shared response if the operation documents nothing of its own.
 */
function mergeErrors(
  sharedName: SharedResponseName | undefined,
  documented: readonly Reason[],
  examples: SharedExamples,
): JsonObject {
  const sharedCauses: readonly Cause[] = sharedName ? SHARED_RESPONSES[sharedName] : [];
  const specific = documented.filter(
    ({ reason, when }) => when !== '' || !sharedCauses.some((shared) => shared.reason === reason),
  );
  if (sharedName && specific.length === 0) return ref('responses', sharedName);
  const merged = specific.map((reasonOfMethod) => ({
    ...reasonOfMethod,
    when: [sharedCauses.find(({ reason }) => reason === reasonOfMethod.reason)?.when ?? '', reasonOfMethod.when]
      .filter((text) => text !== '')
      .join('; '),
  }));
  const others = sharedCauses.filter(
    ({ reason }) => !specific.some((reasonOfMethod) => reasonOfMethod.reason === reason),
  );
  return buildErrorResponse([...merged, ...others], examples);
}

/** Builds a response that describes all causes of one status. The first cause is the example. */
function buildErrorResponse(causes: readonly Cause[], examples: SharedExamples): JsonObject {
  const isRetryable = causes.some(({ kind }) => kind === 'exhausted' || kind === 'unavailable');
  const isUnauthenticated = causes.some(({ kind }) => kind === 'unauthenticated');
  const first = causes[0] as Cause;
  return {
    description: causes
      .map(({ reason, when }) => (when === '' ? `\`${reason}\`` : `\`${reason}\`: ${when}`))
      .join('\n\n'),
    headers: {
      'x-request-id': ref('headers', 'RequestId'),
      ...(isRetryable && { 'retry-after': ref('headers', 'RetryAfter') }),
      ...(isUnauthenticated && { 'www-authenticate': ref('headers', 'WwwAuthenticate') }),
    },
    content: {
      'application/json': {
        schema: ref('schemas', 'Failure'),
        examples: examples.ref(first.reason, buildErrorExample(first)),
      },
    },
  };
}

/** Returns the HTTP status of a shared response; all of its causes have the same. */
function getStatus(causes: readonly Cause[]): number {
  const { kind, status: override } = causes[0] as Cause;
  return override ?? STATUS_BY_KIND[kind].http;
}

const DETAIL_TYPE_PREFIX = 'type.googleapis.com/google.rpc.';

/** Returns an example of an error response. */
export function buildErrorExample({ reason, kind }: Pick<Reason, 'reason' | 'kind'>): JsonObject {
  const errorInfo = { '@type': `${DETAIL_TYPE_PREFIX}ErrorInfo`, reason, domain: 'plantroom', metadata: {} };
  const badRequest = {
    '@type': `${DETAIL_TYPE_PREFIX}BadRequest`,
    fieldViolations: [{ field: 'name', description: 'is required: set a value' }],
  };
  const retryInfo = { '@type': `${DETAIL_TYPE_PREFIX}RetryInfo`, retryDelay: '1s' };
  const details = [
    errorInfo,
    ...(kind === 'invalid_argument' ? [badRequest] : []),
    ...(kind === 'exhausted' || kind === 'unavailable' ? [retryInfo] : []),
  ];
  return {
    error: {
      code: reason,
      message: formatMessage(reason),
      status: status[STATUS_BY_KIND[kind].grpc],
      requestId: '0199a3c4-5d10-7c3e-9f21-6b7a8c9d0e1f',
      details,
    },
  };
}
