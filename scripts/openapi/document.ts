import type { Descriptors } from '../../src/api/descriptors/descriptors';
import { Comments } from './comments';
import { ERROR_SCHEMA, buildSharedResponses } from './errors';
import { SharedExamples } from './examples';
import type { JsonObject } from './json';
import { buildOperationObject } from './operations';
import { HEADER_PARAMETERS } from './parameters';
import { findOperations, type DocumentKind } from './routes';
import { Schemas } from './schemas';
import { listTags } from './tags';

const INTRODUCTION = `The API of Plantroom, an on-premises server for sensors and actuators: devices, sensors, commands and their executions, readings, connections.

**Keys.** Send an API key in the header \`X-API-Key\` and the id of its organization in \`X-Organization-Id\`; the organization may also be in the request as \`organizationId\`. A key has the scopes that it was created with, and each operation lists the scope that it needs. \`x:write\` does not include \`x:read\`; the only scope that includes another one is \`commands:write\`, which includes \`commands:execute\`. A key in a URL is rejected.

**JSON.** Bodies are UTF-8 and at most 1 MiB. They are checked strictly: an unknown field or parameter, a value of the wrong type, or a duplicate name is rejected with \`validation_failed\`, which lists all violations. \`null\` means the same as omitting a field, unless the field is described otherwise. Times are RFC 3339; responses contain them in UTC. Responses always contain lists and maps, even if they are empty; a field without a value is omitted, or null if its type allows it. Later versions may add fields to responses.

**Lists** return \`nextPageToken\` (or \`nextCursor\`): send it as \`pageToken\` (or \`before\`) to get the next page.

**Errors** have one format: \`error.code\` is for programs and is never renamed; \`error.message\` says what is wrong and how to fix it. After 500, only retry reads; after 503, you can retry every request. An unknown path returns 404; a path that does not support the method returns 405 with the header \`Allow\`.

**gRPC.** The same operations are available over gRPC, and with POST at the gRPC path with the complete request as JSON.`;

/** The version of the API in the specification. It is independent of the version of the program. */
const API_VERSION = '1.0.0';

/** The texts of the two documents; each refers to the other. */
const DOCUMENTS: Readonly<Record<DocumentKind, { readonly title: string; readonly description: string }>> = {
  rest: { title: 'Plantroom', description: `${INTRODUCTION} \`/openapi-grpc.json\` describes these operations.` },
  grpc: {
    title: 'Plantroom: gRPC paths',
    description: `Every operation of \`/openapi.json\` as POST at its gRPC path, with the complete request as one JSON object, for programs that are generated from the protos. Names, checks, responses and statuses are the same as in the other document, which also explains keys, JSON, lists and errors.`,
  },
};

/** Builds the OpenAPI 3.1 document of the protos. The descriptor image must contain comments. */
export function buildOpenApiDocument(descriptors: Descriptors, kind: DocumentKind): JsonObject {
  const comments = new Comments(descriptors);
  const schemas = new Schemas(descriptors, comments);
  const examples = new SharedExamples();
  const context = { comments, schemas, examples };
  const shared = buildSharedResponses(examples);
  schemas.addSchema('Failure', ERROR_SCHEMA);
  const paths: Record<string, JsonObject> = {};
  const tags = new Set<string>();
  const operations = [...descriptors.methods.values()].flatMap((method) => findOperations(method, kind));
  for (const operation of operations) {
    const operationObject = buildOperationObject(operation, context);
    for (const tag of operationObject['tags'] as string[]) tags.add(tag);
    paths[operation.path] = { ...paths[operation.path], [operation.verb]: operationObject };
  }
  const responses = keepReferenced('responses', shared, { paths });
  const exampleValues = Object.fromEntries([...examples.components].map(([name, value]) => [name, { value }]));
  return {
    openapi: '3.1.1',
    info: {
      ...DOCUMENTS[kind],
      version: API_VERSION,
      contact: { name: 'Plantroom' },
      license: { name: 'Proprietary' },
    },
    servers: [{ url: '/' }],
    security: [{ ApiKeyHeader: [], OrganizationHeader: [] }],
    tags: listTags(tags),
    paths,
    components: {
      securitySchemes: {
        ApiKeyHeader: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'The API key that was shown when it was created: `plr_...`.',
        },
        OrganizationHeader: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Organization-Id',
          description:
            'The organization in which the key was created. Not needed if the request contains it as `organizationId`.',
        },
      },
      headers: HEADERS,
      parameters: keepReferenced('parameters', HEADER_PARAMETERS, { paths }),
      responses,
      examples: keepReferenced('examples', exampleValues, { paths, responses }),
      schemas: Object.fromEntries([...schemas.components].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

/** Returns the components of a kind, such as `responses`, that `document` refers to by name. */
function keepReferenced(kind: string, components: JsonObject, document: JsonObject): JsonObject {
  const text = JSON.stringify(document);
  return Object.fromEntries(
    Object.entries(components).filter(([name]) => text.includes(`"#/components/${kind}/${name}"`)),
  );
}

const HEADERS: JsonObject = {
  RequestId: {
    description: 'The id of the request: the one that the client sent, or a new one.',
    schema: { type: 'string' },
  },
  RetryAfter: { description: 'The number of seconds after which to retry.', schema: { type: 'integer', minimum: 1 } },
  WwwAuthenticate: {
    description: 'Indicates that an API key is required: `ApiKey realm="plantroom"`.',
    schema: { type: 'string' },
  },
  ETag: {
    description:
      'The version of the response. Send it as If-None-Match with reads; send that of a record as If-Match with updates and deletes.',
    schema: { type: 'string' },
  },
};
