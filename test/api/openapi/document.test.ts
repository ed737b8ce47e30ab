import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020';
import type { ErrorKind, Violation } from '../../../src/kernel/errors';
import { readAsset } from '../../../src/kernel/assets';
import { Descriptors, type MethodDescriptor } from '../../../src/api/descriptors/descriptors';
import { RequestReaders } from '../../../src/api/json/requestReader';
import { generate } from '../../../scripts/openapi/generate';
import { parseMethodText } from '../../../scripts/openapi/reasons';
import { Comments } from '../../../scripts/openapi/comments';
import { STATUS_BY_KIND } from '../../../src/api/errors/errorTable';
import { FieldRuleChecks } from '../../../src/api/validation/fieldRuleChecks';
import { listViolations } from '../../support/listViolations';

interface Media {
  readonly schema: object;
  readonly example?: unknown;
  readonly examples?: Record<string, { value?: unknown; $ref?: string }>;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: string[];
  readonly description: string;
  readonly 'x-required-scope': string;
  readonly security: object[];
  readonly parameters?: {
    $ref?: string;
    name: string;
    in: string;
    schema: object;
    example?: unknown;
    required?: boolean;
  }[];
  readonly requestBody?: { required?: boolean; content: Record<string, Media> };
  readonly responses: Record<string, { $ref?: string; content?: Record<string, Media> }>;
}

interface Document {
  readonly info: { version: string };
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: Record<string, Record<string, unknown>>;
  readonly tags: { name: string }[];
}

interface Place {
  readonly verb: string;
  readonly path: string;
  readonly operation: Operation;
  readonly descriptor: MethodDescriptor;
  readonly route: string;
}

// Includes comments, which the image of the program does not have.
const image = execFileSync('node_modules/.bin/buf', ['build', 'proto', '-o', '-'], { maxBuffer: 64 * 1024 * 1024 });
const descriptors = new Descriptors(image);
const KINDS = ['rest', 'grpc'] as const;
const FILES = { rest: 'openapi.json', grpc: 'openapi-grpc.json' } as const;
const texts = { rest: generate(image, 'rest'), grpc: generate(image, 'grpc') };
const documents = { rest: JSON.parse(texts.rest) as Document, grpc: JSON.parse(texts.grpc) as Document };

/** Both documents merged. A test checks that what has the same name in both is the same. */
const document: Document = {
  ...documents.rest,
  paths: { ...documents.rest.paths, ...documents.grpc.paths },
  components: Object.fromEntries(
    Object.entries(documents.rest.components).map(([kind, named]) => [
      kind,
      { ...named, ...documents.grpc.components[kind] },
    ]),
  ),
};

const camel = (path: string): string =>
  path.replaceAll(/_([a-z])(?=[a-z_]*\})/g, (_, letter: string) => letter.toUpperCase());

/** The operations of the protos, by verb and path as OpenAPI writes them. */
const declared = new Map<string, { descriptor: MethodDescriptor; route: string }>(
  [...descriptors.methods.values()].flatMap((descriptor) => {
    const routes = descriptor.routes.map(
      ({ verb, route }) => [`${verb} ${camel(route)}`, { descriptor, route }] as const,
    );
    const takesOne = descriptor.kind === 'unary' || descriptor.kind === 'server_streaming';
    return takesOne ? [...routes, [`POST ${descriptor.path}`, { descriptor, route: '' }] as const] : routes;
  }),
);
const places: Place[] = Object.entries(document.paths).flatMap(([path, verbs]) =>
  Object.entries(verbs).map(([verb, operation]) => ({
    verb,
    path,
    operation,
    ...(declared.get(`${verb.toUpperCase()} ${path}`) as { descriptor: MethodDescriptor; route: string }),
  })),
);

const ajv = new Ajv2020({
  strict: false,
  validateFormats: true,
  formats: {
    'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/,
    int32: true,
    double: true,
    binary: true,
  },
});
const compiled = new Map<string, ValidateFunction>();
ajv.addSchema({ $id: 'document', ...document });

