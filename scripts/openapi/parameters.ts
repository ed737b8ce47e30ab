import type { DescField } from '@bufbuild/protobuf';
import type { Comments } from './comments';
import { compact, ref, type JsonObject } from './json';
import type { Operation } from './routes';
import type { Schemas } from './schemas';

/** The header parameters of operations. */
export const HEADER_PARAMETERS: Readonly<Record<string, JsonObject>> = {
  RequestId: {
    name: 'x-request-id',
    in: 'header',
    description:
      'Your own id for the request, at most 128 printable characters. The response and the server log contain it.',
    schema: { type: 'string' }, // no maxLength: the server replaces a longer id by a new one instead of rejecting it
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description:
      'The header `ETag` of the record when it was read: 412 `version_conflict` if it was changed since. The same as the field `etag` of the request.',
    schema: { type: 'string' },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The header `ETag` of an earlier response: 304 without a body if the response has not changed.',
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Makes the request safe to retry: 1 to 255 printable ASCII characters; use a new UUID for each record to create. Within 24 hours, the same request with the same key gets the same response and creates nothing.',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  },
  IdempotencyKeyOfExecution: {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Used as `triggerId` if the request has none: 1 to 128 printable ASCII characters without spaces. ' +
      'Within 7 days, the same key for the same command returns the same execution, with `duplicate: true`.',
    schema: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[!-~]+$' },
  },
  LastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'Used as `resumeToken`: clients of Server-Sent Events send it automatically when they reconnect.',
    schema: { type: 'string' },
  },
  Range: {
    name: 'Range',
    in: 'header',
    description: 'Requests a part of the bytes, for example `bytes=0-1023`; the status is then 206.',
    schema: { type: 'string' },
  },
};

/** Returns the parameters of an operation: path, query and headers. */
export function listParameters(
  operation: Operation,
  { comments, schemas }: { readonly comments: Comments; readonly schemas: Schemas },
): JsonObject[] {
  const buildParameter = (
    field: DescField,
    location: 'path' | 'query',
    name: string,
    isRequired: boolean,
  ): JsonObject => {
    const listStyle = field.fieldKind === 'list' ? { style: 'form', explode: true } : {}; // repeats the name: `a=1&a=2`
    return compact({
      name,
      in: location,
      required: isRequired || undefined,
      description: comments.getText(field),
      ...listStyle,
      schema: schemas.getParameterSchema(field),
    });
  };
  const buildQueryParameters = (field: DescField): JsonObject[] => {
    const isRequired = schemas.isRequiredInRequest(field) || operation.requiredInQuery.has(field.name);
    // The fields of a message become separate parameters: `bucket.count`.
    if (field.fieldKind === 'message' && !field.message.typeName.startsWith('google.'))
      return field.message.fields.map((inner) =>
        buildParameter(
          inner,
          'query',
          `${field.jsonName}.${inner.jsonName}`,
          isRequired && schemas.isRequiredInRequest(inner),
        ),
      );
    return [buildParameter(field, 'query', field.jsonName, isRequired)];
  };
  return [
    ...operation.pathFields.map((field) => buildParameter(field, 'path', field.jsonName, true)),
    ...operation.queryFields.flatMap(buildQueryParameters),
    ...listHeaders(operation),
  ];
}

/**
 * Returns the name of the header parameter for the idempotency key, if the method accepts one. A method that copies the
 * key to a request field has a parameter with other rules.
 */
function listIdempotencyHeaders({ idempotencyKey }: Operation['method']): string[] {
  if (!idempotencyKey) return [];
  return [idempotencyKey.field ? 'IdempotencyKeyOfExecution' : 'IdempotencyKey'];
}

/** Returns references to the header parameters of an operation. */
function listHeaders({ method, verb }: Operation): JsonObject[] {
  const hasField = (name: string): boolean => method.request.fields.some((field) => field.name === name);
  const isJsonStream = method.kind === 'server_streaming' && method.content === 'json';
  const names = [
    'RequestId',
    ...(hasField('etag') ? ['IfMatch'] : []),
    ...listIdempotencyHeaders(method),
    ...(verb === 'get' && !isJsonStream ? ['IfNoneMatch'] : []),
    ...(isJsonStream && hasField('resume_token') ? ['LastEventId'] : []),
    ...(method.content === 'download' && verb === 'get' ? ['Range'] : []),
  ];
  return names.map((name) => ref('parameters', name));
}
