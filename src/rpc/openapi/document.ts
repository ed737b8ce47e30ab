import type { Descriptors } from '../descriptors';
import { Comments } from './comments';
import { ERROR_SCHEMA, sharedResponses } from './errors';
import { SharedExamples } from './examples';
import type { JsonObject } from './json';
import { operationOf } from './operations';
import { HEADER_PARAMETERS } from './parameters';
import { placesOf } from './routes';
import { Schemas } from './schemas';
import { tagsOf } from './tags';

const INTRODUCTION = `The interface of Plantroom, an on-premises server for sites full of sensors and actuators: devices, sensors, commands and their executions, readings, connections.

**Keys.** Every operation takes an API key in the header \`X-API-Key\` and the id of its organization in \`X-Organization-Id\`; the organization may also stand in the request as \`organizationId\`. A key holds the scopes that it was created with, and each operation names the one that it needs; \`x:write\` does not imply \`x:read\`. A key in an address is refused.

**JSON.** Bodies are UTF-8 and at most 1 MiB. They are read strictly: a field or parameter that nobody knows, a value of another type, or a name that stands there twice is refused with \`validation_failed\`, which names everything that is wrong at once. \`null\` is the same as leaving a field out, unless the field says otherwise. Times are RFC 3339; answers give them in UTC. In answers lists and maps are always there, empty ones too; a field without a value is left out, or null where its type says so. Answers may gain fields.

**Lists** give \`nextPageToken\` (or \`nextCursor\`): give it back as \`pageToken\` (or \`before\`) for the next page.

**Failures** have one shape; \`error.code\` is for programs and never renamed, \`error.message\` says what was wrong and what would be right. 500 and 503 may be repeated by whoever only reads; 503 is safe for all. An unknown address is 404, one with other methods 405 with the header \`Allow\`.

**gRPC.** The same operations are served by gRPC, and each takes POST at its gRPC path with the whole request as JSON.`;

/** The OpenAPI 3.1 document of what the protos declare. The image must have been built with its comments. `version`: of the program. */
export function openApiDocument(descriptors: Descriptors, version: string): JsonObject {
  const comments = new Comments(descriptors);
  const schemas = new Schemas(descriptors, comments);
  const examples = new SharedExamples();
  const workshop = { comments, schemas, examples };
  const responses = sharedResponses(examples);
  schemas.named('Failure', ERROR_SCHEMA);
  const paths: Record<string, JsonObject> = {};
  const tags = new Set<string>();
  const places = [...descriptors.methods.values()].flatMap(placesOf).toSorted((a, b) => Number(a.kind === 'grpc') - Number(b.kind === 'grpc'));
  for (const place of places) {
    const operation = operationOf(place, workshop);
    for (const tag of operation['tags'] as string[]) tags.add(tag);
    paths[place.path] = { ...paths[place.path], [place.verb]: operation };
  }
  return {
    openapi: '3.1.1',
    info: { title: 'Plantroom', version, description: INTRODUCTION },
    servers: [{ url: '/' }],
    security: [{ ApiKey: [], OrganizationId: [] }],
    tags: tagsOf(tags),
    paths,
    components: {
      securitySchemes: {
        ApiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'The key, as it was shown when it was created: `plr_...`.' },
        OrganizationId: { type: 'apiKey', in: 'header', name: 'X-Organization-Id', description: 'The organization that the key was created in. Where the request names it as `organizationId`, this header is not needed.' },
      },
      headers: HEADERS,
      parameters: HEADER_PARAMETERS,
      responses,
      examples: Object.fromEntries([...examples.components].map(([name, value]) => [name, { value }])),
      schemas: Object.fromEntries([...schemas.components].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

const HEADERS: JsonObject = {
  RequestId: { description: 'The id of the request: the caller\'s, where it gave one.', schema: { type: 'string' } },
  RetryAfter: { description: 'When it is worth trying again, in seconds.', schema: { type: 'integer', minimum: 1 } },
  WwwAuthenticate: { description: 'That a key is asked for: `ApiKey realm="plantroom"`.', schema: { type: 'string' } },
  ETag: { description: 'What was answered, as it is now: for If-None-Match on reads, and that of a record for If-Match on update and delete.', schema: { type: 'string' } },
};
