import { ref, type JsonObject, type Schema } from './json';

/** The types of images that can be uploaded and downloaded. */
const IMAGE_TYPES = ['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/avif'] as const;

const BYTES: JsonObject = { schema: { type: 'string', format: 'binary' } };

// For client generators that do not support image types.
const ANY_BYTES = 'application/octet-stream';

/**
 * Builds the content of the body of an upload: a form with one file, or the bytes of the image. The server also accepts
 * the bytes with the type of the image. Only the description of the method mentions it, because client generators
 * reject such a body.
 */
export function buildUploadContent(): JsonObject {
  const form: Schema = {
    type: 'object',
    properties: {
      organizationId: {
        type: 'string',
        maxLength: 128,
        description: 'The organization, if neither the header nor the query contains it. Send it before the file.',
      },
      filename: {
        type: 'string',
        maxLength: 1024,
        description: 'The name of the image, if it differs from the name of the file. Send it before the file.',
      },
      file: {
        type: 'string',
        format: 'binary',
        description: `One image, as the last part: ${IMAGE_TYPES.join(', ')}.`,
      },
    },
    required: ['file'],
    additionalProperties: false,
  };
  return { 'multipart/form-data': { schema: form }, [ANY_BYTES]: BYTES };
}

/** Builds the responses of a download by status: all bytes, a range of them, or none if the client has them. */
export function buildDownloadResponses(headers: JsonObject): Map<number, JsonObject> {
  const headersOfDownload = {
    ...headers,
    'accept-ranges': buildHeader('`bytes`: range requests are supported.'),
    ETag: ref('headers', 'ETag'),
  };
  return new Map([
    [200, { description: 'The image.', headers: headersOfDownload, content: buildImageContent() }],
    [
      206,
      {
        description: 'The bytes of the range.',
        headers: { ...headersOfDownload, 'content-range': buildHeader('The range of the bytes, and the total size.') },
        content: buildImageContent(),
      },
    ],
    [
      304,
      { description: 'The content has not changed since the version in If-None-Match.', headers: headersOfDownload },
    ],
  ]);
}

/**
 * Builds the content of a stream: one message per line of JSON, or per event. ogen, a generator of Go clients, cannot
 * encode events; the extension makes it return the raw response instead.
 */
export function buildStreamContent(schema: Schema, examples: JsonObject): JsonObject {
  return {
    'text/event-stream': { schema, examples, 'x-ogen-raw-response': true },
    'application/x-ndjson': { schema, examples },
  };
}

/** Builds the content of a response that is an image of any type. */
function buildImageContent(): JsonObject {
  return Object.fromEntries([...IMAGE_TYPES, ANY_BYTES].map((type) => [type, BYTES]));
}

function buildHeader(description: string): JsonObject {
  return { description, schema: { type: 'string' } };
}
