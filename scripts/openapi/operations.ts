import { IMPLIED_SCOPES, SCOPES } from '../../src/kernel/scopes';
import type { Comments } from './comments';
import { buildDownloadResponses, buildStreamContent, buildUploadContent } from './content';
import { listErrors } from './errors';
import { Examples, findIdKindInPath, type SharedExamples } from './examples';
import { compact, ref, type JsonObject, type Schema } from './json';
import { listParameters } from './parameters';
import { parseMethodText, type MethodText } from './reasons';
import { capitalize, getOperationName, type Operation } from './routes';
import type { Schemas } from './schemas';
import { getArea } from './tags';

/** Shared parts of the document that operations use. */
export interface GeneratorContext {
  readonly comments: Comments;
  readonly schemas: Schemas;
  readonly examples: SharedExamples;
}

/** Builds the operation object of the document for an operation. */
export function buildOperationObject(operation: Operation, context: GeneratorContext): JsonObject {
  const { method } = operation;
  const protoMethod = method.request.file.services
    .flatMap(({ methods }) => methods)
    .find(({ name, parent }) => `/${parent.typeName}/${name}` === method.path);
  const text = parseMethodText(protoMethod ? context.comments.getText(protoMethod) : '');
  const examples = new Examples(context.schemas.components, findIdKindInPath(method.routes[0]?.route ?? ''));
  const parameters = listParameters(operation, context).map((parameter) =>
    '$ref' in parameter ? parameter : withExample(parameter, examples),
  );
  return compact({
    tags: [getArea(method)],
    operationId: operation.operationId,
    summary: findSummary(text),
    description: getDescription(operation, text),
    'x-required-scope': method.scope,
    security: getSecurity(operation),
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: buildBody(operation, context.schemas, examples),
    responses: buildResponses(operation, text, context, examples),
  });
}

/**
 * Adds an example to a required parameter. Optional parameters have none, because documentation pages fill in the
 * examples when users try an operation.
 */
function withExample(parameter: JsonObject, examples: Examples): JsonObject {
  return parameter['required']
    ? { ...parameter, example: examples.createRequest(parameter['schema'] as Schema, parameter['name'] as string) }
    : parameter;
}

/** Returns the first sentence of the description. A full stop inside a word, as in `a.b`, does not end it. */
function findSummary({ text }: MethodText): string {
  return /^(.*?)\.\s/.exec(`${text} `)?.[1] ?? text;
}

/** Returns the description of an operation. Additional routes and gRPC paths refer to the main operation. */
function getDescription({ kind, method, requiredInQuery }: Operation, { text }: MethodText): string {
  const scope = formatScope(method.scope);
  if (kind === 'grpc')
    return [`The same as \`${getOperationName(method)}\`, with the complete request as JSON in the body.`, scope].join(
      '\n\n',
    );
  const additionalRouteNote =
    kind === 'additional'
      ? `The same as \`${getOperationName(method)}\`, with ${[...requiredInQuery].map((name) => `\`${name}\``).join(', ')} in the query.`
      : '';
  return [text, formatStreamNote(method), additionalRouteNote, scope].filter((part) => part !== '').join('\n\n');
}

/** Describes the required scope, and the scopes that include it. */
function formatScope(scope: string): string {
  if (scope === 'none') return 'Requires no key.';
  if (scope === 'any') return 'Requires a valid key with any scope.';
  const broader = SCOPES.filter((candidate) => IMPLIED_SCOPES[candidate]?.some((implied) => implied === scope)).map(
    (candidate) => `, which \`${candidate}\` includes`,
  );
  return `Scope: \`${scope}\`${broader.join('')}.`;
}

/** Describes the formats of a stream; empty for other methods. */
function formatStreamNote({ kind, content }: Operation['method']): string {
  if (kind !== 'server_streaming' || content !== 'json') return '';
  return 'A stream with one message per line (`application/x-ndjson`), or with `Accept: text/event-stream` one message per event. If it fails after it has started, the last line, or an event `error`, contains the error in the usual format.';
}

/**
 * Returns the combinations of headers of which one is required. The organization header is optional if the request can
 * name the organization. The message of a stream at its gRPC path cannot, because the headers are checked before the
 * message is read.
 */
function getSecurity({ method, kind }: Operation): JsonObject[] {
  if (method.scope === 'none') return [];
  const keyAndOrganization = { ApiKeyHeader: [], OrganizationHeader: [] };
  const isStreamAtGrpcPath = kind === 'grpc' && method.kind !== 'unary';
  const canRequestNameOrganization = method.namesOrganization && !isStreamAtGrpcPath;
  return canRequestNameOrganization ? [keyAndOrganization, { ApiKeyHeader: [] }] : [keyAndOrganization];
}

