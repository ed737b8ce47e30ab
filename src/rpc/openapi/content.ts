import { ref, type JsonObject, type Schema } from './json';

/** The types of pictures, as they are uploaded and downloaded. */
const PICTURES = ['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/avif'] as const;

const BYTES: JsonObject = { schema: { type: 'string', format: 'binary' } };

/** What an upload may be: the bytes themselves, or a form with one file. */
export function uploadContent(): JsonObject {
  const form: Schema = {
    type: 'object',
    properties: {
      organizationId: { type: 'string', maxLength: 128, description: 'The organization, if neither the header nor the query names it. Before the file.' },
      filename: { type: 'string', maxLength: 1024, description: 'The name of the file, if it is not its own. Before the file.' },
      file: { type: 'string', format: 'binary', description: 'The picture: one, as the last part.' },
    },
    required: ['file'],
    additionalProperties: false,
  };
  return { 'multipart/form-data': { schema: form, encoding: { file: { contentType: PICTURES.join(', ') } } }, ...pictures(), 'application/octet-stream': BYTES };
}

/** The answers of a download. */
export function downloadResponses(headers: JsonObject): Map<number, JsonObject> {
  const all = { ...headers, 'accept-ranges': plainHeader('`bytes`: ranges are understood.'), ETag: ref('headers', 'ETag') };
  return new Map([
    [200, { description: 'The picture.', headers: all, content: pictures() }],
    [206, { description: 'The bytes of the range.', headers: { ...all, 'content-range': plainHeader('Which bytes these are, and of how many.') }, content: pictures() }],
    [304, { description: 'It is still what If-None-Match says.', headers: all }],
  ]);
}

/** A stream of answers: a line of JSON each, or an event each. */
export function streamContent(schema: Schema, examples: JsonObject): JsonObject {
  return { 'text/event-stream': { schema, examples }, 'application/x-ndjson': { schema, examples } };
}

function pictures(): JsonObject {
  return Object.fromEntries(PICTURES.map((type) => [type, BYTES]));
}

function plainHeader(description: string): JsonObject {
  return { description, schema: { type: 'string' } };
}
