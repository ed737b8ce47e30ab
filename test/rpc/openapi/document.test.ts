import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020';
import type { ErrorKind, Violation } from '../../../src/kernel/errors';
import { asset } from '../../../src/kernel/assets';
import { Descriptors, type MethodFacts } from '../../../src/rpc/descriptors';
import { RequestReaders } from '../../../src/rpc/json/requestReader';
import { generate } from '../../../src/rpc/openapi/generate';
import { methodText } from '../../../src/rpc/openapi/reasons';
import { Comments } from '../../../src/rpc/openapi/comments';
import { STATUS_OF } from '../../../src/rpc/errorTable';
import { FieldRuleChecks } from '../../../src/rpc/validation/fieldRules';

interface Media {
  readonly schema: object;
  readonly example?: unknown;
  readonly examples?: Record<string, { value?: unknown; $ref?: string }>;
}

interface Operation {
  readonly operationId: string;
  readonly tags: string[];
  readonly description: string;
  readonly 'x-required-scope': string;
  readonly security: object[];
  readonly parameters?: { $ref?: string; name: string; in: string; schema: object; example?: unknown; required?: boolean }[];
  readonly requestBody?: { required?: boolean; content: Record<string, Media> };
  readonly responses: Record<string, { $ref?: string; content?: Record<string, Media> }>;
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: Record<string, Record<string, unknown>>;
  readonly tags: { name: string }[];
}

interface Place {
  readonly verb: string;
  readonly path: string;
  readonly operation: Operation;
  readonly facts: MethodFacts;
  readonly route: string;
}

// With its comments, which the image beside the program has not.
const image = execFileSync('node_modules/.bin/buf', ['build', 'proto', '-o', '-'], { maxBuffer: 64 * 1024 * 1024 });
const descriptors = new Descriptors(image);
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const text = generate(image, version);
const document = JSON.parse(text) as Document;

const camel = (path: string): string => path.replaceAll(/_([a-z])(?=[a-z_]*\})/g, (_, letter: string) => letter.toUpperCase());

/** What the protos declare, told apart by verb and path as OpenAPI writes it. */
const declared = new Map<string, { facts: MethodFacts; route: string }>(
  [...descriptors.methods.values()].flatMap((facts) => {
    const routes = facts.routes.map(({ verb, route }) => [`${verb} ${camel(route)}`, { facts, route }] as const);
    const takesOne = facts.kind === 'unary' || facts.kind === 'server_streaming';
    return takesOne ? [...routes, [`POST ${facts.path}`, { facts, route: '' }] as const] : routes;
  }),
);
const places: Place[] = Object.entries(document.paths).flatMap(([path, verbs]) =>
  Object.entries(verbs).map(([verb, operation]) => ({ verb, path, operation, ...(declared.get(`${verb.toUpperCase()} ${path}`) as { facts: MethodFacts; route: string }) })),
);