/** Builds the request body; undefined if the operation has none. PUT and PATCH always require one. */
function buildBody(
  { method, notInBody, kind, verb, operationId }: Operation,
  schemas: Schemas,
  examples: Examples,
): JsonObject | undefined {
  if (method.content === 'upload' && kind === 'main') return { required: true, content: buildUploadContent() };
  if (!notInBody) return undefined;
  const { request } = method;
  const name = notInBody.size === 0 ? request.name : `${capitalize(getOperationName(method))}Body`;
  const schema = schemas.findBodySchema(request, notInBody, name);
  if (!schema)
    return { required: false, content: { 'application/json': { schema: schemas.getEmptySchema(), example: {} } } };
  const hasRequiredField = request.fields.some(
    (field) => !notInBody.has(field.name) && schemas.isRequiredInRequest(field),
  );
  return {
    required: hasRequiredField || verb === 'put' || verb === 'patch',
    content: { 'application/json': { schema, examples: { [operationId]: { value: examples.createRequest(schema) } } } },
  };
}

/**
 * Builds all responses by status. OpenAPI has one response per status, so a success and an error with the same status
 * (see `mergeResponses`) become one.
 */
function buildResponses(
  operation: Operation,
  { errors }: MethodText,
  context: GeneratorContext,
  examples: Examples,
): JsonObject {
  const responses = new Map<number, JsonObject>(listErrors(operation, errors, context.examples));
  for (const [status, response] of listSuccessResponses(operation, context, examples)) {
    const error = responses.get(status);
    responses.set(status, error ? mergeResponses(response, error) : response);
  }
  return Object.fromEntries(
    [...responses].toSorted(([a], [b]) => a - b).map(([status, response]) => [String(status), response]),
  );
}

/**
 * Builds the successful responses by status: the usual one, those of status rules (a value of a response field for
 * which the method has another status), and 304 for reads.
 */
function listSuccessResponses(
  { method, verb }: Operation,
  context: GeneratorContext,
  examples: Examples,
): Map<number, JsonObject> {
  const headers: JsonObject = { 'x-request-id': ref('headers', 'RequestId') };
  if (method.content === 'download' && verb === 'get') return buildDownloadResponses(headers);
  if (method.successStatus === 204)
    return new Map([[204, { description: 'Done. The response has no body.', headers }]]);
  const schema = context.schemas.getResponseSchema(method.response);
  const example = examples.createResponse(schema);
  const sharedExample = context.examples.ref(method.response.name, example);
  if (method.kind === 'server_streaming')
    return new Map([
      [200, { description: 'The stream.', headers, content: buildStreamContent(schema, sharedExample) }],
    ]);
  const hasEtag = method.response.fields.some(({ name }) => name === 'etag');
  const headersWithEtag = hasEtag || verb === 'get' ? { ...headers, ETag: ref('headers', 'ETag') } : headers;
  const responses = new Map<number, JsonObject>([
    [
      method.successStatus,
      {
        description: describeSuccess(method.successStatus),
        headers: headersWithEtag,
        content: { 'application/json': { schema, examples: sharedExample } },
      },
    ],
  ]);
  for (const { status, field, value } of method.statusRules)
    responses.set(status, {
      description: `The response with \`${field}\` \`${value}\`.`,
      headers,
      content: {
        'application/json': {
          schema,
          examples: { [value]: { value: { ...(example as JsonObject), ...getExampleFields(field, value) } } },
        },
      },
    });
  if (verb === 'get')
    responses.set(304, {
      description: 'The response has not changed since the version in If-None-Match.',
      headers: headersWithEtag,
    });
  return responses;
}

function describeSuccess(status: number): string {
  return { 201: 'Created.', 202: 'Accepted; the result follows later.' }[status] ?? 'Done.';
}

/**
 * Returns the fields that make an example response match the status rule `field` = `value`. A status rule chooses the
 * HTTP status of a response by the value of one of its fields: of the `rejectionReason` of an execution, or of a
 * boolean field (`value` is 'true' or 'false').
 */
function getExampleFields(field: string, value: string): JsonObject {
  if (field !== 'rejectionReason') return { [field]: value === 'true' };
  return {
    [field]: value,
    accepted: false,
    state: 'request_rejected',
    ...(value === 'validation_failed' && {
      violations: [
        {
          field: 'params.position',
          description: 'is greater than 100: must be an integer (within ±(2^53 - 1)) from 0 up to 100',
        },
      ],
    }),
  };
}

/** Merges a success and an error with the same status. The body shows which one it is. */
function mergeResponses(success: JsonObject, error: JsonObject): JsonObject {
  return {
    description: `${success['description'] as string} Or an error: ${error['description'] as string}`,
    headers: { ...(success['headers'] as JsonObject), ...(error['headers'] as JsonObject) },
    // Each schema has a required field that the other does not have, so exactly one matches.
    content: {
      'application/json': {
        schema: { oneOf: [getContent(success).schema, getContent(error).schema] },
        examples: { ...getContent(success).examples, ...getContent(error).examples },
      },
    },
  };
}

/** Returns the JSON content of a response of this document. */
function getContent(response: JsonObject): { readonly schema: Schema; readonly examples: JsonObject } {
  return (response['content'] as Record<string, never>)['application/json'] as never;
}
