import type { Comments } from './comments';
import { downloadResponses, streamContent, uploadContent } from './content';
import { errorsOf } from './errors';
import { Examples, idKindOfPath, type SharedExamples } from './examples';
import { compact, ref, type JsonObject, type Schema } from './json';
import { parametersOf } from './parameters';
import { methodText, type MethodText } from './reasons';
import { operationName, type Place } from './routes';
import type { Schemas } from './schemas';
import { areaOf, GRPC_PATHS } from './tags';

/** What operations are made with. */
export interface Workshop {
  readonly comments: Comments;
  readonly schemas: Schemas;
  readonly examples: SharedExamples;
}

/** The operation of one place. */
export function operationOf(place: Place, workshop: Workshop): JsonObject {
  const { facts, kind } = place;
  const method = facts.request.file.services.flatMap(({ methods }) => methods).find(({ name, parent }) => `/${parent.typeName}/${name}` === facts.path);
  const said = methodText(method ? workshop.comments.of(method) : '');
  const examples = new Examples(workshop.schemas.components, idKindOfPath(facts.routes[0]?.route ?? ''));
  const parameters = parametersOf(place, workshop).map((parameter) => ('$ref' in parameter ? parameter : withExample(parameter, examples)));
  return compact({
    tags: [kind === 'grpc' ? GRPC_PATHS : areaOf(facts)],
    operationId: place.operationId,
    summary: summaryOf(place, said),
    description: descriptionOf(place, said),
    'x-required-scope': facts.scope,
    security: securityOf(place),
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: bodyOf(place, workshop.schemas, examples),
    responses: responsesOf(place, said, workshop, examples),
  });
}

function withExample(parameter: JsonObject, examples: Examples): JsonObject {
  // Only where one is needed: pages that let people try it out fill examples in.
  return parameter['required'] ? { ...parameter, example: examples.request(parameter['schema'] as Schema, parameter['name'] as string) } : parameter;
}

function summaryOf({ kind, facts }: Place, { text }: MethodText): string {
  if (kind === 'grpc') return operationName(facts);
  const sentence = /^(.*?)(?:\.(?:\s|$)|[,:;] )/.exec(`${text} `)?.[1] ?? text;
  return sentence.replace(/ \([^)]*\)/g, '').trim();
}

function descriptionOf({ kind, facts, neededInQuery }: Place, { text }: MethodText): string {
  const scope = { none: 'Needs no key.', any: 'Needs a valid key, of whatever scope.' }[facts.scope as string] ?? `Scope: \`${facts.scope}\`.`;
  if (kind === 'grpc') return [`The same as \`${operationName(facts)}\`, with the whole request as JSON in the body.`, scope].join('\n\n');
  const other = kind === 'additional' ? `As \`${operationName(facts)}\`, with ${[...neededInQuery].map((name) => `\`${name}\``).join(', ')} in the query.` : '';
  return [text, streamNote(facts), other, scope].filter((part) => part !== '').join('\n\n');
}

function streamNote({ kind, content }: Place['facts']): string {
  if (kind !== 'server_streaming' || content !== 'json') return '';
  return 'A stream: one answer a line (`application/x-ndjson`), or with `Accept: text/event-stream` one an event. Where it fails midway, the last line, or an event `error`, is a failure as any other operation answers it.';
}

function securityOf({ facts, kind }: Place): JsonObject[] {
  if (facts.scope === 'none') return [];
  const both = { ApiKey: [], OrganizationId: [] };
  // The headers of a stream are looked at before a message is read, and its query with them.
  return facts.namesOrganization && (facts.kind === 'unary' || kind !== 'grpc') ? [both, { ApiKey: [] }] : [both];
}

function bodyOf({ facts, notInBody, kind, verb, operationId }: Place, schemas: Schemas, examples: Examples): JsonObject | undefined {
  if (facts.content === 'upload' && kind === 'main') return { required: true, content: uploadContent() };
  if (!notInBody) return undefined;
  const { request } = facts;
  const name = notInBody.size === 0 ? request.name : `${capital(operationName(facts))}Body`;
  const schema = schemas.body(request, notInBody, name);
  if (!schema) return { required: false, content: { 'application/json': { schema: schemas.empty(), example: {} } } };
  const needed = request.fields.some((field) => !notInBody.has(field.name) && schemas.isNeeded(field));
  return { required: needed || verb === 'put' || verb === 'patch', content: { 'application/json': { schema, examples: { [operationId]: { value: examples.request(schema) } } } } };
}

function responsesOf(place: Place, { errors }: MethodText, workshop: Workshop, examples: Examples): JsonObject {
  const all = new Map<number, JsonObject>(errorsOf(place, errors, workshop.examples));
  for (const [status, response] of successOf(place, workshop, examples)) {
    const error = all.get(status);
    all.set(status, error ? either(response, error) : response);
  }
  return Object.fromEntries([...all].toSorted(([a], [b]) => a - b).map(([status, response]) => [String(status), response]));
}

function successOf({ facts, verb }: Place, workshop: Workshop, examples: Examples): Map<number, JsonObject> {
  const headers: JsonObject = { 'x-request-id': ref('headers', 'RequestId') };
  if (facts.content === 'download' && verb === 'get') return downloadResponses(headers);
  if (facts.successStatus === 204) return new Map([[204, { description: 'Done; there is nothing to tell.', headers }]]);
  const schema = workshop.schemas.answer(facts.response);
  const example = examples.answer(schema);
  const shared = workshop.examples.ref(facts.response.name, example);
  if (facts.kind === 'server_streaming') return new Map([[200, { description: 'The stream.', headers, content: streamContent(schema, shared) }]]);
  const hasEtag = facts.response.fields.some(({ name }) => name === 'etag');
  const withEtag = hasEtag || verb === 'get' ? { ...headers, ETag: ref('headers', 'ETag') } : headers;
  const answers = new Map<number, JsonObject>([[facts.successStatus, { description: answerWords(facts.successStatus), headers: withEtag, content: { 'application/json': { schema, examples: shared } } }]]);
  for (const { status, field, value } of facts.statusRules) answers.set(status, { description: `The answer with \`${field}\` \`${value}\`.`, headers, content: { 'application/json': { schema, examples: { [value]: { value: { ...(example as JsonObject), ...exampleFor(field, value) } } } } } });
  if (verb === 'get') answers.set(304, { description: 'It is still what If-None-Match says.', headers: withEtag });
  return answers;
}

function answerWords(status: number): string {
  return { 201: 'Created.', 202: 'Taken on; what becomes of it is told later.' }[status] ?? 'Done.';
}

function exampleFor(field: string, value: string): JsonObject {
  if (field !== 'rejectionReason') return { [field]: value === 'true' };
  return { [field]: value, accepted: false, state: 'request_rejected', ...(value === 'validation_failed' && { violations: [{ field: 'params.position', description: 'is 140; it must be 0 to 100' }] }) };
}

/** One status that says two things: which one, the body tells. */
function either(answer: JsonObject, error: JsonObject): JsonObject {
  return {
    description: `${answer['description'] as string} Or a failure: ${error['description'] as string}`,
    headers: { ...(answer['headers'] as JsonObject), ...(error['headers'] as JsonObject) },
    content: { 'application/json': { schema: { anyOf: [contentOf(answer).schema, contentOf(error).schema] }, examples: { ...contentOf(answer).examples, ...contentOf(error).examples } } },
  };
}

function contentOf(response: JsonObject): { readonly schema: Schema; readonly examples: JsonObject } {
  return (response['content'] as Record<string, never>)['application/json'] as never;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