const ajv = new Ajv2020({ strict: false, validateFormats: true, formats: { 'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/, int32: true, double: true, binary: true } });
const compiled = new Map<string, ValidateFunction>();
ajv.addSchema({ $id: 'document', ...document });

/** What a schema of the document says against a value. */
function faults(schema: object, value: unknown): unknown {
  const key = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/');
  const check = compiled.get(key) ?? ajv.compile(JSON.parse(key) as object);
  compiled.set(key, check);
  return check(value) ? undefined : check.errors;
}

function found<T>(reference: string): T {
  return reference.slice(2).split('/').reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document) as T;
}

function examplesOf({ example, examples = {} }: Media): unknown[] {
  return [...(example === undefined ? [] : [example]), ...Object.values(examples).map((one) => (one.$ref === undefined ? one.value : found<{ value: unknown }>(one.$ref).value))];
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => (name === '$ref' && typeof inner === 'string' ? [inner] : referencesIn(inner)));
}

describe('the OpenAPI document', () => {
  test('is what the build laid beside the program', () => {
    expect(asset('openapi.json').toString('utf8')).toBe(text);
  });

  test('is OpenAPI 3.1 to a validator that is not ours', async () => {
    const { valid, errors } = await new Validator().validate(JSON.parse(text) as Record<string, unknown>);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  test('holds every route of the protos and every gRPC path, and nothing else', () => {
    const written = Object.entries(document.paths).flatMap(([path, verbs]) => Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`));
    expect(written.toSorted()).toEqual([...declared.keys()].toSorted());
  });

  test('has no reference that leads nowhere, and no component that nobody refers to', () => {
    const references = new Set(referencesIn(document));
    expect([...references].filter((one) => found(one) === undefined)).toEqual([]);
    const components = Object.entries(document.components).filter(([kind]) => kind !== 'securitySchemes');
    expect(components.flatMap(([kind, named]) => Object.keys(named).map((name) => `#/components/${kind}/${name}`)).filter((one) => !references.has(one))).toEqual([]);
  });

  test('names every operation once, and lists its tag', () => {
    const names = places.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    const tags = new Set(document.tags.map(({ name }) => name));
    expect(places.filter(({ operation }) => !operation.tags.every((tag) => tags.has(tag)))).toEqual([]);
    expect([...tags].filter((tag) => !places.some(({ operation }) => operation.tags.includes(tag)))).toEqual([]);
  });

  test('says of every operation its scope, its statuses and what it fails with', () => {
    for (const { operation, facts } of places) {
      expect(operation['x-required-scope']).toBe(facts.scope);
      const statuses = Object.keys(operation.responses);
      const success = facts.content === 'json' ? [facts.successStatus, ...facts.statusRules.map(({ status }) => status)] : [];
      const key = facts.scope === 'none' ? [] : [401, 403];
      expect([operation.operationId, statuses]).toEqual([operation.operationId, expect.arrayContaining([...success, ...key, 400, 500, 503].map(String))]);
      expect([operation.operationId, operation.security.length > 0]).toEqual([operation.operationId, facts.scope !== 'none']);
      if (facts.scope !== 'none' && facts.scope !== 'any') expect(operation.description).toContain(`\`${facts.scope}\``);
    }
  });

  test('has a description for every operation, parameter and field', () => {
    const schemas = Object.entries(document.components['schemas'] as Record<string, { properties?: Record<string, { description?: string }> }>);
    expect(schemas.flatMap(([name, { properties = {} }]) => Object.entries(properties).map(([field, schema]) => [`${name}.${field}`, schema] as const)).filter(([, { description }]) => !description).map(([name]) => name).filter((name) => !name.startsWith('Failure.'))).toEqual([]);
    expect(places.filter(({ operation }) => operation.description === '').map(({ operation }) => operation.operationId)).toEqual([]);
  });

  test('says of each field what null and an empty list do where they remove', () => {
    const { properties } = found<{ properties: Record<string, { description: string }> }>('#/components/schemas/UpdateDigitalDeviceBody');
    expect(properties['physicalDevice']?.description).toContain('Null removes it, as unbindPhysicalDevice does.');
    expect(properties['dataSendingInterval']?.description).toContain('Null removes it, as clearDataSendingInterval does.');
    expect(properties['images']?.description).toContain('Null or an empty list removes them all, as clearImages does.');
    const silent = [...descriptors.methods.values()].flatMap(({ request }) => request.fields).filter((field) => {
      const { nullSets = '', emptySets = '' } = descriptors.jsonFormOf(field) ?? {};
      return nullSets + emptySets !== '' && !/Null( or an empty list)? removes|An empty list removes/.test(JSON.stringify(document.components['schemas']?.[`${field.parent.name.replace(/Request$/, '')}Body`]));
    });
    expect(silent.map(({ name }) => name)).toEqual([]);
  });

  test('asks for what a request must give, be it empty', () => {
    expect(document.components['schemas']?.['SetSensorMappingsBody']).toMatchObject({ required: ['mappings'], properties: { mappings: { type: 'array' } } });
    const optional = places.filter(({ verb, operation }) => ['put', 'patch'].includes(verb) && operation.requestBody?.required !== true);
    expect(optional.map(({ path }) => path)).toEqual([]);
  });

  test.each([
    ['Execution', ['state', 'updatedAt', 'enqueuedAt']],
    ['ExecutionInList', ['state', 'updatedAt', 'enqueuedAt']],
    ['Command', ['mode', 'verificationStrategy', 'createdAt', 'updatedAt']],
    ['DigitalDeviceInList', ['createdAt', 'updatedAt']],
    ['ConnectorKey', ['value']],
  ])('promises what every answer has: of %s %j', (name, fields) => {
    expect(document.components['schemas']?.[name]).toMatchObject({ required: expect.arrayContaining(fields) as unknown });
  });

  test('names the headers of failures', () => {
    const responses = document.components['responses'] as Record<string, { headers: object }>;
    expect(Object.keys(responses['Unauthorized']?.headers ?? {})).toEqual(['x-request-id', 'www-authenticate']);
    expect(Object.keys(responses['Unavailable']?.headers ?? {})).toEqual(['x-request-id', 'retry-after']);
  });

  test('leaves values in the comments as they are', () => {
    const { properties } = found<{ properties: Record<string, { description: string }> }>('#/components/schemas/Execution');
    expect(properties['detail']?.description).toContain('`ack_timeout`');
    expect(text).not.toMatch(/UNSPECIFIED/);
  });

  test('speaks of fields and operations by the names that JSON has for them', () => {
    const spoken = JSON.stringify(document, (name, value: unknown) => (name === 'examples' || name === 'paths' ? undefined : value));
    expect([...spoken.matchAll(/\b(?:organization_id|page_token|client_device_id|x-organization-id)\b/g)].map(([word]) => word)).toEqual([]);
  });
});

describe('the examples of the OpenAPI document', () => {
  const media = places.flatMap(({ operation }) => {
    const responses = Object.entries(operation.responses).map(([status, response]) => [status, response.$ref === undefined ? response : found<typeof response>(response.$ref)] as const);
    return [...(operation.requestBody ? [['body', operation.requestBody] as const] : []), ...responses].flatMap(([where, { content = {} }]) => Object.entries(content).map(([type, one]) => ({ name: `${operation.operationId} ${where} ${type}`, type, one })));
  });

  test('are there wherever JSON is sent or answered', () => {
    const missing = media.filter(({ type, one }) => /json|event-stream/.test(type) && examplesOf(one).length === 0);
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  test('fit to their schemas', () => {
    const wrong = media.flatMap(({ name, one }) => examplesOf(one).map((example) => ({ name, faults: faults(one.schema, example) }))).filter((one) => one.faults !== undefined);
    expect(wrong).toEqual([]);
    const parameters = places.flatMap(({ operation }) => operation.parameters ?? []).filter(({ example }) => example !== undefined);
    expect(parameters.filter(({ schema, example }) => faults(schema, example) !== undefined)).toEqual([]);
  });

  test('hold texts that say something', () => {
    const dull = media.filter(({ one }) => examplesOf(one).some((example) => JSON.stringify(example).includes(':"text"')));
    expect(dull.map(({ name }) => name)).toEqual([]);
  });

  test('are of things that work: a connection that is on, with times that devices keep, and failures that say what was wrong', () => {
    const examples = document.components['examples'] as Record<string, { value: Record<string, unknown> & { error?: { code: string; message: string } } }>;
    expect(examples['Connection']?.value).toMatchObject({ enabled: true, policy: { queueLimit: 64, deliveryTimeout: 60 } });
    const create = places.find(({ operation }) => operation.operationId === 'createConnection')?.operation.requestBody?.content['application/json'] as Media;
    expect(examplesOf(create)[0]).toMatchObject({ enabled: true, policy: { queueLimit: 64 } });
    const connector = places.find(({ operation }) => operation.operationId === 'getConnector')?.operation.parameters?.find(({ name }) => name === 'id');
    expect(connector?.example).toBe('gateway');
    const messages = Object.values(examples).flatMap(({ value: { error } }) => (error ? [error.message] : []));
    expect(messages.length).toBeGreaterThan(30);
    expect(new Set(messages).size).toBe(messages.length);
  });

  test('of requests are taken by the server as they are', () => {
    const readers = new RequestReaders(descriptors);
    const checks = new FieldRuleChecks(descriptors);
    const refused = places.flatMap(({ operation, facts, route, path }) => {
      const { parameters = [], requestBody } = operation;
      const given = parameters.filter(({ example }) => example !== undefined);
      const inPath = given.filter((one) => one.in === 'path').map(({ name, example }) => [protoName(facts, name), String(example)]);
      const query = new URLSearchParams(given.filter((one) => one.in === 'query').flatMap(({ name, example }) => (Array.isArray(example) ? example : [example]).map((one): [string, string] => [name, String(one)])));
      const json = requestBody?.content['application/json'];
      return (json ? examplesOf(json) : [undefined]).flatMap((body) => {
        const out: Violation[] = [];
        const bodyRule = route === '' ? '*' : (facts.routes.find((one) => one.route === route && (one.body === '*') === (requestBody !== undefined))?.body ?? '');
        const message = readers.of(facts).read({ path: Object.fromEntries(inPath) as Record<string, string>, query, body, bodyRule }, out);
        const violations = [...out, ...checks.violations(facts.request, message)];
        return violations.length === 0 ? [] : [{ path, violations }];
      });
    });
    expect(refused).toEqual([]);
  });
});

function protoName(facts: MethodFacts, jsonName: string): string {
  return facts.request.fields.find((field) => field.jsonName === jsonName)?.name ?? jsonName;
}

describe('the failures that the comments of the protos name', () => {
  const comments = new Comments(descriptors);
  const methods = [...descriptors.registry.files].flatMap(({ services }) => services).flatMap((service) => service.methods);

  test('are all known by their kind', () => {
    const withRoutes = methods.filter((method) => (descriptors.methods.get(`/${method.parent.typeName}/${method.name}`)?.routes.length ?? 0) > 0);
    expect(withRoutes.map((method) => ({ method: method.name, unknown: methodText(comments.of(method)).unknown })).filter(({ unknown }) => unknown.length > 0)).toEqual([]);
  });

  test('are of the kind that the code gives them', () => {
    const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts') && !file.startsWith('gen'));
    const thrown = sources.flatMap((file) => [...readFileSync(join('src', file), 'utf8').matchAll(/new DomainError\(\s*'([a-z_]+)',\s*'([a-z_]+)'/g)].map(([, kind = '', reason = '']) => ({ reason, status: STATUS_OF[kind as ErrorKind].http })));
    const wrong = thrown.filter(({ reason, status }) => methodText(`Errors: ${reason}.`).errors.some((known) => known.status !== status));
    expect(wrong).toEqual([]);
  });

  test('are read with what stands in brackets behind them', () => {
    const { text, errors } = methodText('Does it. Errors: name_taken (a (nested) one), device_not_found; for some alone: sandbox_busy.');
    expect(text).toBe('Does it.');
    expect(errors).toEqual([
      { reason: 'name_taken', kind: 'already_exists', status: 409, when: 'a (nested) one' },
      { reason: 'device_not_found', kind: 'not_found', status: 404, when: '' },
      { reason: 'sandbox_busy', kind: 'exhausted', status: 429, when: '' },
    ]);
  });
});