/** Returns how a value violates a schema of the document. */
function findViolations(schema: object, value: unknown): unknown {
  const key = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/');
  const check = compiled.get(key) ?? ajv.compile(JSON.parse(key) as object);
  compiled.set(key, check);
  return check(value) ? undefined : check.errors;
}

function found<T>(reference: string, where = document): T {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], where) as T;
}

function listExamples({ example, examples = {} }: Media): unknown[] {
  return [
    ...(example === undefined ? [] : [example]),
    ...Object.values(examples).map((one) =>
      one.$ref === undefined ? one.value : found<{ value: unknown }>(one.$ref).value,
    ),
  ];
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    name === '$ref' && typeof inner === 'string' ? [inner] : referencesIn(inner),
  );
}

describe.each(KINDS)('the OpenAPI document of %s', (kind) => {
  test('equals the file of the build', () => {
    expect(readAsset(FILES[kind]).toString('utf8')).toBe(texts[kind]);
  });

  test('is valid OpenAPI 3.1 according to an external validator', async () => {
    const { valid, errors } = await new Validator().validate(JSON.parse(texts[kind]) as Record<string, unknown>);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  test('has no dangling reference and no unused component', () => {
    const own = documents[kind];
    const references = new Set(referencesIn(own));
    expect([...references].filter((one) => found(one, own) === undefined)).toEqual([]);
    const components = Object.entries(own.components).filter(([name]) => name !== 'securitySchemes');
    expect(
      components
        .flatMap(([name, named]) => Object.keys(named).map((one) => `#/components/${name}/${one}`))
        .filter((one) => !references.has(one)),
    ).toEqual([]);
  });

  test('lists exactly the tags of its operations', () => {
    const used = Object.values(documents[kind].paths)
      .flatMap((verbs) => Object.values(verbs))
      .flatMap(({ tags }) => tags);
    expect(documents[kind].tags.map(({ name }) => name).toSorted()).toEqual([...new Set(used)].toSorted());
  });

  test('names the contact and the license', () => {
    expect(JSON.parse(texts[kind])).toMatchObject({
      info: { contact: { name: 'Plantroom' }, license: { name: 'Proprietary' } },
    });
  });

  test('has complete sentences as summaries', () => {
    const summaries = Object.values(documents[kind].paths)
      .flatMap((verbs) => Object.values(verbs))
      .map(({ summary, description }) => ({ summary, description }));
    const unbalanced = summaries.filter(({ summary }) => summary.split('(').length !== summary.split(')').length);
    expect(unbalanced).toEqual([]);
    expect(
      summaries.filter(({ summary, description }) => kind === 'rest' && !description.startsWith(`${summary}.`)),
    ).toEqual([]);
  });

  test('uses no name and no construct that breaks generators', () => {
    const { schemas = {}, securitySchemes = {} } = documents[kind].components;
    // oapi-codegen calls the result of an operation `<operation>Response`.
    const operations = new Set(
      Object.values(documents[kind].paths)
        .flatMap((verbs) => Object.values(verbs))
        .map(({ operationId }) => `${operationId}Response`.toLowerCase()),
    );
    expect(
      Object.keys(schemas).filter((name) => operations.has(name.toLowerCase()) || name.endsWith('Response')),
    ).toEqual([]);
    // ogen generates a type for each security scheme, next to those of the schemas.
    expect(Object.keys(securitySchemes).filter((name) => name in schemas)).toEqual([]);
    expect(texts[kind]).not.toContain('"anyOf"');
  });
});

describe('the OpenAPI documents', () => {
  test('use the same name for the same thing', () => {
    const differing = Object.entries(documents.rest.components).flatMap(([kind, named]) =>
      Object.keys(named as object).filter((name) => {
        const [rest, grpc] = KINDS.map((one) => (documents[one].components[kind] as Record<string, unknown>)[name]);
        return grpc !== undefined && JSON.stringify(rest) !== JSON.stringify(grpc);
      }),
    );
    expect(differing).toEqual([]);
  });

  test('contain the routes of the protos in one and the gRPC paths in the other', () => {
    expect(Object.keys(documents.rest.paths).filter((path) => !path.startsWith('/api/'))).toEqual([]);
    expect(Object.keys(documents.grpc.paths).filter((path) => !descriptors.methods.has(path))).toEqual([]);
  });

  test('contain exactly the routes of the protos and the gRPC paths', () => {
    const written = Object.entries(document.paths).flatMap(([path, verbs]) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
    );
    expect(written.toSorted()).toEqual([...declared.keys()].toSorted());
  });

  test('name every operation once', () => {
    const names = places.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
  });

  test('have the version and the tags of the specification', () => {
    const areas =
      'Users, Devices, Sensors, Commands, Telemetry, Connections, Connectors, Dashboards, Orgs, Subscriptions, Api-Keys, Rules'.split(
        ', ',
      );
    expect(document.info.version).toBe('1.0.0');
    const used = places.filter(({ path }) => path.startsWith('/api/')).flatMap(({ operation }) => operation.tags);
    expect([...new Set(used)].filter((tag) => !areas.includes(tag))).toEqual([]);
    const names = document.tags.map(({ name }) => name);
    expect(names.filter((name) => areas.includes(name))).toEqual(areas.filter((area) => names.includes(area)));
  });

  test('state the scope, the statuses and the errors of every operation', () => {
    for (const { operation, descriptor } of places) {
      expect(operation['x-required-scope']).toBe(descriptor.scope);
      const statuses = Object.keys(operation.responses);
      const success =
        descriptor.content === 'json'
          ? [descriptor.successStatus, ...descriptor.statusRules.map(({ status }) => status)]
          : [];
      const key = descriptor.scope === 'none' ? [] : [401, 403];
      expect([operation.operationId, statuses]).toEqual([
        operation.operationId,
        expect.arrayContaining([...success, ...key, 400, 500, 503].map(String)),
      ]);
      expect([operation.operationId, operation.security.length > 0]).toEqual([
        operation.operationId,
        descriptor.scope !== 'none',
      ]);
      if (descriptor.scope !== 'none' && descriptor.scope !== 'any')
        expect(operation.description).toContain(`\`${descriptor.scope}\``);
    }
  });

  test('describe every operation, parameter and field', () => {
    const schemas = Object.entries(
      document.components['schemas'] as Record<string, { properties?: Record<string, { description?: string }> }>,
    );
    expect(
      schemas
        .flatMap(([name, { properties = {} }]) =>
          Object.entries(properties).map(([field, schema]) => [`${name}.${field}`, schema] as const),
        )
        .filter(([, { description }]) => !description)
        .map(([name]) => name)
        .filter((name) => !name.startsWith('Failure.')),
    ).toEqual([]);
    expect(
      places.filter(({ operation }) => operation.description === '').map(({ operation }) => operation.operationId),
    ).toEqual([]);
  });

  test('state for each field what null and an empty list do where they remove', () => {
    const { properties } = found<{ properties: Record<string, { description: string }> }>(
      '#/components/schemas/UpdateDigitalDeviceBody',
    );
    expect(properties['physicalDevice']?.description).toContain('Null removes it, as unbindPhysicalDevice does.');
    expect(properties['dataSendingInterval']?.description).toContain(
      'Null removes it, as clearDataSendingInterval does.',
    );
    expect(properties['images']?.description).toContain('Null or an empty list removes them all, as clearImages does.');
    const silent = [...descriptors.methods.values()]
      .flatMap(({ request }) => request.fields)
      .filter((field) => {
        const { nullClears = '', emptyClears = '' } = descriptors.findJsonForm(field) ?? {};
        return (
          nullClears + emptyClears !== '' &&
          !/Null( or an empty list)? removes|An empty list removes/.test(
            JSON.stringify(document.components['schemas']?.[`${field.parent.name.replace(/Request$/, '')}Body`]),
          )
        );
      });
    expect(silent.map(({ name }) => name)).toEqual([]);
  });

  test('require what a request must contain, even if it is empty', () => {
    expect(document.components['schemas']?.['SetSensorMappingsBody']).toMatchObject({
      required: ['mappings'],
      properties: { mappings: { type: 'array' } },
    });
    const optional = places.filter(
      ({ verb, operation }) => ['put', 'patch'].includes(verb) && operation.requestBody?.required !== true,
    );
    expect(optional.map(({ path }) => path)).toEqual([]);
  });

  test.each([
    ['Execution', ['state', 'updatedAt', 'enqueuedAt']],
    ['ExecutionInList', ['state', 'updatedAt', 'enqueuedAt']],
    ['Command', ['mode', 'verificationStrategy', 'createdAt', 'updatedAt']],
    ['DigitalDeviceInList', ['createdAt', 'updatedAt']],
    ['ConnectorKey', ['value']],
  ])('state the fields that every response contains: of %s %j', (name, fields) => {
    expect(document.components['schemas']?.[name]).toMatchObject({
      required: expect.arrayContaining(fields) as unknown,
    });
  });

  test('name the headers of failures', () => {
    const responses = document.components['responses'] as Record<string, { headers: object }>;
    expect(Object.keys(responses['Unauthorized']?.headers ?? {})).toEqual(['x-request-id', 'www-authenticate']);
    expect(Object.keys(responses['Unavailable']?.headers ?? {})).toEqual(['x-request-id', 'retry-after']);
  });

  test('leave values in the comments unchanged', () => {
    const { properties } = found<{ properties: Record<string, { description: string }> }>(
      '#/components/schemas/Execution',
    );
    expect(properties['detail']?.description).toContain('`ack_timeout`');
    expect(texts.rest + texts.grpc).not.toMatch(/UNSPECIFIED/);
  });

  test('refer to fields and operations by their JSON names', () => {
    const spoken = JSON.stringify(document, (name, value: unknown) =>
      name === 'examples' || name === 'paths' ? undefined : value,
    );
    expect(
      [...spoken.matchAll(/\b(?:organization_id|page_token|client_device_id|x-organization-id)\b/g)].map(
        ([word]) => word,
      ),
    ).toEqual([]);
  });
});

describe('the examples of the OpenAPI document', () => {
  const media = places.flatMap(({ operation }) => {
    const responses = Object.entries(operation.responses).map(
      ([status, response]) =>
        [status, response.$ref === undefined ? response : found<typeof response>(response.$ref)] as const,
    );
    return [...(operation.requestBody ? [['body', operation.requestBody] as const] : []), ...responses].flatMap(
      ([where, { content = {} }]) =>
        Object.entries(content).map(([type, one]) => ({
          name: `${operation.operationId} ${where} ${type}`,
          type,
          one,
        })),
    );
  });

  test('exist wherever JSON is sent or returned', () => {
    const missing = media.filter(({ type, one }) => /json|event-stream/.test(type) && listExamples(one).length === 0);
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  test('match their schemas', () => {
    const wrong = media
      .flatMap(({ name, one }) =>
        listExamples(one).map((example) => ({ name, faults: findViolations(one.schema, example) })),
      )
      .filter((one) => one.faults !== undefined);
    expect(wrong).toEqual([]);
    const parameters = places
      .flatMap(({ operation }) => operation.parameters ?? [])
      .filter(({ example }) => example !== undefined);
    expect(parameters.filter(({ schema, example }) => findViolations(schema, example) !== undefined)).toEqual([]);
  });

  test('contain meaningful texts', () => {
    const uninformative = media.filter(({ one }) =>
      listExamples(one).some((example) => JSON.stringify(example).includes(':"text"')),
    );
    expect(uninformative.map(({ name }) => name)).toEqual([]);
  });

  test('show working resources: an enabled connection, times that devices keep, and failures that state the cause', () => {
    const examples = document.components['examples'] as Record<
      string,
      { value: Record<string, unknown> & { error?: { code: string; message: string } } }
    >;
    expect(examples['Connection']?.value).toMatchObject({
      enabled: true,
      policy: { queueLimit: 64, deliveryTimeout: 60 },
    });
    const create = places.find(({ operation }) => operation.operationId === 'createConnection')?.operation.requestBody
      ?.content['application/json'] as Media;
    expect(listExamples(create)[0]).toMatchObject({ enabled: true, policy: { queueLimit: 64 } });
    const connector = places
      .find(({ operation }) => operation.operationId === 'getConnector')
      ?.operation.parameters?.find(({ name }) => name === 'id');
    expect(connector?.example).toBe('gateway');
    const messages = Object.values(examples).flatMap(({ value: { error } }) => (error ? [error.message] : []));
    expect(messages.length).toBeGreaterThan(30);
    expect(new Set(messages).size).toBe(messages.length);
  });

  test('of requests are accepted by the server unchanged', () => {
    const readers = new RequestReaders(descriptors);
    const checks = new FieldRuleChecks(descriptors);
    const refused = places.flatMap(({ operation, descriptor, route, path }) => {
      const { parameters = [], requestBody } = operation;
      const given = parameters.filter(({ example }) => example !== undefined);
      const inPath = given
        .filter((one) => one.in === 'path')
        .map(({ name, example }) => [protoName(descriptor, name), String(example)]);
      const query = new URLSearchParams(
        given
          .filter((one) => one.in === 'query')
          .flatMap(({ name, example }) =>
            (Array.isArray(example) ? example : [example]).map((one): [string, string] => [name, String(one)]),
          ),
      );
      const json = requestBody?.content['application/json'];
      return (json ? listExamples(json) : [undefined]).flatMap((body) => {
        const out: Violation[] = [];
        const bodyRule =
          route === ''
            ? '*'
            : (descriptor.routes.find(
                (one) => one.route === route && (one.body === '*') === (requestBody !== undefined),
              )?.body ?? '');
        const message = readers
          .createReader(descriptor)
          .read({ path: Object.fromEntries(inPath) as Record<string, string>, query, body, bodyRule }, out);
        const violations = [...out, ...listViolations(checks, descriptor.request, message)];
        return violations.length === 0 ? [] : [{ path, violations }];
      });
    });
    expect(refused).toEqual([]);
  });
});

function protoName(descriptor: MethodDescriptor, jsonName: string): string {
  return descriptor.request.fields.find((field) => field.jsonName === jsonName)?.name ?? jsonName;
}

describe('the failures named in the comments of the protos', () => {
  const comments = new Comments(descriptors);
  const methods = [...descriptors.registry.files]
    .flatMap(({ services }) => services)
    .flatMap((service) => service.methods);

  test('are all of a known kind', () => {
    const withRoutes = methods.filter(
      (method) => (descriptors.methods.get(`/${method.parent.typeName}/${method.name}`)?.routes.length ?? 0) > 0,
    );
    expect(
      withRoutes
        .map((method) => ({ method: method.name, unknown: parseMethodText(comments.getText(method)).unknown }))
        .filter(({ unknown }) => unknown.length > 0),
    ).toEqual([]);
  });

  test('have the kind that the code gives them', () => {
    const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && !file.startsWith('gen'),
    );
    const thrown = sources.flatMap((file) =>
      [...readFileSync(join('src', file), 'utf8').matchAll(/new DomainError\(\s*'([a-z_]+)',\s*'([a-z_]+)'/g)].map(
        ([, kind = '', reason = '']) => ({ reason, status: STATUS_BY_KIND[kind as ErrorKind].http }),
      ),
    );
    const wrong = thrown.filter(({ reason, status }) =>
      parseMethodText(`Errors: ${reason}.`).errors.some((known) => known.status !== status),
    );
    expect(wrong).toEqual([]);
  });

  test('are parsed with the text in brackets after them', () => {
    const { text, errors } = parseMethodText(
      'Does it. Errors: name_taken (a (nested) one), device_not_found; for some alone: codec_queue_full.',
    );
    expect(text).toBe('Does it.');
    expect(errors).toEqual([
      { reason: 'name_taken', kind: 'already_exists', status: 409, when: 'a (nested) one' },
      { reason: 'device_not_found', kind: 'not_found', status: 404, when: '' },
      { reason: 'codec_queue_full', kind: 'exhausted', status: 429, when: '' },
    ]);
  });
});
